"""A run's values by query and measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.api.given import QrelsLike, RunLike
from harness.api.html import table
from harness.api.loading import load_qrels, load_run
from harness.core.errors import DatasetError
from harness.core.qrels import Qrels
from harness.core.run import Run
from harness.core.scores import Scores
from harness.corpus.cells.identity import written_otherwise
from harness.measures import quality
from harness.report.rounding import number

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scored:
    """Scores of one run, query by query."""

    arm: str
    scores: Mapping[str, Scores]
    """Scores by measure name, as given."""

    def frame(self) -> pd.DataFrame:
        """Give a frame with a row for each query, a column for each measure; NaN if undefined."""
        import pandas as pd

        columns = {name: pd.Series(dict(of.by_query)) for name, of in self.scores.items()}
        return pd.DataFrame(columns).rename_axis("query_id")

    def __repr__(self) -> str:
        means = (f"{name} {number(of.mean)}" for name, of in self.scores.items())
        return f"{self.arm}: {', '.join(means)}"

    def _repr_html_(self) -> str:
        rows = [
            (name, number(of.mean), f"{len(of.query_ids):,}", _without(of))
            for name, of in self.scores.items()
        ]
        header = ("measure", "mean", "queries", "without a value")
        return table(f"{self.arm}: means over queries", header, rows)


def score(
    run: RunLike, qrels: QrelsLike, measures: Sequence[str], *, queries: Sequence[str] | None = None
) -> Scored:
    """Score a run by measures in ir-measures notation, e.g. ``nDCG@10``.

    Accepts every form of runs and judgements that ``load_run`` and ``load_qrels`` read. ``queries``
    are those that the arm ran; by default the judged ones. An empty answer scores 0. A query that
    failed, or is missing from the run, has no value (method, section "Quality"); ``load_run(...,
    empty=queries)`` reads a run in which such a query found nothing.

    Raises:
        UnknownName: a measure is unknown.
        EvidenceError: ``queries`` is empty, or repeats one.
        InvalidArm: the run answers none of them.
        BadFile, RunError, DatasetError: as ``load_run`` and ``load_qrels``; or the two write the
            same ids in two ways.
    """
    loaded, judged = load_run(run), load_qrels(qrels)
    check_ids(loaded, judged)
    asked = judged.query_ids if queries is None else queries
    return Scored(loaded.arm, quality.score(loaded, judged, measures, asked))


def check_ids(run: Run, qrels: Qrels) -> None:
    """Refuse a run and judgements that write the same ids in two ways.

    Raises:
        DatasetError: they do; the message has an example.
    """
    judged = {doc_id for of in qrels.grades.values() for doc_id in of}
    found = {
        "query": written_otherwise(frozenset(run.query_ids), frozenset(qrels.grades)),
        "document": written_otherwise(frozenset(run.vocabulary), judged),
    }
    for what, pair in found.items():
        if pair:
            raise DatasetError(
                f"the run has the {what} {pair[0]!r}, and the judgements have {pair[1]!r}. Read ids"
                " as text (pandas: dtype=str)"
            )


def _without(scores: Scores) -> str:
    said = [f"{len(ids):,} {why.replace('_', ' ')}" for why, ids in scores.undefined.items()]
    return ", ".join(said) or "none"
