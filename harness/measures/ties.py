"""Ties: values of a measure under other orders of equal scores."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from ir_measures import Measure

from harness.core.records import Qrels
from harness.core.run import Run, Status
from harness.core.scores import Scores
from harness.measures import kernels
from harness.measures.columns import EncodedQrels, Rows
from harness.measures.name import parse
from harness.measures.quality import score_by


@dataclass(frozen=True, slots=True, eq=False)
class Tied:
    """A graded ranking and the tie of each of its hits, hits by query and rank."""

    graded: kernels.Graded
    low: Rows
    """Shape (judged hits,): the first rank of the tie, from 0."""
    high: Rows
    """Shape (judged hits,): the rank after its last."""

    @classmethod
    def of(cls, run: Run, graded: kernels.Graded) -> "Tied":
        """Read the ties of ``run`` from its raw scores; ``graded`` is the same run's."""
        new = np.ones(len(run.docs) + 1, dtype=bool)
        new[1:-1] = run.raw_score[1:] != run.raw_score[:-1]
        new[run.offsets] = True
        starts = np.flatnonzero(new)
        first = graded.start[graded.row]
        tie = np.searchsorted(starts, first + graded.rank, side="right") - 1
        return cls(graded, starts[tie] - first, starts[tie + 1] - first)

    @property
    def tie(self) -> Rows:
        """A number for the tie of each judged hit, from 0, rising; shape (judged hits,)."""
        new = np.ones(len(self.low), dtype=bool)
        new[1:] = (self.low[1:] != self.low[:-1]) | (np.diff(self.graded.row) != 0)
        return (np.cumsum(new) - 1).astype(np.int64, copy=False)

    def condensed(self, lowest: int) -> "Tied":
        """Take out what was not judged, or below ``lowest``; ties and ranks close up."""
        at = np.flatnonzero(self.graded.grade >= lowest)
        short = self.graded.condensed(lowest)
        kept = Tied(short, self.low[at], self.high[at])
        tie = kept.tie
        low = short.rank - kernels.running(tie)
        return replace(kept, low=low, high=low + np.bincount(tie)[tie] if len(tie) else low)

    def ordered(self, asked: kernels.MeasureSpec, *, best: bool) -> kernels.Graded:
        """Order each tie for the largest value of a measure, or else for the smallest."""
        grade = self.graded.grade
        match asked.name:
            case "nDCG":
                worth = np.maximum(kernels.gains_of(grade, asked.gains), 0).astype(np.int64)
            case "Judged":
                worth = np.ones(len(grade), dtype=np.int64)
            case _:
                worth = (grade >= asked.rel).astype(np.int64)
        worth = worth if best else -worth
        order = np.lexsort((-worth, self.low, self.graded.row))
        tie = self.tie[order]
        place = kernels.running(tie)
        size = np.bincount(tie)[tie] if len(tie) else place
        front = self.low[order] + place
        back = self.high[order] - size + place
        return replace(
            self.graded,
            row=self.graded.row[order],
            rank=np.where(worth[order] >= 0, front, back),
            grade=grade[order],
        )


def expected(tied: Tied, asked: kernels.MeasureSpec) -> kernels.Values:
    """Mean of a measure over all orders of equal scores, shape (judged queries,)."""
    seen = tied.condensed(lowest=0) if asked.judged_only else tied
    return _EXPECTED[asked.name](seen, asked)


def _inside(tied: Tied, cutoff: int | Rows | None) -> kernels.Values:
    """Return the chance of each judged hit to stand within the cutoff, shape (judged hits,)."""
    if cutoff is None:
        return np.ones(len(tied.low))
    span = np.minimum(tied.high, cutoff) - np.minimum(tied.low, cutoff)
    return np.asarray(span / (tied.high - tied.low), dtype=np.float64)


def _summed(tied: Tied, weights: kernels.Values) -> kernels.Values:
    summed = np.bincount(tied.graded.row, weights=weights, minlength=len(tied.graded.qrels))
    return summed.astype(np.float64, copy=False)


def _good(tied: Tied, asked: kernels.MeasureSpec) -> Tied:
    good = tied.graded.grade >= asked.rel
    return Tied(tied.graded.only(good), tied.low[good], tied.high[good])


def _ndcg(tied: Tied, asked: kernels.MeasureSpec) -> kernels.Values:
    """Every document of a tie gains the mean of the tie's discounts."""
    deepest = int(tied.high.max(initial=0))
    cutoff = deepest if asked.cutoff is None else min(asked.cutoff, deepest)
    whole = np.concatenate([[0.0], np.cumsum(1 / kernels.discounts(cutoff))])
    span = whole[np.minimum(tied.high, cutoff)] - whole[np.minimum(tied.low, cutoff)]
    gain = np.maximum(kernels.gains_of(tied.graded.grade, asked.gains), 0)
    gained = _summed(tied, gain * span / (tied.high - tied.low))
    return kernels.ratio(gained, kernels.ideal(tied.graded.qrels, asked))


def _p(tied: Tied, asked: kernels.MeasureSpec) -> kernels.Values:
    return _numret(tied, asked) / (asked.cutoff or 1)


def _r(tied: Tied, asked: kernels.MeasureSpec) -> kernels.Values:
    return kernels.ratio(_numret(tied, asked), tied.graded.qrels.relevant(asked.rel))


