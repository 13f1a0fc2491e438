"""Rankings with ties: possible values of a measure under other orders of equal scores.

Each judged hit has the range of ranks of its tie. No measure with a kernel falls when a better
document of a tie moves up. So the best and the worst order of each tie give the largest and the
smallest value over all orders.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from harness.core.run import Run
from harness.measures.columnar.graded import Graded, running
from harness.measures.columnar.kernels import gains_of
from harness.measures.columnar.spec import MeasureSpec


@dataclass(frozen=True, slots=True, eq=False)
class Tied:
    """A graded ranking and the tie of each of its hits, hits by query and rank."""

    graded: Graded
    low: NDArray[np.int64]
    """Shape (judged hits,): the first rank of the tie, from 0."""
    high: NDArray[np.int64]
    """Shape (judged hits,): the rank after its last."""

    @classmethod
    def of(cls, run: Run, graded: Graded) -> Tied:
        """Read the ties of ``run`` from its raw scores; ``graded`` is the same run's."""
        new = np.ones(len(run.docs) + 1, dtype=bool)
        new[1:-1] = run.raw_score[1:] != run.raw_score[:-1]
        new[run.offsets] = True
        starts = np.flatnonzero(new)
        first = graded.start[graded.row]
        tie = np.searchsorted(starts, first + graded.rank, side="right") - 1
        return cls(graded, starts[tie] - first, starts[tie + 1] - first)

    @property
    def tie(self) -> NDArray[np.int64]:
        """A number for the tie of each judged hit, from 0, rising; shape (judged hits,)."""
        new = np.ones(len(self.low), dtype=bool)
        new[1:] = (self.low[1:] != self.low[:-1]) | (np.diff(self.graded.row) != 0)
        return (np.cumsum(new) - 1).astype(np.int64, copy=False)

    def condensed(self, lowest: int) -> Tied:
        """Take out what was not judged, or below ``lowest``; ties and ranks close up."""
        at = np.flatnonzero(self.graded.grade >= lowest)
        short = self.graded.condensed(lowest)
        kept = Tied(short, self.low[at], self.high[at])
        tie = kept.tie
        low = short.rank - running(tie)
        return replace(kept, low=low, high=low + np.bincount(tie)[tie] if len(tie) else low)

    def ordered(self, asked: MeasureSpec, *, best: bool) -> Graded:
        """Order each tie for the largest value of a measure, or else for the smallest."""
        worth = _worth(self.graded, asked) * (1 if best else -1)
        order = np.lexsort((-worth, self.low, self.graded.row))
        tie = self.tie[order]
        place = running(tie)
        size = np.bincount(tie)[tie] if len(tie) else place
        front = self.low[order] + place
        back = self.high[order] - size + place
        return replace(
            self.graded,
            row=self.graded.row[order],
            rank=np.where(worth[order] >= 0, front, back),
            grade=self.graded.grade[order],
        )


def _worth(graded: Graded, asked: MeasureSpec) -> NDArray[np.int64]:
    """Say what a hit is to a measure; 0 for what was not judged."""
    grade = graded.grade
    if asked.name == "nDCG":
        return np.maximum(gains_of(grade, asked.gains), 0).astype(np.int64)
    if asked.name == "Judged":
        return np.ones(len(grade), dtype=np.int64)
    good = (grade >= asked.rel).astype(np.int64)
    return good - ((grade >= 0) & (grade < asked.rel)) if asked.name == "Bpref" else good
