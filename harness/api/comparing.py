"""Two runs by one measure, paired by query, with interval and p-value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.api.given import QrelsLike, RunLike
from harness.api.html import table
from harness.api.loading import load_qrels, named_run
from harness.api.scoring import score
from harness.core.clusters import codes
from harness.core.printable import counted
from harness.core.scores import Estimate, Paired, Scores
from harness.measures.spans import span_of_difference
from harness.measures.summary import summarise
from harness.report.rounding import interval, number, p_value, signed
from harness.stats.inference import Inference
from harness.stats.randomization import sign_flip

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Difference", "Inference", "compare", "difference"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Difference:
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
        """Give a pandas frame with a row for each query, the largest loss first."""
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

    def _repr_html_(self) -> str:
        found = self.estimate
        same = found.n - len(self.better) - len(self.worse)
        row = (
            self.measure,
            number(float(self.paired.control.mean())),
            number(float(self.paired.candidate.mean())),
            f"{signed(found.value)} {interval(found)}",
            p_value(self.p_value),
            f"{len(self.better):,} / {same:,} / {len(self.worse):,}",
        )
        header = ("measure", self.control, self.candidate, "difference", "p", "better/same/worse")
        note = counted(found.n, "query") + (
            f"; {len(self.paired.unpaired):,} lost: only one of the two has a value"
            if self.paired.unpaired
            else ""
        )
        return table(f"{self.candidate} against {self.control}", header, [row], note)


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
    """Give the mean difference with interval and p-value; ``arms`` are control and candidate.

    Raises:
        EvidenceError: as ``compare``.
    """
    estimate = summarise(
        Scores(paired.measure, paired.query_ids, paired.difference, {}),
        span=span_of_difference(paired.measure),
        inference=sure,
        clusters=intents,
    )
    p = sign_flip(
        paired.difference,
        shift=0.0,
        alternative="two-sided",
        resamples=sure.resamples,
        seed=sure.seed,
        clusters=codes(paired.query_ids, intents),
        threads=sure.threads,
    )
    return Difference(*arms, paired, estimate, p)
