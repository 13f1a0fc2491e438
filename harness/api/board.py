"""Several runs by several measures, each compared with one control, with significance marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.api.comparing import Difference, difference
from harness.api.given import QrelsLike, RunLike
from harness.api.html import table
from harness.api.loading import load_qrels, named_run
from harness.api.scoring import score
from harness.core.clusters import independent
from harness.core.errors import EvidenceError, UnknownName
from harness.core.scores import Paired, Scores
from harness.report.rounding import number
from harness.stats.bootstrap import FEWEST
from harness.stats.holm import adjusted
from harness.stats.inference import Inference

if TYPE_CHECKING:
    import pandas as pd

HIGHER, LOWER = "†", "‡"
ABSENT = "not measured"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Leaderboard:
    """Means of every run, and how each differs from the control."""

    control: str
    measures: tuple[str, ...]
    scores: Mapping[str, Mapping[str, Scores]]
    """By run and measure; the best run by the first measure comes first."""
    differences: Mapping[tuple[str, str], Difference]
    """By run and measure; absent for the control, and where fewer than two queries are paired."""
    corrected: Mapping[tuple[str, str], float]
    """p-values after Holm's correction over all of ``differences``."""
    level: float
    """Significance level: a mark needs a corrected p-value below it."""

    def mean(self, arm: str, measure: str) -> float | None:
        """Mean of a run; None where no query has a value."""
        return self.scores[arm][measure].mean

    def mark(self, arm: str, measure: str) -> str:
        """Give the mark of a mean: significantly higher or lower than the control, or empty."""
        at = arm, measure
        if at not in self.corrected or self.corrected[at] >= self.level:
            return ""
        return HIGHER if self.differences[at].estimate.value > 0 else LOWER

    def best(self, measure: str) -> float | None:
        """Highest mean of any run; None where no run has one."""
        found = [self.mean(arm, measure) for arm in self.scores]
        return max((value for value in found if value is not None), default=None)

    @property
    def caption(self) -> str:
        """Caption of the table, with the number of queries scored by the first measure."""
        counts = sorted({len(of[self.measures[0]].query_ids) for of in self.scores.values()})
        over = "queries" if counts[-1] != 1 else "query"
        least = f"{counts[0]:,} to " if counts[0] != counts[-1] else ""
        return f"Means over queries ({least}{counts[-1]:,} {over} for {self.measures[0]})"

    @property
    def note(self) -> str:
        """Meaning of the marks, and the number of unpaired queries."""
        lost = len({q for found in self.differences.values() for q in found.paired.unpaired})
        said = f" Queries missing because one of two runs failed: {lost:,}." if lost else ""
        return (
            f"{HIGHER} higher, {LOWER} lower than {self.control}: paired sign-flip test,"
            f" two-sided, p below {self.level:.3g} after Holm's correction over the whole table"
            f" (comparisons: {len(self.corrected)}). No mark does not mean that two are"
            f" alike.{said}"
        )

    def frame(self) -> pd.DataFrame:
        """Give a frame with a row for each run and measure; NaN if nothing was compared."""
        import pandas as pd

        return pd.DataFrame([
            {
                "arm": arm,
                "measure": measure,
                "queries": len(of[measure].query_ids),
                "mean": of[measure].mean,
                **self._against_control(arm, measure),
            }
            for arm, of in self.scores.items()
            for measure in self.measures
        ])

    def _against_control(self, arm: str, measure: str) -> dict[str, float | str | None]:
        found = self.differences.get((arm, measure))
        names = ("difference", "low", "high", "p", "p_holm")
        if found is None:
            return {**dict.fromkeys(names), "mark": ""}
        apart = found.estimate
        p_values = found.p_value, self.corrected[arm, measure]
        values = (apart.value, apart.low, apart.high, *p_values)
        return {**dict(zip(names, values, strict=True)), "mark": self.mark(arm, measure)}

    def __repr__(self) -> str:
        rows = (
            f"{arm}: {', '.join(f'{m} {self._cell(arm, m)}' for m in self.measures)}"
            for arm in self.scores
        )
        return "\n".join([*rows, self.note])

    def _repr_html_(self) -> str:
        rows = [
            (arm, *(self._cell(arm, measure) for measure in self.measures)) for arm in self.scores
        ]
        return table(self.caption, ("", *self.measures), rows, self.note)

    def _cell(self, arm: str, measure: str) -> str:
        value = self.mean(arm, measure)
        return ABSENT if value is None else number(value) + self.mark(arm, measure)


def leaderboard(
    control: RunLike,
    candidates: Sequence[RunLike],
    qrels: QrelsLike,
    measures: Sequence[str],
    *,
    sure: Inference,
    queries: Sequence[str] | None = None,
    intents: Mapping[str, str] | None = None,
) -> Leaderboard:
    """Score every run, and compare every candidate with the control by every measure.

    Accepts every form of runs and judgements that ``load_run`` and ``load_qrels`` read. A run
    without a name is called ``control``, ``candidate-1``, ``candidate-2`` and so on.

    Raises:
        EvidenceError: two runs have one name, or a candidate or measure is missing.
        UnknownName, InvalidArm, BadFile, RunError, DatasetError: as ``score``.
    """
    first, judged = named_run(control, "", "control"), load_qrels(qrels)
    others = [named_run(run, "", f"candidate-{at}") for at, run in enumerate(candidates, start=1)]
    names = [run.arm for run in (first, *others)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise EvidenceError(f"two runs are named {twice[0]}; load one of them with another arm=")
    found = {
        run.arm: score(run, judged, measures, queries=queries).scores for run in (first, *others)
    }
    return ranked(found, first.arm, measures, sure, intents or {})


def ranked(
    scores: Mapping[str, Mapping[str, Scores]],
    control: str,
    measures: Sequence[str],
    sure: Inference,
    intents: Mapping[str, str],
) -> Leaderboard:
    """Make a leaderboard from existing scores; ``scores`` is by run and measure.

    Raises:
        UnknownName: the control or a measure is not among ``scores``.
        EvidenceError: a candidate or a measure is missing.
        MismatchedQueries: two runs have different queries.
    """
    if control not in scores:
        raise UnknownName("arm to be the control", control, scores)
    if len(scores) < FEWEST or not measures:
        raise EvidenceError("a table needs a control, another run and a measure; name them")
    for measure in measures:
        if lacking := [arm for arm in scores if measure not in scores[arm]]:
            raise UnknownName(f"measure of {lacking[0]}", measure, scores[lacking[0]])
    found: dict[tuple[str, str], Difference] = {}
    for arm in scores:
        for measure in measures:
            paired = Paired.of(scores[control][measure], scores[arm][measure])
            if arm != control and independent(paired.query_ids, intents) >= FEWEST:
                found[arm, measure] = difference(paired, (control, arm), sure, intents)
    p_values = adjusted(np.array([one.p_value for one in found.values()], dtype=np.float64))

    def place(arm: str) -> tuple[float, str]:
        mean = scores[arm][measures[0]].mean
        return (-mean if mean is not None else np.inf, arm)

    return Leaderboard(
        control=control,
        measures=tuple(measures),
        scores={arm: scores[arm] for arm in sorted(scores, key=place)},
        differences=found,
        corrected=dict(zip(found, p_values.tolist(), strict=True)),
        level=sure.level,
    )
