"""The expected value of a measure when each tie is put in a random order.

In closed form for every measure that we have a kernel for. For nDCG, P, R, RR and AP: McSherry and
Najork, "Computing information retrieval performance measures efficiently in the presence of tied
scores", ECIR 2008. The others are explained in their code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from harness.measures.columnar.kernels import Values, discounts, gains_of, ideal, ratio
from harness.measures.columnar.spec import MeasureSpec
from harness.measures.ties.tied import Tied


def expected(tied: Tied, asked: MeasureSpec) -> Values:
    """Mean of a measure over all orders of equal scores, shape (judged queries,).

    Raises:
        KeyError: missing kernel for the measure.
    """
    seen = tied.condensed(lowest=0) if asked.judged_only else tied
    return _EXPECTED[asked.name](seen, asked)


def _inside(tied: Tied, cutoff: int | NDArray[np.int64] | None) -> Values:
    """Give the chance of each judged hit to stand within the cutoff, shape (judged hits,)."""
    if cutoff is None:
        return np.ones(len(tied.low))
    span = np.minimum(tied.high, cutoff) - np.minimum(tied.low, cutoff)
    return np.asarray(span / (tied.high - tied.low), dtype=np.float64)


def _summed(tied: Tied, weights: Values) -> Values:
    summed = np.bincount(tied.graded.row, weights=weights, minlength=len(tied.graded.qrels))
    return summed.astype(np.float64, copy=False)


def _good(tied: Tied, asked: MeasureSpec) -> Tied:
    good = tied.graded.grade >= asked.rel
    return Tied(tied.graded.only(good), tied.low[good], tied.high[good])


def _ndcg(tied: Tied, asked: MeasureSpec) -> Values:
    """Every document of a tie gains the mean of the tie's discounts."""
    deepest = int(tied.high.max(initial=0))
    cutoff = deepest if asked.cutoff is None else min(asked.cutoff, deepest)
    whole = np.concatenate([[0.0], np.cumsum(1 / discounts(cutoff))])
    span = whole[np.minimum(tied.high, cutoff)] - whole[np.minimum(tied.low, cutoff)]
    gain = np.maximum(gains_of(tied.graded.grade, asked.gains), 0)
    gained = _summed(tied, gain * span / (tied.high - tied.low))
    return ratio(gained, ideal(tied.graded.qrels, asked))


def _p(tied: Tied, asked: MeasureSpec) -> Values:
    return _numret(tied, asked) / (asked.cutoff or 1)


def _r(tied: Tied, asked: MeasureSpec) -> Values:
    return ratio(_numret(tied, asked), tied.graded.qrels.relevant(asked.rel))


def _numret(tied: Tied, asked: MeasureSpec) -> Values:
    if not asked.rel:
        return tied.graded.lengths.astype(np.float64)
    found = _good(tied, asked)
    return _summed(found, _inside(found, asked.cutoff))


def _rprec(tied: Tied, asked: MeasureSpec) -> Values:
    relevant = tied.graded.qrels.relevant(asked.rel)
    found = _good(tied, asked)
    return ratio(_summed(found, _inside(found, relevant[found.graded.row])), relevant)


def _judged(tied: Tied, asked: MeasureSpec) -> Values:
    lengths = tied.graded.lengths
    shown = lengths if asked.cutoff is None else np.minimum(lengths, asked.cutoff)
    return ratio(_summed(tied, _inside(tied, asked.cutoff)), shown)


def _first(found: Tied) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Where the first good tie of each query starts in ``found``, its size, its good ones."""
    tie = found.tie
    at = np.flatnonzero(np.diff(found.graded.row, prepend=-1))
    many = np.bincount(tie)[tie[at]] if len(tie) else at
    return at, (found.high - found.low)[at], many.astype(np.int64, copy=False)


def _rr(tied: Tied, asked: MeasureSpec) -> Values:
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


def _success(tied: Tied, asked: MeasureSpec) -> Values:
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


def _ap(tied: Tied, asked: MeasureSpec) -> Values:
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
    return ratio(np.bincount(row, weights=weights, minlength=len(qrels)), qrels.relevant(asked.rel))


def _bpref(tied: Tied, asked: MeasureSpec) -> Values:
    """Of the n others in its tie, 0 to n stand before a relevant document, all as likely."""
    qrels = tied.graded.qrels
    judged = tied.graded.grade >= 0
    seen = Tied(tied.graded.only(judged), tied.low[judged], tied.high[judged])
    row, good = seen.graded.row, seen.graded.grade >= asked.rel
    tie = seen.tie
    relevant = qrels.relevant(asked.rel)
    most = np.minimum(relevant, qrels.relevant(0) - relevant)
    others = np.concatenate([[0], np.cumsum(~good)])
    of_tie = np.flatnonzero(np.diff(tie, prepend=-1))
    of_row = np.flatnonzero(np.diff(row, prepend=-1))
    number = np.cumsum(np.diff(row, prepend=-1) != 0) - 1
    before = (others[of_tie][tie] - others[of_row][number])[good]
    beside = np.diff(others[np.append(of_tie, len(tie))])[tie][good]
    bound = relevant[row[good]]
    counted = _capped(before + beside, bound) - _capped(before - 1, bound)
    worth = 1 - counted / (beside + 1) / np.maximum(most[row[good]], 1)
    return ratio(np.bincount(row[good], weights=worth, minlength=len(qrels)), relevant)


def _capped(last: NDArray[np.int64], bound: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sum min(y, bound) over y = 0 to ``last``; 0 where ``last`` is -1."""
    flat = np.minimum(last, bound)
    summed: NDArray[np.int64] = flat * (flat + 1) // 2 + np.maximum(last - bound, 0) * bound
    return summed


_EXPECTED: Mapping[str, Callable[[Tied, MeasureSpec], Values]] = {
    "nDCG": _ndcg,
    "RR": _rr,
    "P": _p,
    "R": _r,
    "Success": _success,
    "AP": _ap,
    "Rprec": _rprec,
    "Bpref": _bpref,
    "Judged": _judged,
    "NumRet": _numret,
}
