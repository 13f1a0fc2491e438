"""Measures of a graded ranking, all queries at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import NamedTuple

import numpy as np
from ir_measures import Measure
from numpy.typing import NDArray

from harness.core.run import Run, Status
from harness.measures.columns import UNKNOWN, Codes, EncodedQrels, Lookup, Rows

Values = NDArray[np.float64]
CUT_OR_NOT = frozenset({"nDCG", "RR", "AP", "Judged"})
CUT = frozenset({"P", "R", "Success"})
UNCUT = frozenset({"Rprec", "NumRet"})


class MeasureSpec(NamedTuple):
    """One measure, as ``ir_measures`` names and defines it."""

    name: str
    cutoff: int | None = None
    rel: int = 1
    """The lowest grade that counts as relevant. ``NumRet`` without one has 0 here."""
    gains: Mapping[int, int] | None = None
    """Of each grade, in nDCG; without them a grade is its gain."""
    judged_only: bool = False

    @classmethod
    def of(cls, measure: Measure) -> MeasureSpec | None:
        """Read a measure, its gains written out (``as_gains``); None without a kernel."""
        name, given = str(measure.NAME), dict(measure.params)
        cutoff = given.pop("cutoff", None)
        wanted = cls(
            name,
            cutoff,
            given.pop("rel", 0 if name == "NumRet" else 1),
            given.pop("gains", None),
            given.pop("judged_only", False),
        )
        given.pop("dcg", None)
        fits = name in CUT_OR_NOT or name in (UNCUT if cutoff is None else CUT)
        return wanted if fits and not given else None


BLOCK = 32_768
"""Hits graded at a time: their arrays stay in the cache of a core."""
OTHER = -1
"""Stands for a query without judgements."""


@dataclass(frozen=True, slots=True, eq=False)
class Graded:
    """Judged hits of one run; hits of a query lie together, by rank."""

    qrels: EncodedQrels
    lengths: Rows
    """Shape (judged queries,): hits shown, judged or not."""
    start: Rows
    """Shape (judged queries,): where in the run's columns the hits of each query start."""
    row: Rows
    """Shape (judged hits,): positions in ``qrels.query_ids``."""
    rank: Rows
    """Shape (judged hits,): from 0."""
    grade: Codes
    """Shape (judged hits,)."""
    _relevant: dict[int, Graded] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, run: Run, qrels: EncodedQrels) -> Graded:
        """Grade the answered queries of a run; queries without judgements are left out."""
        at = map(qrels.position.get, run.query_ids, repeat(OTHER))
        rows = np.fromiter(at, dtype=np.int64, count=len(run))
        rows[run.status != Status.ANSWERED] = OTHER
        translation = (
            None if run.vocabulary is qrels.vocabulary else qrels.translation(run.vocabulary)
        )
        return cls.of_rows(qrels, rows, run.offsets, run.docs, translation)

    @classmethod
    def of_rows(
        cls,
        qrels: EncodedQrels,
        rows: Rows,
        offsets: Rows,
        docs: Codes,
        translation: Codes | None = None,
    ) -> Graded:
        """Grade compressed rows.

        ``rows`` of shape (queries,) is the position of each query in ``qrels.query_ids``, each at
        most once, or ``OTHER``; ``offsets`` and ``docs`` are those of a ``Run``. ``translation``
        turns ``docs`` into codes of ``qrels.vocabulary``; without it they are such codes.
        """
        lengths = np.zeros(len(qrels), dtype=np.int64)
        known = rows >= 0
        lengths[rows[known]] = np.diff(offsets)[known]
        place, pair = _found(qrels.lookup, rows, offsets, docs, translation)
        start = np.zeros(len(qrels), dtype=np.int64)
        start[rows[known]] = offsets[:-1][known]
        row = qrels.rows[pair]
        return cls(qrels, lengths, start, row, place - start[row], qrels.grades[pair])

    def only(self, keep: NDArray[np.bool_]) -> Graded:
        """Judged hits of which ``keep``, of their shape, is true, at their ranks."""
        at = np.flatnonzero(keep)
        return replace(self, row=self.row[at], rank=self.rank[at], grade=self.grade[at])

    def relevant(self, rel: int) -> Graded:
        """Hits of grade ``rel`` or above, at their ranks; found once for all measures."""
        found = self._relevant.get(rel)
        if found is None:
            found = self._relevant[rel] = self.only(self.grade >= rel)
        return found

    def condensed(self, lowest: int | None = None) -> Graded:
        """Remove unjudged documents from the rankings; the rest closes up (Sakai 2007).

        With ``lowest``, documents graded below it are removed too. With 0 this is the option ``-J``
        of trec_eval and ``judged_only`` of ir-measures.
        """
        kept = self if lowest is None else self.only(self.grade >= lowest)
        lengths = np.bincount(kept.row, minlength=len(self.qrels)).astype(np.int64, copy=False)
        return replace(kept, lengths=lengths, rank=running(kept.row))


