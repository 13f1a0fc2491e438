"""Queries run on an open arm: one, a whole set, or stage by stage."""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from numbers import Real
from pathlib import Path
from time import perf_counter_ns

from harness.core.batches import Batch, current, map_batches, using
from harness.core.digest import of_json, of_queries
from harness.core.engine import Answer, Hit, Searcher, Stage, Staged, TakesParams, surplus
from harness.core.errors import InvalidArm
from harness.core.records import Query, Scalar
from harness.core.run import Conditions, Row, Run, Status
from harness.corpus.runs import RUN_PART


@dataclass(frozen=True, slots=True)
class TimedOutcome:
    """Outcome of one query on one arm, once."""

    row: Row
    elapsed_ns: int
    """From the text that a person typed to plain hits; also of a failure."""
    retries: int = 0
    rate_limited: int = 0


def observe(searcher: Searcher, query: Query, k: int, time_limit_ns: int) -> TimedOutcome:
    """Ask once; an exception is an observation, and an answer after its time limit a timeout."""
    answer: Answer | None = None
    error = ""
    with_params = searcher if query.params and isinstance(searcher, TakesParams) else None
    start = perf_counter_ns()
    try:
        if with_params is None:
            answer = copied(searcher.search(query.text, k), k)
        else:
            answer = copied(with_params.search_with(query.text, k, query.params), k)
    except BrokenAnswer as exc:
        error = str(exc)
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as exc:  # noqa: BLE001  a panic of a Rust engine is no Exception
        error = f"{type(exc).__name__}: {exc}"
    elapsed_ns = perf_counter_ns() - start
    if answer is None:
        error = error.encode(errors="backslashreplace").decode()  # what a file can hold
        return TimedOutcome(Row(query.query_id, Status.FAILED, error=error), elapsed_ns)
    if elapsed_ns > time_limit_ns:
        late = f"answered after {elapsed_ns / 1e9:.3f} s, the limit is {time_limit_ns / 1e9:.3f} s"
        late_row = Row(query.query_id, Status.TIMED_OUT, error=late)
        return TimedOutcome(late_row, elapsed_ns, answer.retries, answer.rate_limited)
    row = Row(query.query_id, Status.ANSWERED, answer.hits, answer.served_by)
    return TimedOutcome(row, elapsed_ns, answer.retries, answer.rate_limited)


class Noted:
    """A searcher whose last note is kept."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher
        self.manifest = searcher.manifest
        self.note = ""

    def search(self, text: str, k: int) -> Answer:
        return self._kept(self._searcher.search(text, k))

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        if isinstance(self._searcher, TakesParams):
            return self._kept(self._searcher.search_with(text, k, params))
        return self.search(text, k)

    def _kept(self, answer: Answer) -> Answer:
        note = getattr(answer, "note", "")
        self.note = note if isinstance(note, str) else ""
        return answer


class BrokenAnswer(ValueError):
    """An answer that breaks an engine's contract."""


def copied(answer: object, k: int) -> Answer:
    """Copy an answer into plain values while the clock runs; hits of a generator are refused."""
    if not isinstance(answer, Answer) or not isinstance(answer.served_by, str):
        raise BrokenAnswer(
            f"answered {type(answer).__name__} instead of an Answer with its fingerprint"
        )
    hits = answer.hits
    if not isinstance(hits, tuple):
        raise BrokenAnswer(f"hits are a {type(hits).__name__} instead of a tuple")
    if type(hits) is not tuple:
        hits = tuple(islice(hits, k + 1))
    if more := surplus(len(hits), k):
        raise BrokenAnswer(more)
    counts = int(answer.retries), int(answer.rate_limited)
    return Answer(tuple(map(_hit, hits)), _text(answer.served_by), _text(answer.note), *counts)


def _hit(hit: object) -> Hit:
    if not isinstance(hit, Hit) or not isinstance(hit.doc_id, str):
        raise BrokenAnswer(f"{hit!r} is shown instead of a Hit with a document's id")
    scores = (hit.score, hit.raw_score)
    if type(hit) is Hit and type(hit.doc_id) is str and type(scores[0]) is type(scores[1]) is float:
        plain = hit
    elif all(isinstance(score, Real) for score in scores):
        plain = Hit(_text(hit.doc_id), float(scores[0]), float(scores[1]))
    else:
        plain = Hit(_text(hit.doc_id), math.nan, math.nan)
    if not (math.isfinite(plain.score) and math.isfinite(plain.raw_score)):
        raise BrokenAnswer(f"the score of {plain.doc_id} is {scores[0]!r} (raw {scores[1]!r})")
    return plain


