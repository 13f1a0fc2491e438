"""One question, one observation: whatever happens is a row."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.core.engine import Answer, Hit
from harness.core.records import Query, Scalar
from harness.core.run import Run, Status
from harness.corpus.runs import read_run, write_run
from harness.replay import drive
from harness.replay.drive import BrokenAnswer, TimedOutcome, copied, observe
from tests.make.arms import Table, hits, raising

QUERY = Query("q1", "what?")
MINUTE_NS = 60_000_000_000


def watch(answer: Callable[[], object], k: int = 3, limit_ns: int = MINUTE_NS) -> TimedOutcome:
    return observe(Table(answers={"what?": answer}), QUERY, k, limit_ns)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make the clock read these times, one after another."""
    times: list[int] = []
    monkeypatch.setattr(drive, "perf_counter_ns", lambda: times.pop(0))
    return times


def test_an_answer_is_kept_as_it_was_given() -> None:
    arm = Table(answers={"what?": lambda: Table().shows("a", "b")})
    row = observe(arm, QUERY, 3, MINUTE_NS).row
    assert (row.query_id, row.status, row.hits) == ("q1", Status.ANSWERED, hits("a", "b"))
    assert row.served_by == arm.manifest.fingerprint
    assert row.error == ""
    assert arm.diary == [("table", "what?", 3)]


def test_who_answered_is_who_says_so_and_not_who_was_asked() -> None:
    row = watch(lambda: Answer(hits("a"), "somebody else")).row
    assert row.served_by == "somebody else"


def test_finding_nothing_is_an_answer() -> None:
    row = watch(lambda: Table().shows()).row
    assert (row.status, row.hits, row.error) == (Status.ANSWERED, (), "")


class Filtering(Table):
    """An arm that understands params."""

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        return self.shows(f"{text} {dict(params)} {k}")


def test_params_are_handed_on_to_an_arm_that_takes_them_and_to_no_other() -> None:
    filtered = replace(QUERY, params={"project": 3})
    row = observe(Filtering(), filtered, 5, MINUTE_NS).row
    assert row.hits == hits("what? {'project': 3} 5")
    assert observe(Table(), filtered, 5, MINUTE_NS).row.hits == hits("about what?")
    assert observe(Filtering(), QUERY, 5, MINUTE_NS).row.hits == hits("about what?")


class Panic(BaseException):
    """Stands for what a Rust engine raises when it panics."""


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad query"), "ValueError: bad query"),
        (Panic("index out of bounds"), "Panic: index out of bounds"),
        (MemoryError(), "MemoryError: "),
        (RecursionError("deep"), "RecursionError: deep"),
        (KeyError("a"), "KeyError: 'a'"),
        (ValueError("half \ud800"), "ValueError: half \\ud800"),
    ],
)
def test_an_exception_is_a_failure_with_its_text(
    error: BaseException, text: str, tmp_path: Path
) -> None:
    row = watch(raising(error)).row
    assert (row.status, row.hits, row.served_by, row.error) == (Status.FAILED, (), "", text)
    write_run(Run.of("arm", [row]), tmp_path / "run")
    assert next(read_run(tmp_path / "run").rows()).error == text


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_a_person_who_stops_is_obeyed(error: BaseException) -> None:
    with pytest.raises(type(error)):
        watch(raising(error))


@pytest.mark.parametrize(
    ("elapsed_ns", "status"),
    [(999, Status.ANSWERED), (1000, Status.ANSWERED), (1001, Status.TIMED_OUT)],
)
def test_a_late_answer_is_a_timeout(clock: list[int], elapsed_ns: int, status: Status) -> None:
    clock[:] = [5_000, 5_000 + elapsed_ns]
    seen = watch(lambda: Table().shows("a"), limit_ns=1000)
    assert (seen.row.status, seen.elapsed_ns) == (status, elapsed_ns)
    late = status is Status.TIMED_OUT
    assert bool(seen.row.hits) is not late
    assert bool(seen.row.error) is late
    assert bool(seen.row.served_by) is not late


def test_the_clock_is_read_right_before_and_right_after(monkeypatch: pytest.MonkeyPatch) -> None:
    diary: list[str] = []

    def tick() -> int:
        diary.append("clock")
        return 0

    def answer() -> Answer:
        diary.append("search")
        return Table().shows("a")

    monkeypatch.setattr(drive, "perf_counter_ns", tick)
    watch(answer)
    assert diary == ["clock", "search", "clock"]


class Late(str):
    """An id that says when it is made."""

    __slots__ = ()


