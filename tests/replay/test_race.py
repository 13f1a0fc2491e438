"""Arms against the clock: interleaved, each by itself, and only with the answers of their runs."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, pairwise
from time import perf_counter_ns
from typing import Any

import numpy as np
import pytest

from harness.core.engine import Answer, Searcher
from harness.core.errors import EvidenceError, MismatchedQueries
from harness.core.records import Query
from harness.core.run import Row, Run, Status
from harness.replay import ask
from harness.replay import race as module
from harness.replay.ask import Observation, observe
from harness.replay.race import Entrant, Lap, race
from tests.replay.arms import Table, queries, raising

SIX = queries(6)
MINUTE_NS = 60_000_000_000


def batched(rows: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [rows[at : at + size] for at in range(0, len(rows), size)]


def run_of(arm: Table, k: int = 5) -> Run:
    return Run.of(arm.name, [observe(arm, query, k, MINUTE_NS).row for query in SIX])


def raced(
    entrants: Mapping[Entrant, Searcher],
    runs: Mapping[str, Run],
    **changed: Any,  # noqa: ANN401
) -> Lap:
    usual: dict[str, Any] = {
        "k": 5,
        "repetitions": 3,
        "warmup": 1,
        "seed": 7,
        "time_limit_s": 60.0,
        "advance": lambda _: None,
    }
    return race(entrants, runs, SIX, **usual | changed)


@pytest.fixture
def diary() -> list[tuple[str, str, int]]:
    return []


@pytest.fixture
def field(diary: list[tuple[str, str, int]]) -> dict[Entrant, Table]:
    """Make a control with its twin, and a candidate; all write into one diary."""
    return {
        ("control", False): Table("control", diary=diary),
        ("control", True): Table("control", diary=diary),
        ("candidate", False): Table("candidate", diary=diary),
    }


@pytest.fixture
def runs() -> dict[str, Run]:
    return {name: run_of(Table(name)) for name in ("control", "candidate")}


def test_every_time_is_kept_but_the_warm_up(
    field: dict[Entrant, Table], runs: dict[str, Run], diary: list[tuple[str, str, int]]
) -> None:
    lap = raced(field, runs)
    assert lap.query_ids == tuple(query.query_id for query in SIX)
    assert set(lap.elapsed_ns) == set(field)
    for times in lap.elapsed_ns.values():
        assert times.shape == (6, 3)
        assert times.dtype == np.int64
        assert (times > 0).all()
    assert len(diary) == 6 * 3 * (1 + 3)
    assert lap.strays == dict.fromkeys(field, ())


def test_there_may_be_more_warm_up_than_race(
    field: dict[Entrant, Table], runs: dict[str, Run]
) -> None:
    lap = raced(field, runs, warmup=4, repetitions=1)
    assert all(times.shape == (6, 1) for times in lap.elapsed_ns.values())


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the clock of an answer the number of questions so far for a time."""
    asked = iter(range(1, 10_000))

    def counted(*given: Any) -> Observation:  # noqa: ANN401
        return Observation(observe(*given).row, next(asked))

    monkeypatch.setattr(module, "observe", counted)


@pytest.mark.usefixtures("ticking")
def test_times_stand_at_their_query_and_repetition(
    field: dict[Entrant, Table], runs: dict[str, Run], diary: list[tuple[str, str, int]]
) -> None:
    lap = raced(field, runs)
    expected = np.zeros((6, 3), dtype=np.int64)
    rounds = batched(list(enumerate(diary, start=1)), 18)[1:]
    for repetition, part in enumerate(rounds):
        for number, (name, text, _) in part:
            if name == "candidate":
                expected[int(text[-2:]), repetition] = number
    assert (lap.elapsed_ns["candidate", False] == expected).all()
    both = np.stack([lap.elapsed_ns["control", False], lap.elapsed_ns["control", True]])
    assert len(np.unique(both)) == both.size


def test_arms_take_turns_within_each_query_and_queries_within_each_round(
    field: dict[Entrant, Table], runs: dict[str, Run], diary: list[tuple[str, str, int]]
) -> None:
    raced(field, runs, repetitions=20, warmup=0)
    turns = batched(diary, 3)
    for turn in turns:
        assert sorted(name for name, _, _ in turn) == ["candidate", "control", "control"]
        assert len({text for _, text, _ in turn}) == 1
    assert len({tuple(name for name, _, _ in turn) for turn in turns}) == 3
    rounds = [tuple(turn[0][1] for turn in part) for part in batched(turns, 6)]
    assert all(sorted(part) == [query.text for query in SIX] for part in rounds)
    assert all(one != other for one, other in pairwise(rounds))


def test_the_order_is_seeded(field: dict[Entrant, Table], runs: dict[str, Run]) -> None:
    orders = []
    diary = field["control", False].diary
    for seed in (7, 7, 8):
        diary.clear()
        raced(dict(reversed(field.items())), runs, seed=seed)
        orders.append(list(diary))
        field = dict(reversed(field.items()))
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]


def test_an_answer_that_is_not_that_of_the_run_is_a_stray(
    field: dict[Entrant, Table], runs: dict[str, Run]
) -> None:
    table = field["candidate", False]
    table.answers = {
        "question 01": lambda: table.shows("another"),
        "question 02": raising(ValueError()),
        "question 03": table.shows,
        "question 04": lambda: Answer(table.shows("about question 04").hits, "somebody else"),
    }
    strays = raced(field, runs).strays
    assert strays["candidate", False] == ("q01", "q02", "q03", "q04")
    assert strays["control", False] == strays["control", True] == ()