def _found(
    lookup: Lookup,
    rows: Rows,
    offsets: Rows,
    docs: Codes,
    translation: Codes | None,
) -> tuple[Rows, Codes]:
    """Places of the judged hits in ``docs``, in order, and which judgement each is."""
    places = [np.empty(0, dtype=np.int64)]
    pairs = [np.empty(0, dtype=np.int32)]
    for low, high in _blocks(offsets):
        span = slice(int(offsets[low]), int(offsets[high]))
        each = np.diff(offsets[low : high + 1])
        asked = docs[span] if translation is None else translation[docs[span]]
        row = np.repeat(rows[low:high], each)
        if (rows[low:high] < 0).any():
            asked = np.where(row >= 0, asked, np.int32(UNKNOWN))
            row = np.maximum(row, 0)
        place, pair = lookup.find(row, asked)
        places.append(place + span.start)
        pairs.append(pair)
    return np.concatenate(places), np.concatenate(pairs)


def running(row: Rows) -> Rows:
    """How many of the same row stand before each; rows lie together; the shape of ``row``."""
    at = np.arange(len(row), dtype=np.int64)
    first = np.zeros(len(row), dtype=np.int64)
    new = np.flatnonzero(row[1:] != row[:-1]) + 1
    first[new] = new
    return at - np.maximum.accumulate(first)


def _blocks(offsets: Rows) -> Iterator[tuple[int, int]]:
    """Cut the queries into stretches of about ``BLOCK`` hits, one query at least."""
    low, queries = 0, len(offsets) - 1
    while low < queries:
        high = int(np.searchsorted(offsets, offsets[low] + BLOCK, side="right")) - 1
        high = min(max(high, low + 1), queries)
        yield low, high
        low = high


def evaluate(graded: Graded, asked: MeasureSpec) -> Values:
    """Compute one measure."""
    seen = graded.condensed(lowest=0) if asked.judged_only else graded
    return KERNELS[asked.name](seen, asked)


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


def gains_of(grades: Codes, gains: Mapping[int, int] | None) -> Codes:
    """Gain of each grade, shape of ``grades``; negative gains become 0."""
    if gains is None:
        return grades
    levels, at = np.unique(grades, return_inverse=True)
    written = [gains.get(grade, grade) for grade in levels.tolist()]
    return np.array(written, dtype=np.int32)[at]


def _discounted(
    row: Rows,
    rank: Rows,
    gain: Codes,
    discount: Values,
    queries: int,
) -> Values:
    at = np.flatnonzero((rank < len(discount)) & (gain > 0))
    summed = np.bincount(row[at], weights=gain[at] / discount[rank[at]], minlength=queries)
    return summed.astype(np.float64, copy=False)


def _within(found: Graded, cutoff: int | None) -> Rows:
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
    if asked.cutoff is None:
        raise KeyError("P without a cutoff")
    return _within(graded.relevant(asked.rel), asked.cutoff) / asked.cutoff


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


def _judged(graded: Graded, asked: MeasureSpec) -> Values:
    """Divide by the hits that there are where those are fewer than the cutoff."""
    shown = graded.lengths if asked.cutoff is None else np.minimum(graded.lengths, asked.cutoff)
    return ratio(_within(graded, asked.cutoff), shown)


def _numret(graded: Graded, asked: MeasureSpec) -> Values:
    if not asked.rel:
        return graded.lengths.astype(np.float64)
    return _within(graded.relevant(asked.rel), None).astype(np.float64)


def ratio(top: Values | Rows, bottom: NDArray[np.generic]) -> Values:
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
    "Judged": _judged,
    "NumRet": _numret,
}
