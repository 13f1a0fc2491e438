"""A server that tells the generation of its index, with its answers: which pairs are stale."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from time import sleep

import pytest

from harness.agreement import Class
from harness.core.run import Status
from harness.shadow.log import Read
from harness.shadow.pair import stated
from harness.shadow.server import Backend, Reading, Unreadable
from tests.make.shadow.comparisons import comparison, drained
from tests.make.shadow.servers import (
    READING,
    Sent,
    Server,
    candidate,
    found_of,
    mirrored,
    moved_to,
    settled,
)

TELLS = Reading.model_validate({
    **READING.model_dump(),
    "answer": {**READING.answer.model_dump(), "generation": "/index/generation"},
})
FOUND = {**found_of("apple", 9), "index": {"generation": 7}}
ASKED = "/search?q=apple"


def asked(folder: Path, control: Server, other: Server, times: int) -> Read:
    """Ask a question some times, each time when the pair before is written."""
    with (
        comparison(folder, candidate(other, TELLS)) as made,
        mirrored(control, made, TELLS) as client,
    ):
        for attempts in range(1, times + 1):
            assert client.get(ASKED).status_code == 204
            found = settled(made, attempts=attempts)
    return found


def moving(*numbers: int) -> Server:
    """Give a server that tells the next of the numbers with each answer."""
    left = iter(numbers)

    def told(sent: Sent) -> Sent:
        return moved_to(next(left))(sent)

    return Server(told)


def generations(read: Read, arm: str) -> list[str]:
    """Give the last character of an arm's generation in each pair."""
    sides = [getattr(one, arm) for one in read.observations]
    return [side.generation[-1] for side in sides]


def outcomes(read: Read) -> list[Class]:
    return [one.outcome for one in read.observations]


def test_nothing_is_known_before_the_first_answer() -> None:
    backend = Backend(TELLS, "http", "a")
    digits = backend.manifest.fingerprint[:16]
    assert (backend.generation, backend.now()) == (None, "")
    assert backend.read(FOUND, 10).generation == f"{digits}:7"
    assert (backend.generation, backend.now()) == (7, f"{digits}:7")


def test_a_server_that_tells_none_has_that_of_its_name() -> None:
    backend = Backend(READING, "http", "a")
    assert backend.read(FOUND, 10).generation == backend.now() == backend.manifest.fingerprint[:16]
    assert stated("ab", backend.generation) == "ab"


@pytest.mark.parametrize("index", [None, {}, {"generation": None}, {"generation": True},
                                   {"generation": ""}, {"generation": [1]}])  # fmt: skip
def test_a_server_that_promised_to_tell_and_does_not_has_failed(index: object) -> None:
    with pytest.raises(Unreadable, match="generation"):
        Backend(TELLS, "http", "a").read({**FOUND, "index": index}, 10)


def test_pairs_of_indexes_that_stand_still_are_compared(tmp_path: Path) -> None:
    read = asked(tmp_path, Server(moved_to(3)), Server(moved_to("x")), 3)
    assert outcomes(read) == [Class.EXACT] * 3
    assert generations(read, "control") == ["3"] * 3
    assert generations(read, "candidate") == ["x"] * 3


def test_a_candidate_whose_index_moved_since_its_last_answer_is_stale_once(tmp_path: Path) -> None:
    read = asked(tmp_path, Server(moved_to(3)), moving(1, 1, 2, 2), 4)
    assert outcomes(read) == [Class.EXACT, Class.EXACT, Class.STALE, Class.EXACT]


def test_a_control_whose_index_moves_while_the_candidate_is_asked_is_stale(tmp_path: Path) -> None:
    moved = Event()

    def waits(sent: Sent) -> Sent:
        assert moved.wait(20)
        return moved_to("x")(sent)

    with comparison(tmp_path, candidate(Server(waits), TELLS)) as made:
        with mirrored(moving(1, 2), made, TELLS) as client:
            client.get(ASKED)
            client.get(ASKED)
            while made.counts.attempted < 2:
                sleep(0.002)
            moved.set()
        found = drained(made)
    assert outcomes(found) == [Class.STALE, Class.EXACT]
    assert generations(found, "control") == ["1", "2"]


def test_a_candidate_that_does_not_tell_failed_and_is_not_stale(tmp_path: Path) -> None:
    read = asked(tmp_path, Server(moved_to(3)), Server(lambda sent: Sent(200, [], sent.body)), 1)
    assert outcomes(read) == [Class.ERROR]
    assert read.observations[0].candidate is not None
    assert read.observations[0].candidate.status is Status.FAILED
