"""Search functions compared on queries, and lists of several interleaved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, SupportsFloat, TypeAlias

from harness.api.comparison import (
    Difference,
    Shown,
    difference,
    differences,
    near_duplicates,
    score,
)
from harness.api.data import QrelsLike, load_qrels, load_run
from harness.core.engine import Hit
from harness.core.errors import EvidenceError, RunError
from harness.core.names import checked
from harness.core.printable import one_line
from harness.core.run import Row, Run, Status
from harness.core.scores import Paired
from harness.report.doc import Block, Text
from harness.stats.inference import Inference

if TYPE_CHECKING:
    import pandas as pd


Ranked: TypeAlias = (
    Iterable[str] | Iterable[tuple[str, SupportsFloat]] | Mapping[str, SupportsFloat]
)
"""Document ids, best first, with or without scores, or scores by document id."""
Search: TypeAlias = Callable[[str], Ranked]
ERROR = 300
"""Characters kept of a function's exception."""
SHAPES = (
    "Return document ids with the best first, (id, score) pairs with the best first, or a mapping"
    " of id to score"
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EngineComparison(Shown):
    """Results of two search functions, and their differences by each measure.

    The numbers are those that gates use: per-query values, paired differences and their intervals.
    No gate is judged, because functions cannot prove which engine answered.
    """

    control: Run
    candidate: Run
    differences: Mapping[str, Difference]
    """Candidate minus control, by measure as it was named."""

    @property
    def failures(self) -> Mapping[str, Mapping[str, str]]:
        """Exceptions of each function, by its name and the query's id."""
        return {
            run.arm: {q: error for q, error in zip(run.query_ids, run.errors, strict=True) if error}
            for run in (self.control, self.candidate)
        }

    def worse(self, measure: str) -> tuple[str, ...]:
        """Return the ids of queries that the candidate answers worse, the largest loss first.

        Raises:
            KeyError: the measure was not compared.
        """
        return self.differences[measure].worse

    def frame(self) -> pd.DataFrame:
        """Return a frame with a row for each measure: means, difference, interval, p-value."""
        import pandas as pd

        rows = [
            {
                "measure": measure,
                "control": float(found.paired.control.mean()),
                "candidate": float(found.paired.candidate.mean()),
                "difference": found.estimate.value,
                "low": found.estimate.low,
                "high": found.estimate.high,
                "p": found.p_value,
                "queries": found.estimate.n,
                "better": len(found.better),
                "worse": len(found.worse),
                "unpaired": len(found.paired.unpaired),
            }
            for measure, found in self.differences.items()
        ]
        return pd.DataFrame(rows).set_index("measure")

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.differences.values())) + self._failed(". ", "\n")

    def blocks(self) -> Iterable[Block]:
        """Return a table of differences, and what failed."""
        yield differences(self.control.arm, self.candidate.arm, self.differences)
        if failed := self._failed("; ", ""):
            yield Text(failed)

    def _failed(self, between: str, before: str) -> str:
        """Count the queries that failed or showed a document twice; empty where none did."""
        said = [f"{name} failed on {len(of):,}" for name, of in self.failures.items() if of]
        twice = {run.arm: int((run.duplicates > 0).sum()) for run in (self.control, self.candidate)}
        said.extend(
            f"{name} showed a document twice on {count:,}, and only the first place counts"
            for name, count in twice.items()
            if count
        )
        return before + between.join(said) if said else ""