def _text(text: object) -> str:
    """Copy the characters of a string, past what a type of its own makes of them."""
    return str.__str__(text) if isinstance(text, str) else str(text)


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
    """Ask for the stages of every query that ``shown`` has an answer to."""
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
    runs = []
    for at, (name, _) in enumerate(usual):
        rows = (
            Row(query_id, Status.ANSWERED, stages[at].hits) for query_id, stages in same.items()
        )
        runs.append(Run.of(name, rows))
    way = tuple(run for run, (_, beside) in zip(runs, usual, strict=True) if not beside)
    _ends_in(way, shown)
    fed_by = tuple(run for run, (_, beside) in zip(runs, usual, strict=True) if beside)
    return Traced(way, fed_by, dict(sorted(lost.items())))


def told(searcher: Staged, query: Query, k: int) -> tuple[Stage, ...]:
    """Ask for the stages of one query."""
    stages = searcher.stages(query.text, k, query.params)
    _check_whole(stages)
    for stage in stages:
        _check_whole(stage.hits)
    return stages


def _check_whole(found: object) -> None:
    if not isinstance(found, tuple):
        raise TypeError(f"stages or hits are a {type(found).__name__} instead of a tuple")


def unstaged(shown: Run) -> Traced:
    """Return the one stage of an arm that does not report stages."""
    return Traced((Run.of("answer", shown.rows()),), (), {})


def _names(stages: Sequence[Stage]) -> tuple[tuple[str, bool], ...]:
    return tuple((stage.name, stage.beside) for stage in stages)


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


PART = 500

Opener = Callable[[], AbstractContextManager[Searcher]]
"""Gives the open arm; for another process it is a value that can be pickled."""


@dataclass(frozen=True, slots=True)
class RunWriter:
    """Runs some queries on an arm, and writes what came out as a run."""

    opener: Opener
    arm: str
    k: int
    time_limit_s: float

    def __call__(self, queries: Sequence[Query], beside: Path) -> Iterator[int]:
        with self.opener() as searcher:
            limit_ns = int(self.time_limit_s * 1e9)
            seen = [observe(searcher, one, self.k, limit_ns) for one in queries]
        run = replace(
            Run.of(self.arm, [one.row for one in seen]),
            retries=sum(one.retries for one in seen),
            rate_limited=sum(one.rate_limited for one in seen),
        )
        RUN_PART.write(beside, run)
        yield len(queries)


def drive(
    arm: str,
    searcher: Searcher,
    queries: Sequence[Query],
    *,
    k: int,
    time_limit_s: float,
    seed: int,
    parts: Path,
    code_sha256: str,
    advance: Callable[[int], object],
    opener: Opener | None = None,
) -> Run:
    """Ask every query once, in seeded order, and give the run in the order of ``queries``."""
    order = list(queries)
    random.Random(seed).shuffle(order)
    own = [code_sha256, arm, searcher.manifest.fingerprint]
    batches = []
    for at in range(0, len(order), PART):
        some = order[at : at + PART]
        name = of_json([*own, of_queries(some), k, time_limit_s])[:32]
        batches.append(Batch(some, parts / f"{name}.parquet", len(some)))
    here: Opener = lambda: nullcontext(searcher)  # noqa: E731  as others open it
    shared = current() if opener else None
    asking = RunWriter(opener if opener and shared else here, arm, k, time_limit_s)
    with using(shared):
        map_batches(asking, batches, advance=advance, whole=RUN_PART.holds)
    rows: dict[str, Row] = {}
    retries = limited = 0
    for batch in batches:
        part = RUN_PART.read(batch.part)
        retries += part.retries
        limited += part.rate_limited
        rows.update((row.query_id, row) for row in part.rows())
    run = Run.of(arm, [rows[query.query_id] for query in queries])
    asked = Conditions(k, time_limit_s)
    return replace(run, conditions=asked, retries=retries, rate_limited=limited)
