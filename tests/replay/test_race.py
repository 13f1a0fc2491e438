"""Arms against the clock: interleaved, each by itself, and only with the answers of their runs."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, pairwise
from time import perf_counter_ns
from typing import Any

import pytest

from harness.core.engine import Answer, Searcher
from harness.core.errors import EvidenceError
from harness.core.records import Query
from harness.replay import drive
from harness.replay import race as module
from harness.replay.drive import TimedOutcome, observe
from harness.replay.race import RUN_QUEUE, Expected, Lap, Reading, Texts, race, shown
from tests.make.arms import Table, queries, raising

pytestmark = pytest.mark.slow

EIGHT = queries(8)
TEXTS = Texts(warm=tuple(EIGHT[6:]), timed=tuple(EIGHT[:6]), repeated=tuple(EIGHT[:3]), unseen=())
MINUTE_NS = 60_000_000_000
NAMES = ("candidate", "control", "third")


def batched(rows: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [rows[at : at + size] for at in range(0, len(rows), size)]


def expected_of(arm: Table, k: int = 5) -> dict[str, Expected]:
    return {q.query_id: shown(observe(arm, q, 5, MINUTE_NS).row, k) for q in EIGHT}


def raced(
    arms: Mapping[str, Searcher],
    expected: Mapping[str, Mapping[str, Expected]] | None = None,
    **changed: Any,  # noqa: ANN401
) -> Lap:
    usual: dict[str, Any] = {
        "k": 5,
        "seed": 7,
        "process": 0,
        "time_limit_s": 60.0,
        "advance": lambda _: None,
    }
    known = expected or {name: expected_of(Table(name)) for name in arms}
    return race(arms, known, TEXTS, **usual | changed)


@pytest.fixture
def diary() -> list[tuple[str, str, int]]:
    return []


@pytest.fixture
def field(diary: list[tuple[str, str, int]]) -> dict[str, Table]:
    """Make three arms that write into one diary."""
    return {name: Table(name, diary=diary) for name in NAMES}


def test_every_text_is_timed_once_and_some_again_and_none_of_the_warm_up(
    field: dict[str, Table],
) -> None:
    lap = raced(field)
    seen = Counter((call.arm, call.query_id, call.repetition) for call in lap.calls)
    assert set(seen.values()) == {1}
    assert set(seen) == {
        (name, query.query_id, repetition)
        for name in NAMES
        for repetition, asked in enumerate((TEXTS.timed, TEXTS.repeated))
        for query in asked
    }
    assert all(call.elapsed_ns > 0 for call in lap.calls)
    assert len(lap.reference_ns) == 6
    assert min(lap.reference_ns) > 0
    assert lap.strays == dict.fromkeys(NAMES, ())


def test_a_timed_text_is_new_to_the_process(
    field: dict[str, Table], diary: list[tuple[str, str, int]]
) -> None:
    lap = raced(field)
    warm, first, again = diary[: 2 * 3], diary[2 * 3 : 8 * 3], diary[8 * 3 :]
    assert {text for _, text, _ in warm} == {query.text for query in TEXTS.warm}
    assert {text for _, text, _ in first} == {query.text for query in TEXTS.timed}
    assert len(again) == 3 * 3
    assert [call.repetition for call in lap.calls] == [0] * 18 + [1] * 9


def test_arms_take_turns_within_each_text(
    field: dict[str, Table], diary: list[tuple[str, str, int]]
) -> None:
    lap = raced(field)
    for turn in batched(diary, 3):
        assert sorted(name for name, _, _ in turn) == sorted(NAMES)
        assert len({text for _, text, _ in turn}) == 1
    assert [call.turn for call in lap.calls] == [0, 1, 2] * 9
    assert [(call.arm, call.query_id[1:]) for call in lap.calls] == [
        (name, text[-2:]) for name, text, _ in diary[6:]
    ]


def test_each_arm_is_first_with_each_text_in_one_process_of_three(
    field: dict[str, Table],
) -> None:
    places = Counter(
        (call.arm, call.query_id, call.turn)
        for process in range(3)
        for call in raced(field, process=process).calls
        if not call.repetition
    )
    assert len(places) == 3 * 6 * 3
    assert set(places.values()) == {1}


def test_the_order_is_of_the_seed_and_of_the_process(
    field: dict[str, Table], diary: list[tuple[str, str, int]]
) -> None:
    orders = []
    for seed, process in ((7, 0), (7, 0), (8, 0), (7, 1)):
        diary.clear()
        raced(dict(reversed(field.items())), seed=seed, process=process)
        orders.append([text for _, text, _ in diary[6:24:3]])
    assert orders[0] == orders[1]
    assert len(set(map(tuple, orders))) == 3
    assert all(sorted(order) == sorted(query.text for query in TEXTS.timed) for order in orders)
    assert all(one != other for one, other in pairwise(orders[1:]))


class Counted:
    """A meter whose counters move by hand: each reading is one later."""

    counts = RUN_QUEUE

    def __init__(self) -> None:
        self.readings = 0

    def read(self) -> Reading:
        self.readings += 1
        return Reading({}, self.readings, 0)

    def taken(self, before: Reading, after: Reading, elapsed_ns: int) -> tuple[int, int, int]:
        return before.cpu_ns, after.cpu_ns, elapsed_ns

    def close(self) -> None:
        self.readings = -1


def test_what_the_system_took_is_read_around_each_answer_and_off_its_clock(
    field: dict[str, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = Counted()
    monkeypatch.setattr(module, "Meter", lambda: meter)
    lap = raced(field)
    warm = 2 * 2 * 3
    assert [call.taken for call in lap.calls] == [
        (warm + 2 * at + 1, warm + 2 * at + 2, call.elapsed_ns) for at, call in enumerate(lap.calls)
    ]
    assert lap.counts == RUN_QUEUE
    assert meter.readings == -1


class Others(Counted):
    """A meter of other threads that work for 7 ns after each answer of one arm."""

    def __init__(self, diary: list[tuple[str, str, int]]) -> None:
        super().__init__()
        self.diary, self.others_ns = diary, 0

    def read(self) -> Reading:
        own = super().read()
        if own.cpu_ns % 2 and self.diary and self.diary[-1][0] == "candidate":
            self.others_ns += 7
        return own._replace(others_ns=self.others_ns)


def test_work_of_other_threads_after_an_answer_is_counted_by_arm(
    field: dict[str, Table], diary: list[tuple[str, str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "Meter", lambda: Others(diary))
    lap = raced(field)
    answers = sum(call.arm == "candidate" for call in lap.calls)
    assert answers
    assert lap.beside_ns == dict.fromkeys(NAMES, 0) | {"candidate": 7 * answers}


def test_an_answer_that_is_not_that_of_the_run_is_a_stray(field: dict[str, Table]) -> None:
    table = field["candidate"]
    table.answers = {
        "question 01": lambda: table.shows("another"),
        "question 02": raising(ValueError()),
        "question 03": table.shows,
        "question 04": lambda: Answer(table.shows("about question 04").hits, "somebody else"),
        "question 07": lambda: table.shows("in the warm-up"),
    }
    strays = raced(field).strays
    assert strays["candidate"] == ("q01", "q02", "q03", "q04", "q07")
    assert strays["control"] == strays["third"] == ()


def test_a_stray_when_a_text_comes_again_is_found(field: dict[str, Table]) -> None:
    table = field["control"]
    counts = iter(range(100))
    table.answers = {
        "question 02": lambda: table.shows("odd" if next(counts) == 1 else "about question 02")
    }
    strays = raced(field).strays
    assert strays["control"] == ("q02",)
    assert strays["candidate"] == ()


@pytest.mark.parametrize(("k", "found"), [(2, ()), (3, ("q00",))])
def test_only_the_hits_that_were_asked_for_are_compared(
    field: dict[str, Table], k: int, found: tuple[str, ...]
) -> None:
    many = Table("candidate", {"question 00": lambda: Table("candidate").shows("a", "b", "c")})
    known = {name: expected_of(Table(name), k) for name in NAMES} | {
        "candidate": expected_of(many, k)
    }
    field["candidate"].answers = {"question 00": lambda: Table("candidate").shows("a", "b")}
    assert raced(field, known, k=k).strays["candidate"] == found


def test_a_reorder_is_a_stray_and_a_query_that_always_fails_is_none(
    field: dict[str, Table],
) -> None:
    broken = {"question 00": raising(ValueError("always"))}
    swapped = {"question 00": lambda: Table("third").shows("a", "b")}
    known = {
        "control": expected_of(Table("control")),
        "candidate": expected_of(Table("candidate", broken)),
        "third": expected_of(Table("third", swapped)),
    }
    field["candidate"].answers = broken
    field["third"].answers = {"question 00": lambda: Table("third").shows("b", "a")}
    assert raced(field, known).strays == {"control": (), "candidate": (), "third": ("q00",)}


def test_a_clock_that_covers_another_arm_is_no_evidence(
    field: dict[str, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant 1: the control's timer also covers the candidate."""
    spent: dict[str, int] = {"candidate": 0}

    def covering(searcher: Searcher, query: Query, k: int, limit_ns: int) -> TimedOutcome:
        seen = observe(searcher, query, k, limit_ns)
        if searcher.manifest.engine == "candidate":
            spent["candidate"] = 10_000_000 + seen.elapsed_ns
            return seen
        return TimedOutcome(seen.row, seen.elapsed_ns + spent["candidate"])

    monkeypatch.setattr(module, "observe", covering)
    with pytest.raises(EvidenceError, match=r"(control|third): query q\d\d .* covers another's"):
        raced(field)


