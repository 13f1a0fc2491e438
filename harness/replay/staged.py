"""Ask one open arm how its answers came about: a list for each of its stages, off every clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.core.engine import Searcher, Stage, Staged
from harness.core.errors import InvalidArm
from harness.core.records import Query
from harness.core.run import Row, Run, Status

ANSWER = "answer"
"""The one stage of an arm that tells of no other."""


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """What the stages of one arm had, each as a run over the same queries."""

    way: tuple[Run, ...]
    """Stages that follow from each other, first to last, named by ``Run.arm``."""
    beside: tuple[Run, ...]
    """Stages that feed one of these, such as the second leg of a fusion."""
    lost: Mapping[str, str]
    """Why a query of the replayed run is in none of them, by query id."""


def trace(
    searcher: Searcher,
    queries: Sequence[Query],
    shown: Run,
    *,
    k: int,
    advance: Callable[[int], object],
) -> Traced:
    """Ask for the stages of every query that ``shown`` has an answer to.

    A query whose stages fail, or are not those that most queries go through, is lost. An arm that
    tells of no stages has one: what it showed.

    Raises:
        InvalidArm: the last stage of a query is not what the arm showed, or every query is lost.
    """
    if not isinstance(searcher, Staged):
        return unstaged(shown)
    listed: dict[str, tuple[Stage, ...]] = {}
    lost: dict[str, str] = {}
    positions = shown.positions
    for query in queries:
        if shown.status[positions[query.query_id]] == Status.ANSWERED:
            try:
                listed[query.query_id] = told(searcher, query, k)
            except (KeyboardInterrupt, SystemExit, GeneratorExit):
                raise
            except BaseException as exc:  # noqa: BLE001  a panic of a Rust engine is no Exception
                lost[query.query_id] = f"{type(exc).__name__}: {exc}"
        else:
            lost[query.query_id] = "was not answered"
        advance(1)
    ways = Counter(_names(stages) for stages in listed.values())
    if not ways:
        why = next(iter(lost.values()), "none was run")
        raise InvalidArm(f"{shown.arm}: not one query has stages; the first: {why}")
    ((usual, _),) = ways.most_common(1)
    same = {query_id: stages for query_id, stages in listed.items() if _names(stages) == usual}
    for query_id in listed.keys() - same.keys():
        through = ", ".join(stage.name for stage in listed[query_id])
        lost[query_id] = f"went through {through or 'nothing'}"
    runs = [_run(name, at, same) for at, (name, _) in enumerate(usual)]
    way = tuple(run for run, (_, beside) in zip(runs, usual, strict=True) if not beside)
    _ends_in(way, shown)
    fed_by = tuple(run for run, (_, beside) in zip(runs, usual, strict=True) if beside)
    return Traced(way, fed_by, dict(sorted(lost.items())))


def told(searcher: Staged, query: Query, k: int) -> tuple[Stage, ...]:
    """Ask for the stages of one query.

    Raises:
        TypeError: they, or the hits of one, are not a tuple; a generator need not end.
    """
    stages = searcher.stages(query.text, k, query.params)
    _check_whole(stages)
    for stage in stages:
        _check_whole(stage.hits)
    return stages


def _check_whole(found: object) -> None:
    if not isinstance(found, tuple):
        raise TypeError(f"stages or hits are a {type(found).__name__} instead of a tuple")


def unstaged(shown: Run) -> Traced:
    """Give the one stage of an arm that does not report stages."""
    return Traced((Run.of(ANSWER, shown.rows()),), (), {})


def _names(stages: Sequence[Stage]) -> tuple[tuple[str, bool], ...]:
    return tuple((stage.name, stage.beside) for stage in stages)


def _run(name: str, at: int, told: Mapping[str, Sequence[Stage]]) -> Run:
    rows = (Row(query_id, Status.ANSWERED, stages[at].hits) for query_id, stages in told.items())
    return Run.of(name, rows)


def _ends_in(way: Sequence[Run], shown: Run) -> None:
    """Refuse stages that lead to something else than the arm showed."""
    if not way:
        raise InvalidArm(f"{shown.arm}: all its stages stand beside; one must be what it shows")
    last = way[-1]
    for query_id in last.query_ids:
        if last.ranking(query_id) != shown.ranking(query_id):
            raise InvalidArm(
                f"{shown.arm}: query {query_id}: its stage {last.arm} is not what it showed when it"
                " was replayed; replay it, or fix its stages"
            )