def test_a_stray_in_one_of_many_rounds_is_found(
    field: dict[Entrant, Table], runs: dict[str, Run]
) -> None:
    table = field["control", True]
    counts = iter(range(100))
    table.answers = {
        "question 05": lambda: table.shows("odd" if next(counts) == 3 else "about question 05")
    }
    strays = raced(field, runs).strays
    assert strays["control", True] == ("q05",)
    assert strays["control", False] == ()


def test_a_reorder_is_a_stray(field: dict[Entrant, Table]) -> None:
    before = Table("candidate", {"question 00": lambda: Table("candidate").shows("a", "b")})
    runs = {"candidate": run_of(before), "control": run_of(Table("control"))}
    field["candidate", False].answers = {"question 00": lambda: Table("candidate").shows("b", "a")}
    assert raced(field, runs).strays["candidate", False] == ("q00",)


def test_only_the_hits_that_were_asked_for_are_compared(field: dict[Entrant, Table]) -> None:
    many = Table("candidate", {"question 00": lambda: Table("candidate").shows("a", "b", "c")})
    runs = {"candidate": run_of(many), "control": run_of(Table("control"))}
    field["candidate", False].answers = {"question 00": lambda: Table("candidate").shows("a", "b")}
    assert raced(field, runs, k=2).strays["candidate", False] == ()
    assert raced(field, runs, k=3).strays["candidate", False] == ("q00",)


def test_a_query_that_always_fails_is_no_stray(field: dict[Entrant, Table]) -> None:
    broken = {"question 00": raising(ValueError("always"))}
    runs = {"candidate": run_of(Table("candidate", broken)), "control": run_of(Table("control"))}
    assert runs["candidate"].status[0] == Status.FAILED
    field["candidate", False].answers = broken
    assert raced(field, runs).strays["candidate", False] == ()


def test_a_clock_that_covers_another_arm_is_no_evidence(
    field: dict[Entrant, Table], runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant 1: the control's timer also covers the candidate."""
    spent: dict[str, int] = {"candidate": 0}

    def covering(searcher: Searcher, query: Query, k: int, limit_ns: int) -> Observation:
        seen = observe(searcher, query, k, limit_ns)
        if searcher.manifest.engine == "candidate":
            spent["candidate"] = 10_000_000 + seen.elapsed_ns
            return seen
        return Observation(seen.row, seen.elapsed_ns + spent["candidate"])

    monkeypatch.setattr(module, "observe", covering)
    with pytest.raises(EvidenceError, match=r"control: query q\d\d .* covers another's"):
        raced(field, runs)


def test_a_clock_that_started_too_early_is_no_evidence(
    field: dict[Entrant, Table], runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    began = perf_counter_ns()
    calls = count()
    clock = lambda: perf_counter_ns() if next(calls) % 2 else began  # noqa: E731  a clock
    monkeypatch.setattr(ask, "perf_counter_ns", clock)
    with pytest.raises(EvidenceError, match="Time each arm by itself"):
        raced(field, runs)


def test_a_run_without_one_of_the_queries_is_refused(field: dict[Entrant, Table]) -> None:
    few = Run.of("candidate", [Row("q00", Status.ANSWERED)])
    with pytest.raises(MismatchedQueries, match="5 queries"):
        raced(field, {"control": run_of(Table("control")), "candidate": few})


def test_a_run_may_hold_more_queries_than_are_raced(
    field: dict[Entrant, Table], runs: dict[str, Run]
) -> None:
    lap = race(
        field,
        runs,
        SIX[2:4],
        k=5,
        repetitions=2,
        warmup=0,
        seed=1,
        time_limit_s=60.0,
        advance=lambda _: None,
    )
    assert lap.query_ids == ("q02", "q03")
    assert lap.strays == dict.fromkeys(field, ())


def test_progress_is_told_round_by_round(field: dict[Entrant, Table], runs: dict[str, Run]) -> None:
    done: list[int] = []
    raced(field, runs, advance=done.append)
    assert done == [6, 6, 6, 6]


@pytest.fixture(params=[True, False])
def collecting(request: pytest.FixtureRequest) -> Iterator[bool]:
    was_on = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if was_on else gc.disable)()


def test_no_garbage_is_collected_in_anybodys_time(
    field: dict[Entrant, Table],
    runs: dict[str, Run],
    collecting: bool,  # noqa: FBT001
) -> None:
    seen: set[bool] = set()

    def answer() -> Answer:
        seen.add(gc.isenabled())
        return field["control", False].shows("about question 00")

    field["control", False].answers = {"question 00": answer}
    raced(field, runs)
    assert seen == {False}
    assert gc.isenabled() is collecting


def test_the_collector_is_back_after_an_exception(
    field: dict[Entrant, Table],
    runs: dict[str, Run],
    collecting: bool,  # noqa: FBT001
) -> None:
    field["control", False].answers = {"question 03": raising(KeyboardInterrupt())}
    with pytest.raises(KeyboardInterrupt):
        raced(field, runs)
    assert gc.isenabled() is collecting
    assert gc.get_freeze_count() == 0