def test_a_clock_that_started_too_early_is_no_evidence(
    field: dict[str, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {name: expected_of(Table(name)) for name in NAMES}
    began = perf_counter_ns()
    calls = count()
    clock = lambda: perf_counter_ns() if next(calls) % 2 else began  # noqa: E731  a clock
    monkeypatch.setattr(drive, "perf_counter_ns", clock)
    with pytest.raises(EvidenceError, match="Time each arm by itself"):
        raced(field, known)


def test_progress_is_told_text_by_text(field: dict[str, Table]) -> None:
    done: list[int] = []
    raced(field, advance=done.append)
    assert done == [1] * (2 + 6 + 3)


@pytest.fixture(params=[True, False])
def collecting(request: pytest.FixtureRequest) -> Iterator[bool]:
    was_on = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if was_on else gc.disable)()


def test_no_garbage_is_collected_in_anybodys_time(
    field: dict[str, Table],
    collecting: bool,  # noqa: FBT001
) -> None:
    seen: set[bool] = set()

    def answer() -> Answer:
        seen.add(gc.isenabled())
        return field["control"].shows("about question 00")

    field["control"].answers = {"question 00": answer}
    raced(field)
    assert seen == {False}
    assert gc.isenabled() is collecting


def test_the_collector_is_back_after_an_exception(
    field: dict[str, Table],
    collecting: bool,  # noqa: FBT001
) -> None:
    field["control"].answers = {"question 03": raising(KeyboardInterrupt())}
    with pytest.raises(KeyboardInterrupt):
        raced(field)
    assert gc.isenabled() is collecting
