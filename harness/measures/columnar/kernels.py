"""Measures of a graded ranking, all queries at once.

Sums run down the ranks as they do in trec_eval, so that the last bit is the same too. Each
function returns shape (judged queries,); a query for which the measure is not defined has 0 there
and is left out by ``harness.measures.quality``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from harness.measures.columnar.encoded import EncodedQrels
from harness.measures.columnar.graded import Graded, running
from harness.measures.columnar.spec import MeasureSpec

Values = NDArray[np.float64]


def evaluate(graded: Graded, asked: MeasureSpec) -> Values:
    """Compute one measure.

    Raises:
        KeyError: missing kernel for the measure.
    """
    seen = graded.condensed(lowest=0) if asked.judged_only else graded
    return KERNELS[asked.name](seen, asked)


def has_value(qrels: EncodedQrels, asked: MeasureSpec) -> NDArray[np.bool_]:
    """Whether the judgements give each query a value, shape (judged queries,) (method, section 2).

    A query without a relevant document has a value only for measures of judging or length.
    """
    if asked.name == "Judged" or (asked.name == "NumRet" and not asked.rel):
        return np.ones(len(qrels), dtype=bool)
    good = gains_of(qrels.grades, asked.gains) >= asked.rel
    return np.bincount(qrels.rows[good], minlength=len(qrels)) > 0


def _ndcg(graded: Graded, asked: MeasureSpec) -> Values:
    """Järvelin and Kekäläinen (2002), the ideal over all judged documents."""
    deepest = int(graded.rank.max(initial=0)) + 1
    cutoff = deepest if asked.cutoff is None else min(asked.cutoff, deepest)
    gain = gains_of(graded.grade, asked.gains)
    gained = _discounted(graded.row, graded.rank, gain, discounts(cutoff), len(graded.qrels))
    return ratio(gained, ideal(graded.qrels, asked))


def ideal(qrels: EncodedQrels, asked: MeasureSpec) -> Values:
    """DCG of the ideal ranking, shape (judged queries,)."""
    deepest = int(qrels.place.max(initial=0)) + 1
    cutoff = deepest if asked.cutoff is None else min(asked.cutoff, deepest)
    rows, best = qrels.rows, gains_of(qrels.grades, asked.gains)
    if asked.gains is not None:
        order = np.lexsort((-best, rows))
        rows, best = rows[order], best[order]
    return _discounted(rows, qrels.place, best, discounts(cutoff), len(qrels))


def discounts(deepest: int) -> Values:
    """log2(rank + 1) of the ranks 1 to ``deepest``, shape (deepest,)."""
    return np.array([math.log2(at + 2) for at in range(deepest)])


def gains_of(grades: NDArray[np.int32], gains: Mapping[int, int] | None) -> NDArray[np.int32]:
    """Gain of each grade, shape of ``grades``; negative gains become 0."""
    if gains is None:
        return grades
    levels, at = np.unique(grades, return_inverse=True)
    written = [gains.get(grade, grade) for grade in levels.tolist()]
    return np.array(written, dtype=np.int32)[at]


def _discounted(
    row: NDArray[np.int64],
    rank: NDArray[np.int64],
    gain: NDArray[np.int32],
    discount: Values,
    queries: int,
) -> Values:
    at = np.flatnonzero((rank < len(discount)) & (gain > 0))
    summed = np.bincount(row[at], weights=gain[at] / discount[rank[at]], minlength=queries)
    return summed.astype(np.float64, copy=False)


def _within(found: Graded, cutoff: int | None) -> NDArray[np.int64]:
    row = found.row if cutoff is None else found.row[found.rank < cutoff]
    return np.bincount(row, minlength=len(found.qrels)).astype(np.int64, copy=False)


def _rr(graded: Graded, asked: MeasureSpec) -> Values:
    found = graded.relevant(asked.rel)
    first = running(found.row) == 0
    if asked.cutoff is not None:
        first &= found.rank < asked.cutoff
    values = np.zeros(len(graded.qrels))
    values[found.row[first]] = 1 / (found.rank[first] + 1)
    return values


def _p(graded: Graded, asked: MeasureSpec) -> Values:
    return _within(graded.relevant(asked.rel), asked.cutoff) / _cut(asked)


def _r(graded: Graded, asked: MeasureSpec) -> Values:
    return ratio(
        _within(graded.relevant(asked.rel), asked.cutoff), graded.qrels.relevant(asked.rel)
    )


def _success(graded: Graded, asked: MeasureSpec) -> Values:
    return (_within(graded.relevant(asked.rel), asked.cutoff) > 0).astype(np.float64)


def _ap(graded: Graded, asked: MeasureSpec) -> Values:
    found = graded.relevant(asked.rel)
    precision = (running(found.row) + 1) / (found.rank + 1)
    if asked.cutoff is not None:
        precision[found.rank >= asked.cutoff] = 0.0
    summed = np.bincount(found.row, weights=precision, minlength=len(graded.qrels))
    return ratio(summed, graded.qrels.relevant(asked.rel))


def _rprec(graded: Graded, asked: MeasureSpec) -> Values:
    found = graded.relevant(asked.rel)
    relevant = graded.qrels.relevant(asked.rel)
    inside = found.rank < relevant[found.row]
    return ratio(np.bincount(found.row[inside], minlength=len(relevant)), relevant)


def _bpref(graded: Graded, asked: MeasureSpec) -> Values:
    """Buckley and Voorhees (2004), as trec_eval has it: divided by the smaller of R and N."""
    qrels, seen = graded.qrels, graded.only(graded.grade >= 0)
    relevant = qrels.relevant(asked.rel)
    others = qrels.relevant(0) - relevant
    good = seen.grade >= asked.rel
    before = running(seen.row) - _before(seen.row, good)
    row, before = seen.row[good], before[good]
    most = np.minimum(relevant, others)[row]
    worth = 1 - np.minimum(before, relevant[row]) / np.maximum(most, 1)
    return ratio(np.bincount(row, weights=worth, minlength=len(qrels)), relevant)


def _before(row: NDArray[np.int64], good: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many of the same row that are ``good`` stand before each."""
    counted: NDArray[np.int64] = np.cumsum(good) - good
    first = np.arange(len(row)) - running(row)
    found: NDArray[np.int64] = counted - counted[first]
    return found


def _judged(graded: Graded, asked: MeasureSpec) -> Values:
    """Divide by the hits that there are where those are fewer than the cutoff."""
    shown = graded.lengths if asked.cutoff is None else np.minimum(graded.lengths, asked.cutoff)
    return ratio(_within(graded, asked.cutoff), shown)


def _numret(graded: Graded, asked: MeasureSpec) -> Values:
    if not asked.rel:
        return graded.lengths.astype(np.float64)
    return _within(graded.relevant(asked.rel), None).astype(np.float64)


def _cut(asked: MeasureSpec) -> int:
    if asked.cutoff is None:
        raise KeyError(f"{asked.name} without a cutoff")
    return asked.cutoff


def ratio(top: NDArray[np.float64] | NDArray[np.int64], bottom: NDArray[np.generic]) -> Values:
    """``top / bottom``, 0 where ``bottom`` is 0; shape (queries,)."""
    below = bottom.astype(np.float64)
    return np.divide(top, below, out=np.zeros(len(below)), where=below > 0)


KERNELS: Mapping[str, Callable[[Graded, MeasureSpec], Values]] = {
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