def _numret(tied: Tied, asked: kernels.MeasureSpec) -> kernels.Values:
    if not asked.rel:
        return tied.graded.lengths.astype(np.float64)
    found = _good(tied, asked)
    return _summed(found, _inside(found, asked.cutoff))


def _rprec(tied: Tied, asked: kernels.MeasureSpec) -> kernels.Values:
    relevant = tied.graded.qrels.relevant(asked.rel)
    found = _good(tied, asked)
    return kernels.ratio(_summed(found, _inside(found, relevant[found.graded.row])), relevant)


def _judged(tied: Tied, asked: kernels.MeasureSpec) -> kernels.Values:
    lengths = tied.graded.lengths
    shown = lengths if asked.cutoff is None else np.minimum(lengths, asked.cutoff)
    return kernels.ratio(_summed(tied, _inside(tied, asked.cutoff)), shown)


def _first(found: Tied) -> tuple[Rows, Rows, Rows]:
    """Where the first good tie of each query starts in ``found``, its size, its good ones."""
    tie = found.tie
    at = np.flatnonzero(np.diff(found.graded.row, prepend=-1))
    many = np.bincount(tie)[tie[at]] if len(tie) else at
    return at, (found.high - found.low)[at], many.astype(np.int64, copy=False)


def _rr(tied: Tied, asked: kernels.MeasureSpec) -> kernels.Values:
    """Weigh j places into the first good tie by their chance, C(m-1-j, r-1) / C(m, r)."""
    found = _good(tied, asked)
    at, size, many = _first(found)
    low = found.low[at]
    cutoff = np.inf if asked.cutoff is None else asked.cutoff
    chance = many / np.maximum(size, 1)
    summed = np.zeros(len(at))
    for j in range(int((size - many).max(initial=-1)) + 1):
        summed += np.where(low + j < cutoff, chance / (low + j + 1), 0.0)
        chance = chance * np.maximum(size - many - j, 0) / np.maximum(size - 1 - j, 1)
    values = np.zeros(len(tied.graded.qrels))
    values[found.graded.row[at]] = summed
    return values


def _success(tied: Tied, asked: kernels.MeasureSpec) -> kernels.Values:
    """1 - C(m-r, t) / C(m, t) where the first good tie has t of its m places within the cutoff."""
    found = _good(tied, asked)
    at, size, many = _first(found)
    inside = np.clip((asked.cutoff or 0) - found.low[at], 0, size)
    missed = np.ones(len(at))
    for i in range(int(many.max(initial=0))):
        left = np.maximum(size - inside - i, 0) / np.maximum(size - i, 1)
        missed *= np.where(i < many, left, 1.0)
    values = np.zeros(len(tied.graded.qrels))
    values[found.graded.row[at]] = 1 - missed
    return values


def _ap(tied: Tied, asked: kernels.MeasureSpec) -> kernels.Values:
    """At each place of a tie: the chance of a relevant one, times the precision expected there."""
    found = _good(tied, asked)
    tie = found.tie
    at = np.flatnonzero(np.diff(tie, prepend=-1))
    row, low, high = found.graded.row[at], found.low[at], found.high[at]
    size = high - low
    many = np.bincount(tie).astype(np.int64, copy=False) if len(tie) else size
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    before = at - np.repeat(at[starts], np.diff(starts, append=len(row)))
    deepest = int(high.max(initial=0))
    cutoff = deepest if asked.cutoff is None else min(asked.cutoff, deepest)
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, cutoff + 1))])
    low, high = np.minimum(low, cutoff), np.minimum(high, cutoff)
    rise = (many - 1) / np.maximum(size - 1, 1)
    level = (before + 1 - rise * (low + 1)) * (harmonic[high] - harmonic[low])
    weights = many / size * (rise * (high - low) + level)
    qrels = tied.graded.qrels
    return kernels.ratio(
        np.bincount(row, weights=weights, minlength=len(qrels)), qrels.relevant(asked.rel)
    )


_EXPECTED: Mapping[str, Callable[[Tied, kernels.MeasureSpec], kernels.Values]] = {
    "nDCG": _ndcg,
    "RR": _rr,
    "P": _p,
    "R": _r,
    "Success": _success,
    "AP": _ap,
    "Rprec": _rprec,
    "Judged": _judged,
    "NumRet": _numret,
}


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
        """Return it in words."""
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
    """
    with_kernel = [name for name in measures if kernels.MeasureSpec.of(parse(name)) is not None]
    tied = Tied.of(run, kernels.Graded.of(run, EncodedQrels.of(qrels)))

    def scored(of: Callable[[Tied, kernels.MeasureSpec], kernels.Values]) -> Mapping[str, Scores]:
        def values(_: object, __: object, asked: Sequence[Measure]) -> Mapping[str, kernels.Values]:
            specs = {repr(measure): kernels.MeasureSpec.of(measure) for measure in asked}
            return {name: of(tied, one) for name, one in specs.items() if one is not None}

        return score_by(run, qrels, with_kernel, asked, values)

    least, most = (scored(partial(_extreme, best=best)) for best in (False, True))
    mean = scored(expected)
    return {name: Spread(least[name], mean[name], most[name]) for name in with_kernel}


def _extreme(tied: Tied, asked: kernels.MeasureSpec, *, best: bool) -> kernels.Values:
    seen = tied.condensed(lowest=0) if asked.judged_only else tied
    return kernels.evaluate(seen.ordered(asked, best=best), asked)
