"""The comparison, with its lane and its recorder: it samples, sheds, switches, and goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import cast

import pytest

from harness.agreement import DEEPEST, Class
from harness.core.engine import Answer
from harness.core.errors import HarnessError
from harness.core.reading import MAX_LINE_BYTES
from harness.core.records import Scalar
from harness.shadow import log, worker
from harness.shadow.comparison import UNWRITABLE, LiveComparison, Sampler, Shadowed, ShedReason
from harness.shadow.log import OFF, Stream
from harness.shadow.record import ProblemKind
from harness.shadow.recorder import LOOK_S
from tests.make.arms import Hand
from tests.make.shadow_log import LIMITS, MS, RECORDING, changed, comparison, drained, here
from tests.shadow.arms import OTHER, Arm, Plain, arm, broken, given, hits

SLOW = changed(RECORDING, linger_ms=100.0)
"""All that is asked in one test is written in one batch."""


def ask(made: LiveComparison, count: int, text: str = "ab") -> None:
    shadowed = Shadowed(Arm(), made)
    for _ in range(count):
        shadowed.search(text, 10)


def until(true: Callable[[], object]) -> None:
    """Wait until it is so."""
    for _ in range(2_000):
        if true():
            return
        time.sleep(0.005)
    pytest.fail("it is still not so")


@pytest.fixture
def hand(monkeypatch: pytest.MonkeyPatch) -> Hand:
    """Turn the clock by hand that says when a candidate may start again."""
    hand = Hand()
    monkeypatch.setattr(worker, "monotonic_ns", hand.now_ns)
    return hand


def fails(*_: object) -> None:
    """Write to a disk that is full."""
    raise OSError(28, "No space left on device")


class Held:
    """A candidate that waits until it is let go."""

    def __init__(self) -> None:
        self.go = Event()
        self.arm = Arm(OTHER, self.act)

    def act(self, _: str, __: int) -> Answer:
        assert self.go.wait(30)
        return Answer(hits("ab"), OTHER.fingerprint)


def test_the_sampler_says_which_queries_are_attempts(tmp_path: Path) -> None:
    with comparison(tmp_path, here(arm()), rate=250_000) as made:
        ask(made, 100)
        found = drained(made)
        counts = made.counts
    sampler = Sampler(rate=250_000, seed=1)
    picked = [n for n in range(1, 101) if sampler.takes(n)]
    assert [one.served for one in found.observations] == picked
    assert [one.number for one in found.observations] == list(range(1, len(picked) + 1))
    assert (counts.served, counts.attempted) == (100, len(picked))


def test_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    for _ in range(3):
        with comparison(tmp_path, here(arm()), rate=500_000) as made:
            ask(made, 10)
            drained(made)
            assert made.counts.served == 10
    found = log.read_logs(tmp_path)
    assert [one.number for one in found.observations] == list(range(1, 16))
    assert [one.served for one in found.observations] == sorted(
        one.served for one in found.observations
    )
    assert found.missing == 0


def test_what_does_not_fit_is_shed_and_written_down(tmp_path: Path) -> None:
    held = Held()
    limits = changed(LIMITS, queue=3)
    with comparison(tmp_path, here(given(held.arm)), limits=limits) as made:
        ask(made, 10)
        held.go.set()
        found = drained(made)
        assert made.counts.shed == {ShedReason.QUEUE: 6}
    tally = found.tally
    assert (tally.attempted, tally.compared, tally.shed) == (10, 4, 6)
    assert {one.reason for one in found.observations if one.outcome is Class.SHED} == {"queue"}
    assert {one.kind for one in found.degradations} == {ProblemKind.SHED}


def test_a_minute_has_its_budget(tmp_path: Path) -> None:
    limits = changed(LIMITS, budget_s=1e-9)
    with comparison(tmp_path, here(arm()), limits=limits) as made:
        ask(made, 1)
        drained(made)
        ask(made, 3)
        found = drained(made)
    assert [one.reason for one in found.observations] == ["", *["budget"] * 3]


def test_a_switch_sheds_and_is_said(tmp_path: Path) -> None:
    with comparison(tmp_path, here(arm())) as made:
        made.switch_off("too dear")
        ask(made, 2)
        made.switch_on()
        ask(made, 1)
        found = drained(made)
    assert [one.reason for one in found.observations] == ["off", "off", ""]
    (said,) = [one for one in found.degradations if one.kind is ProblemKind.DISABLED]
    assert said.cause == "too dear"


def test_a_file_switches_it_off_from_the_first_question_on_while_it_is_there(
    tmp_path: Path,
) -> None:
    (tmp_path / OFF).touch()
    with comparison(tmp_path, here(arm())) as made:
        ask(made, 2)
        (tmp_path / OFF).unlink()
        until(lambda: not made.off)
        ask(made, 1)
        (tmp_path / OFF).touch()
        until(lambda: made.off)
        ask(made, 1)
        made.switch_off("by hand")
        (tmp_path / OFF).unlink()
        drained(made)
        time.sleep(2 * LOOK_S)
        assert made.off == "by hand"
        found = drained(made)
    assert [one.reason for one in found.observations] == ["off", "off", "", "off"]
    assert [one.kind for one in found.degradations if one.number == 0] == [ProblemKind.DISABLED] * 3


def test_a_candidate_that_is_down_is_skipped_and_comes_back_after_a_pause(
    tmp_path: Path, hand: Hand
) -> None:
    limits = changed(LIMITS, backoff_ms=400.0, backoff_most_ms=60_000.0)
    with comparison(tmp_path, here(arm("quit")), limits=limits) as made:
        ask(made, 1, "quit")
        ask(made, 2)
        drained(made)
        hand.at_ns += 400 * MS
        ask(made, 1)
        ask(made, 1, "quit")
        drained(made)
        hand.at_ns += 400 * MS
        ask(made, 1)
        found = drained(made)
    outcomes = [one.outcome for one in found.observations]
    skipped = [Class.ERROR, Class.SKIPPED, Class.SKIPPED, Class.EXACT, Class.ERROR, Class.EXACT]
    assert outcomes == skipped
    assert "is down" in found.observations[1].reason


def test_the_pause_doubles_until_a_question_is_answered(tmp_path: Path, hand: Hand) -> None:
    """A query every 10 ms; starts after 0, 20, 40, 80 and 160 ms of pause."""
    limits = changed(LIMITS, backoff_ms=20.0, backoff_most_ms=60_000.0)
    with comparison(tmp_path, here(broken), limits=limits) as made:
        for _ in range(50):
            ask(made, 1)
            assert made.drain(60)
            hand.at_ns += 10 * MS
        found = drained(made)
    starts = [one.number for one in found.degradations if one.kind is ProblemKind.CRASH]
    assert starts == [1, 3, 7, 15, 31]
    assert found.tally.skipped == found.tally.attempted == 50


def test_closing_writes_what_waits_as_skipped(tmp_path: Path) -> None:
    held = Held()
    made = comparison(tmp_path, here(given(held.arm)))
    ask(made, 5)
    until(lambda: held.arm.asked)
    closing = Thread(target=made.close)
    closing.start()
    until(lambda: made.off == "closed")
    time.sleep(0.05)
    held.go.set()
    closing.join()
    found = log.read_logs(tmp_path)
    assert [one.outcome for one in found.observations] == [Class.EXACT] + [Class.SKIPPED] * 4
    assert found.observations[-1].reason.endswith("was closed before it was queried")
    comparison(tmp_path, here(arm())).close()


def test_many_threads_may_serve_at_once(tmp_path: Path) -> None:
    limits = changed(LIMITS, in_flight=3, queue=10_000)
    with comparison(tmp_path, here(arm()), limits=limits) as made:
        threads = [Thread(target=ask, args=(made, 100)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = drained(made)
    assert [one.number for one in sorted(found.observations, key=lambda one: one.number)] == list(
        range(1, 401)
    )
    assert found.tally.compared == 400


def test_a_full_backlog_loses_attempts_and_says_so(tmp_path: Path) -> None:
    recording = changed(RECORDING, backlog=5, linger_ms=300.0)
    with comparison(tmp_path, here(arm()), recording=recording) as made:
        ask(made, 40)
        drained(made)
        ask(made, 1)
        found = drained(made)
        lost = made.counts.lost
    assert lost > 0
    assert found.missing == lost
    assert len(found.observations) == 41 - lost
    said = [one.cause for one in found.degradations if one.kind is ProblemKind.FAULT]
    assert sum(int(cause.split()[0]) for cause in said) == lost


def test_while_the_log_cannot_be_written_nothing_is_compared_and_all_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    whole = Stream.append
    with comparison(tmp_path, here(arm())) as made:
        ask(made, 2)
        drained(made)
        made.check_written()
        monkeypatch.setattr(Stream, "append", fails)
        ask(made, 1)
        until(lambda: made.stuck)
        ask(made, 5)
        monkeypatch.setattr(Stream, "append", whole)
        until(lambda: not made.stuck)
        ask(made, 1)
        found = drained(made)
        with pytest.raises(HarnessError, match=r"1 attempt lost \(OSError: \[Errno 28\]"):
            made.check_written()
        assert made.counts.lost == found.missing == 1
    assert found.tally.attempted == 3
    (lost,) = [one.cause for one in found.degradations if one.kind is ProblemKind.FAULT]
    assert lost.startswith("1 were not written down: OSError: [Errno 28] No space left")
    others = [one for one in found.degradations if one.kind is not ProblemKind.FAULT]
    assert sum(one.times for one in others) == 5
    assert all(one.cause.endswith(UNWRITABLE) for one in others)
    (said,) = [one.getMessage() for one in caplog.records]
    assert said.startswith(f"{tmp_path}: the log cannot be written ([Errno 28] No space left")


def test_a_disk_with_room_for_notes_alone_is_reported_once_and_counts_each_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    whole = Stream.append

    def notes_alone(stream: Stream, lines: bytes) -> None:
        if b'"cause"' not in lines:
            fails()
        whole(stream, lines)

    with comparison(tmp_path, here(arm())) as made:
        monkeypatch.setattr(Stream, "append", notes_alone)
        for _ in range(2):
            ask(made, 1)
            until(lambda: made.stuck)
            ask(made, 3)
            until(lambda: not made.stuck)
        monkeypatch.setattr(Stream, "append", whole)
        ask(made, 1)
        found = drained(made)
        assert (made.counts.lost, found.missing, found.tally.attempted) == (2, 2, 1)
    assert sum(one.times for one in found.degradations if one.kind is ProblemKind.NOT_TAKEN) == 6
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    "spoils",
    [
        pytest.param({"half": "\ud800"}, id="half of a character"),
        pytest.param({"long": "x" * MAX_LINE_BYTES}, id="a longer line than is read"),
    ],
)
def test_a_pair_that_cannot_be_written_spoils_no_other(
    tmp_path: Path, spoils: dict[str, Scalar]
) -> None:
    with comparison(tmp_path, here(given(Plain("ba"))), recording=SLOW) as made:
        shadowed = Shadowed(Arm(), made)
        shadowed.search("ab", 10)
        shadowed.search_with("ab", 10, spoils)
        shadowed.search("ab", 10)
        found = drained(made)
    outcomes = [one.outcome for one in found.observations]
    assert outcomes == [Class.REORDER, Class.SKIPPED, Class.REORDER]
    assert [(one.number, one.kind) for one in found.degradations] == [(2, ProblemKind.FAULT)]


@pytest.mark.parametrize(
    "k",
    [DEEPEST, DEEPEST + 1, 10**20, 10**5_000],
    ids=["all", "one more", "many", "too many to print"],
)
def test_a_query_for_more_hits_than_any_list_has_is_compared_as_any(tmp_path: Path, k: int) -> None:
    with comparison(tmp_path, here(arm()), recording=SLOW) as made:
        for wanted in (10, k, 10):
            Shadowed(Arm(), made).search("ab", wanted)
        found = drained(made)
    assert [one.outcome for one in found.observations] == [Class.EXACT] * 3
    assert [one.k for one in found.observations] == [10, DEEPEST, 10]
    assert not found.degradations


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), 10**400, [1]], ids=["nan", "inf", "long", "list"]
)
def test_a_param_that_no_file_can_hold_is_a_fault_and_spoils_no_other(
    tmp_path: Path, value: object
) -> None:
    with comparison(tmp_path, here(given(Plain("ba"))), recording=SLOW) as made:
        shadowed = Shadowed(Arm(), made)
        shadowed.search("ab", 10)
        shadowed.search_with("ab", 10, cast("dict[str, Scalar]", {"limit": value}))
        shadowed.search("ab", 10)
        found = drained(made)
    assert [one.outcome for one in found.observations] == [Class.REORDER] * 2
    (fault,) = found.degradations
    assert "the param 'limit'" in fault.cause


def test_what_was_lost_last_is_said_when_the_log_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Stream.append
    with comparison(tmp_path, here(arm())) as made:
        monkeypatch.setattr(Stream, "append", fails)
        ask(made, 1)
        until(lambda: made.stuck)
        monkeypatch.setattr(Stream, "append", whole)
    (said,) = log.read_logs(tmp_path).degradations
    assert said.cause.startswith("1 were not written down: OSError")