class LateHit(Hit):
    """A hit that is looked up when it is read."""

    diary: list[str]

    @property
    def doc_id(self) -> str:
        self.diary.append("looked up")
        return Late("b")


class LateHits(tuple[Hit, ...]):
    """Hits that are searched for when they are read, which need not end."""

    __slots__ = ()
    diary: list[str]

    def __iter__(self) -> Iterator[Hit]:
        self.diary.append("searched")
        yield from (LateHit("", np.float64(0.5), 1), *hits("c"))

    def __len__(self) -> int:
        return 2


def test_what_works_when_it_is_read_is_read_while_the_clock_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    diary: list[str] = []
    LateHits.diary = LateHit.diary = diary

    def tick() -> int:
        diary.append("clock")
        return len(diary)

    monkeypatch.setattr(drive, "perf_counter_ns", tick)
    row = watch(lambda: Answer(LateHits(), Late("me"))).row
    assert (diary[0], diary[1], diary[-1]) == ("clock", "searched", "clock")
    assert diary.count("clock") == 2
    assert row.hits == (Hit("b", 0.5, 1.0), *hits("c"))
    assert {type(row.hits), type(row.hits[0])} == {tuple, Hit}
    assert {type(row.hits[0].doc_id), type(row.served_by)} == {str}
    assert {type(score) for score in row.hits[0][1:]} == {float}


def test_hits_of_its_own_kind_that_never_end_are_read_to_the_depth_and_no_further() -> None:
    class Endless(LateHits):
        __slots__ = ()

        def __iter__(self) -> Iterator[Hit]:
            while True:
                yield Hit("a", 1.0, 1.0)

    row = watch(lambda: Answer(Endless(), "me")).row
    assert (row.status, row.error) == (Status.FAILED, "4 hits were shown, 3 were requested")


def test_a_failure_also_takes_time(clock: list[int]) -> None:
    clock[:] = [100, 350]
    assert watch(raising(ValueError())).elapsed_ns == 250


def generator() -> Iterator[Hit]:
    yield Hit("a", 1.0, 1.0)


BAD = [
    Answer((Hit("a", 1.0, 1.0), Hit("b", math.nan, 1.0)), "me"),
    Answer((Hit("a", 1.0, math.inf),), "me"),
    Answer((Hit("a", -math.inf, 1.0),), "me"),
    Answer(hits("a", "b", "c", "d"), "me"),
    Answer(hits("a", "a", "a", "a"), "me"),
    Answer((Hit("a", None, 1.0),), "me"),  # type: ignore[arg-type]
    Answer((Hit(7, 1.0, 1.0),), "me"),  # type: ignore[arg-type]
    Answer((("a", 1.0, 1.0),), "me"),  # type: ignore[arg-type]
    Answer([Hit("a", 1.0, 1.0)], "me"),  # type: ignore[arg-type]
    Answer(generator(), "me"),  # type: ignore[arg-type]
    Answer(hits("a"), None),  # type: ignore[arg-type]
    None,
    [],
    ["a", "b"],
]


@pytest.mark.parametrize("answer", BAD)
def test_what_breaks_the_contract_is_a_failure_with_a_reason(answer: object) -> None:
    row = watch(lambda: answer).row
    assert (row.status, row.hits) == (Status.FAILED, ())
    with pytest.raises(BrokenAnswer) as broken:
        copied(answer, 3)
    assert row.error == str(broken.value) != ""


def test_a_reason_names_the_document() -> None:
    assert watch(lambda: BAD[0]).row.error == "the score of b is nan (raw 1.0)"
    assert watch(lambda: BAD[3]).row.error == "4 hits were shown, 3 were requested"


@pytest.mark.parametrize("score", [0, 1, 0.5, np.float32(0.5), np.float64(0.5), -3.0])
def test_any_finite_number_is_a_score(score: float) -> None:
    assert copied(Answer((Hit("a", score, score),), "me"), 3).hits == (("a", score, score),)


def test_a_document_shown_twice_is_counted_by_the_run() -> None:
    row = watch(lambda: Answer(hits("a", "b", "a"), "me")).row
    assert row.status is Status.ANSWERED
    assert Run.of("arm", [row]).duplicates.tolist() == [1]


def test_an_observation_is_frozen() -> None:
    seen = watch(lambda: Table().shows("a"))
    assert replace(seen, elapsed_ns=1).row == seen.row
    with pytest.raises(AttributeError):
        seen.elapsed_ns = 1  # type: ignore[misc]