def compare_engines(
    control: Search,
    candidate: Search,
    queries: Mapping[str, str],
    qrels: QrelsLike,
    measures: Sequence[str],
    *,
    sure: Inference,
    names: tuple[str, str] = ("control", "candidate"),
    intents: Mapping[str, str] | None = None,
) -> EngineComparison:
    """Run every query on two functions, and compare their results by every measure.

    A function takes the text of a query and gives document ids with the best first, ``(id, score)``
    pairs with the best first, or a mapping of id to score. ``queries`` are texts by id; ``qrels``
    is anything that ``load_qrels`` reads. A query on which a function raises has no value for it.
    ``intents`` is as in ``compare``; without it, near-duplicate queries count once. Times are not
    measured: for that, and for gates, bring an engine (``harness run``).

    Raises:
        RunError: a function returns another form, a score is not finite, or the order is wrong.
        BadName: one of ``names`` is invalid.
        EvidenceError: queries or measures are missing, or fewer than two queries have a value in
            both.
        InvalidArm: a function raises on every query.
        UnknownName: a measure is unknown.
        BadFile, DatasetError: as ``load_qrels``.
    """
    if not isinstance(queries, Mapping):
        raise EvidenceError(
            f"queries is a {type(queries).__name__}; give a mapping of query id to text"
        )
    measures = [measures] if isinstance(measures, str) else measures
    if not queries or not measures:
        raise EvidenceError("nothing to compare: give a query in `queries` and one in `measures`")
    if names[0] == names[1]:
        raise EvidenceError(f"two engines are named {names[0]}; give two `names`")
    judged = load_qrels(qrels)
    if queries.keys().isdisjoint(judged.query_ids):
        raise EvidenceError(
            f"none of the {len(queries)} queries has a judgement: queries are named as"
            f" {min(queries)!r}, judgements as {min(judged.query_ids)!r}"
        )
    first, second = (checked("an arm", name) for name in names)
    runs = shown_by(control, queries, first), shown_by(candidate, queries, second)
    left, right = (score(run, judged, measures, queries=tuple(queries)).scores for run in runs)
    together = near_duplicates(queries) if intents is None else intents
    found = {
        measure: difference(Paired.of(left[measure], right[measure]), names, sure, together)
        for measure in measures
    }
    return EngineComparison(*runs, found)


def shown_by(search: Search, queries: Mapping[str, str], name: str) -> Run:
    """Run every query on a function; an exception becomes the error of that query."""
    return Run.of(name, [_row(search, query_id, text, name) for query_id, text in queries.items()])


def _row(search: Search, query_id: str, text: str, name: str) -> Row:
    where = f"{name}: query {query_id}"
    try:
        given: object = search(text)
        if isinstance(given, Iterable) and not isinstance(given, Mapping | str | bytes):
            given = list(given)
    except Exception as exc:  # noqa: BLE001  the query failed; the others go on
        frames = extract_tb(exc.__traceback__)
        at = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
        said = one_line(f"{type(exc).__name__}: {exc}{at}", ERROR)
        return Row(query_id, Status.FAILED, error=said)
    if isinstance(given, Mapping):
        (row,) = load_run({query_id: given}, name).rows()
        return row
    if not isinstance(given, list):
        raise RunError(f"{where}: gives a {type(given).__name__}. {SHAPES}")
    return Row(query_id, Status.ANSWERED, _hits(given, where))


def _hits(given: Sequence[object], where: str) -> list[Hit]:
    """Read a ranking; ids without scores score by their rank."""
    hits: list[Hit] = []
    for rank, item in enumerate(given, start=1):
        pair = (item, 1.0 / rank) if isinstance(item, str) else item
        if not (isinstance(pair, tuple) and len(pair) == len(("id", "score"))):
            raise RunError(f"{where}: rank {rank} is a {type(item).__name__}. {SHAPES}")
        doc_id, score = pair
        if isinstance(doc_id, int):
            raise RunError(f"{where}: rank {rank} has the number {doc_id}. Give str({doc_id})")
        if not isinstance(doc_id, str) or not isinstance(score, Real) or isinstance(score, bool):
            raise RunError(f"{where}: rank {rank} is {item!r}. {SHAPES}")
        value = float(score)
        if hits and value > hits[-1].raw_score:
            raise RunError(
                f"{where}: rank {rank} scores {score}, more than the rank before it. Sort by score,"
                " or return a mapping of id to score, which is sorted here"
            )
        hits.append(Hit(doc_id, 1.0 / rank, value))
    return hits
