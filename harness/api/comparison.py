"""Runs scored, and compared by measure with intervals and p-values, as tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.api.data import QrelsLike, RunLike, load_qrels, load_run, named_run
from harness.core.errors import DatasetError
from harness.core.printable import counted
from harness.core.records import Query
from harness.core.scores import Estimate, Paired, Scores, codes
from harness.corpus import clusters
from harness.corpus.cells import written_otherwise
from harness.measures import quality
from harness.measures.name import span_of_difference
from harness.measures.quality import summarise
from harness.report.doc import Block, Num, Text, table
from harness.report.html import fragment
from harness.report.rounding import interval, number, p_value, signed
from harness.stats.inference import Inference
from harness.stats.significance import sign_flip

if TYPE_CHECKING:
    import pandas as pd


__all__ = ["Difference", "Inference", "compare", "difference"]


class Shown(ABC):
    """A result that a notebook shows as ``blocks`` of a report."""

    __slots__ = ()

    @abstractmethod
    def blocks(self) -> Iterable[Block]: ...

    def _repr_html_(self) -> str:
        return fragment(self.blocks())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scored(Shown):
    """Scores of one run, query by query."""

    arm: str
    scores: Mapping[str, Scores]
    """Scores by measure name, as given."""

    def frame(self) -> pd.DataFrame:
        """Return a frame with a row for each query, a column for each measure; NaN if undefined."""
        import pandas as pd

        columns = {name: pd.Series(dict(of.by_query)) for name, of in self.scores.items()}
        return pd.DataFrame(columns).rename_axis("query_id")

    def __repr__(self) -> str:
        means = (f"{name} {number(of.mean)}" for name, of in self.scores.items())
        return f"{self.arm}: {', '.join(means)}"

    def blocks(self) -> Iterable[Block]:
        """Return a table of means."""
        yield table(
            f"{self.arm}: means over queries",
            ("measure", "mean", "queries", "without a value"),
            (
                (name, Num(of.mean), len(of.query_ids), ", ".join(
                    f"{len(ids):,} {why.replace('_', ' ')}" for why, ids in of.undefined.items()
                ) or "none")
                for name, of in self.scores.items()
            ),
        )  # fmt: skip


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
    documents = {doc_id for of in judged.grades.values() for doc_id in of}
    differing = {
        "query": written_otherwise(frozenset(loaded.query_ids), frozenset(judged.grades)),
        "document": written_otherwise(frozenset(loaded.vocabulary), documents),
    }
    for what, pair in differing.items():
        if pair:
            raise DatasetError(
                f"the run has the {what} {pair[0]!r}, and the judgements have {pair[1]!r}. Read ids"
                " as text (pandas: dtype=str)"
            )
    asked = judged.query_ids if queries is None else queries
    return Scored(loaded.arm, quality.score(loaded, judged, measures, asked))


def near_duplicates(queries: Mapping[str, str]) -> Mapping[str, str]:
    """Return the cluster of each near-duplicate query, by its id.

    ``queries`` are texts by id. Give it to ``compare`` as ``intents``: the gates of a policy
    do the same for queries without an intent.
    """
    asked = tuple(Query(query_id, text) for query_id, text in queries.items())
    return clusters.of_queries(asked, clusters.near_duplicates(asked))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Difference(Shown):
    """Candidate minus control by one measure."""

    control: str
    candidate: str
    paired: Paired
    estimate: Estimate
    """Mean difference with its interval."""
    p_value: float
    """Two-sided p-value of the sign-flip test of "no difference"."""

    @property
    def measure(self) -> str:
        """Name of the measure, as it was given."""
        return self.paired.measure

    @property
    def better(self) -> tuple[str, ...]:
        """Ids of queries that the candidate answers better, the largest gain first."""
        return tuple(q for q, apart in reversed(self._sorted()) if apart > 0)

    @property
    def worse(self) -> tuple[str, ...]:
        """Ids of queries that the candidate answers worse, the largest loss first."""
        return tuple(q for q, apart in self._sorted() if apart < 0)

    def frame(self) -> pd.DataFrame:
        """Return a pandas frame with a row for each query, the largest loss first."""
        import pandas as pd

        columns = {
            "control": self.paired.control,
            "candidate": self.paired.candidate,
            "difference": self.paired.difference,
        }
        index = pd.Index(self.paired.query_ids, name="query_id")
        return pd.DataFrame(columns, index=index).sort_values("difference", kind="stable")

    def _sorted(self) -> list[tuple[str, float]]:
        apart = self.paired.difference
        order = np.argsort(apart, kind="stable")
        return [(self.paired.query_ids[at], float(apart[at])) for at in order]

    def __repr__(self) -> str:
        found = self.estimate
        return (
            f"{self.candidate} against {self.control}, {self.measure}: {signed(found.value)}"
            f" {interval(found)}, p {p_value(self.p_value)}, {counted(found.n, 'query')}"
        )

    def blocks(self) -> Iterable[Block]:
        """Return a table of one row, and how many queries were lost."""
        yield table(
            f"{self.candidate} compared with {self.control}",
            (
                "measure", self.control, self.candidate, "difference", "p", "queries", "better",
                "worse",
            ),
            [(
                self.measure,
                Num(float(self.paired.control.mean())),
                Num(float(self.paired.candidate.mean())),
                Num.of(self.estimate, signed=True),
                Num(self.p_value, "p"),
                self.estimate.n,
                len(self.better),
                len(self.worse),
            )],
        )  # fmt: skip
        if lost := len(self.paired.unpaired):
            yield Text(f"{lost:,} lost: only one of the two has a value")


def compare(
    control: RunLike,
    candidate: RunLike,
    qrels: QrelsLike,
    measure: str,
    *,
    sure: Inference,
    queries: Sequence[str] | None = None,
    intents: Mapping[str, str] | None = None,
) -> Difference:
    """Compare two runs by one measure, query by query.

    Accepts every form of runs and judgements that ``load_run`` and ``load_qrels`` read. A run
    without a name is called ``control`` or ``candidate``. ``queries`` are as in ``score``.
    ``intents`` has the intent of a query by its id; queries of one intent are resampled together.
    The result is not a verdict; policies give verdicts.

    Raises:
        UnknownName: ``measure`` is unknown.
        EvidenceError: fewer than two queries, or intents, have a value in both runs.
        InvalidArm: a run answers none of the queries.
        BadFile, RunError, DatasetError: as ``load_run`` and ``load_qrels``.
    """
    runs = named_run(control, "", "control"), named_run(candidate, "", "candidate")
    judged = load_qrels(qrels)
    left, right = (score(run, judged, [measure], queries=queries) for run in runs)
    paired = Paired.of(left.scores[measure], right.scores[measure])
    return difference(paired, (left.arm, right.arm), sure, intents or {})


def difference(
    paired: Paired, arms: tuple[str, str], sure: Inference, intents: Mapping[str, str]
) -> Difference:
    """Return the mean difference with interval and p-value; ``arms`` are control and candidate."""
    estimate = summarise(
        Scores(paired.measure, paired.query_ids, paired.difference, {}),
        span=span_of_difference(paired.measure),
        inference=sure,
        clusters=intents,
    )
    p = sign_flip(
        paired.difference,
        resamples=sure.resamples,
        seed=sure.seed,
        clusters=codes(paired.query_ids, intents),
    )
    return Difference(*arms, paired, estimate, p)
