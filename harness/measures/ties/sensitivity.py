"""How much a mean depends on the order of equal scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from ir_measures import Measure

from harness.core.errors import HarnessError
from harness.core.qrels import Qrels
from harness.core.run import Run, Status
from harness.core.scores import Scores
from harness.measures.columnar import kernels
from harness.measures.columnar.encoded import EncodedQrels
from harness.measures.columnar.graded import Graded
from harness.measures.columnar.spec import MeasureSpec
from harness.measures.name import parse
from harness.measures.quality import Compute, score_by
from harness.measures.ties.expected import expected
from harness.measures.ties.tied import Tied


@dataclass(frozen=True, slots=True)
class Ties:
    """Numbers of hits of a run's answered queries: all, tied, and tied in float32 only."""

    hits: int
    tied: int
    """Hits with the same score as a neighbour."""
    only_float64: int
    """Hits that tie with a neighbour in float32, as trec_eval stores scores, but not in float64."""

    @property
    def share(self) -> float | None:
        """Tied hits over all hits; None without hits."""
        return self.tied / self.hits if self.hits else None

    @property
    def said(self) -> str:
        """Say it in words."""
        return (
            f"{self.tied} of {self.hits} hits tie with another;"
            f" in float32, as trec_eval keeps scores, {self.only_float64} more would"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Values of one measure over all orders of equal scores, query by query."""

    least: Scores
    expected: Scores
    most: Scores


def count_ties(run: Run) -> Ties:
    """Count the ties of raw scores."""
    row = np.repeat(np.arange(len(run)), run.lengths)
    answered = run.status[row] == Status.ANSWERED
    beside = (row[1:] == row[:-1]) & answered[1:]
    with np.errstate(over="ignore"):
        short = run.raw_score.astype(np.float32)
    tied = _either(beside & (run.raw_score[1:] == run.raw_score[:-1]))
    coarse = _either(beside & (run.raw_score[1:] != run.raw_score[:-1]) & (short[1:] == short[:-1]))
    return Ties(int(answered.sum()), int(tied.sum()), int(coarse.sum()))


def _either(same: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> np.ndarray:
    """Mark both neighbours of each pair that is the same."""
    marked = np.zeros(len(same) + 1, dtype=bool)
    marked[1:] |= same
    marked[:-1] |= same
    return marked


def tie_sensitivity(
    run: Run, qrels: Qrels, measures: Sequence[str], asked: Sequence[str]
) -> Mapping[str, Spread]:
    """Least, expected and largest value of each measure over all orders of equal raw scores.

    Expected is the mean over the orders, each as likely (McSherry and Najork 2008). Measures for
    which we have no kernel are left out. Queries without a value are those of ``score``.

    Raises:
        UnknownName, EvidenceError, InvalidArm: as ``score``.
    """
    with_kernel = [name for name in measures if MeasureSpec.of(parse(name)) is not None]
    least, mean, most = (
        score_by(run, qrels, with_kernel, asked, _compute(values))
        for values in (_least, expected, _most)
    )
    return {name: Spread(least[name], mean[name], most[name]) for name in with_kernel}


def _compute(values: Callable[[Tied, MeasureSpec], kernels.Values]) -> Compute:
    def compute(
        run: Run,
        qrels: Qrels,  # noqa: ARG001  the signature of ``Compute``
        coded: EncodedQrels,
        shown: Sequence[str],  # noqa: ARG001  likewise
        measures: Sequence[Measure],
    ) -> Mapping[str, kernels.Values]:
        tied = Tied.of(run, Graded.of(run, coded))
        found = {}
        for measure in measures:
            asked = MeasureSpec.of(measure)
            if asked is None:
                raise HarnessError(f"missing kernel for {measure}")
            found[repr(measure)] = values(tied, asked)
        return found

    return compute


def _least(tied: Tied, asked: MeasureSpec) -> kernels.Values:
    return _extreme(tied, asked, best=False)


def _most(tied: Tied, asked: MeasureSpec) -> kernels.Values:
    return _extreme(tied, asked, best=True)


def _extreme(tied: Tied, asked: MeasureSpec, *, best: bool) -> kernels.Values:
    seen = tied.condensed(lowest=0) if asked.judged_only else tied
    return kernels.evaluate(seen.ordered(asked, best=best), asked)
