"""A random sample of the unjudged hits of two arms, and what its judgements say of all of them.

A hit is drawn with a probability in proportion to what it can move the difference, which falls with
its rank as the discount of the measure does. Where a drawn hit is relevant, all unjudged hits of
its query are judged. So the change D of the query's difference is known, its ideal list anew. It
counts by the inverse of the probability P that a relevant hit of the query was drawn. This is the
estimator of Horvitz and Thompson (JASA 47, 1952) under adaptive cluster sampling (Thompson, JASA
85, 1990).
P depends on the relevant hits alone, and these are known then. So the mean of D / P over all
queries, 0 where no relevant hit was drawn, has the mean of D as its expectation.

The hits S that are relevant take at most the sum of what each takes alone (``Missing``). That is at
most ``s / rate``, s being the sum of their probabilities, and at most the whole loss w of the
query. P is at least ``1 - exp(-s)``, so no query counts for more than ``w / (1 - exp(-rate w))``.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.elementary import expm1, log1p
from harness.core.evidence import Sample
from harness.core.qrels import Qrels
from harness.core.run import Run
from harness.measures.unjudged.missing import Missing
from harness.measures.unjudged.runs import bounding, cases
from harness.stats.bounded import Span

Floats = NDArray[np.float64]
HALVINGS = 80
"""Steps of a bisection between the smallest and the largest rate that is sensible."""


class Draw(NamedTuple):
    """Which hits were drawn, shape (hits,) each."""

    chance: Floats
    taken: NDArray[np.bool_]


class Judged(NamedTuple):
    """What a sample says of each query."""

    certain: Floats
    """Shape (queries,): change of the difference where all that can move it was judged."""
    change: Floats
    """Shape (queries,): of the others, D / P; its mean is that of all their changes."""
    span: Span
    """The least and the greatest that ``change`` can be; both 0 where all is certain."""
    drawn: int
    relevant: int
    """Drawn hits that are relevant."""
    left: tuple[tuple[str, str], ...]
    """Pairs without a grade yet; the sample says nothing while there are any."""


def draw(missing: Missing, rate: float, seed: int) -> Draw:
    """Draw hits; of a higher rate, all that a lower one draws are drawn too."""
    chance = np.minimum(1.0, rate * missing.weight)
    taken = np.zeros(len(chance), dtype=bool)
    for at in np.flatnonzero(chance > 0).tolist():
        query_id = missing.query_ids[missing.query[at]]
        taken[at] = _coin(seed, query_id, missing.doc_ids[at]) < chance[at]
    return Draw(chance, taken)


def _coin(seed: int, query_id: str, doc_id: str) -> float:
    """Give a number between 0 and 1 that nothing but its arguments changes."""
    text = f"{seed}\0{query_id}\0{doc_id}".encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest()) / 2.0**64


def rate_of(missing: Missing, size: int) -> float:
    """Give the rate at which ``size`` hits are drawn on average, or all that can move anything."""
    weight = missing.weight[missing.weight > 0]
    if not len(weight):
        return 1.0
    if size >= len(weight):
        return float(1 / weight.min())
    low, high = 0.0, float(1 / weight.min())
    for _ in range(HALVINGS):
        rate = (low + high) / 2
        low, high = (rate, high) if np.minimum(1, rate * weight).sum() < size else (low, rate)
    return high


def expected_size(missing: Missing, rate: float) -> int:
    """Count the hits that are drawn at this rate on average."""
    return int(np.ceil(np.minimum(1.0, rate * missing.weight).sum()))


def span_at(missing: Missing, rate: float) -> Span:
    """Give the least and the greatest change of a query that is not known for certain."""
    open_ = ~_certain(missing, np.minimum(1.0, rate * missing.weight))
    least, most = (
        _reach((end[open_]).max(initial=0.0), rate)
        for end in (missing.difference - missing.worst, missing.best - missing.difference)
    )
    return Span(-least, most)


def _reach(whole: float, rate: float) -> float:
    """Give the most that one query can count for; it grows with what it can lose at all."""
    return float(whole / -math.expm1(-rate * whole)) if whole > 0 else 0.0


def rate_within(missing: Missing, down: float, up: float) -> float | None:
    """Give the lowest rate at which no query counts for more than this; None if none is so."""
    most = rate_of(missing, len(missing.query))

    def fits(rate: float) -> bool:
        span = span_at(missing, rate)
        return -span.least <= down and span.most <= up

    if not fits(most):
        return None
    low, high = 0.0, most
    for _ in range(HALVINGS):
        rate = (low + high) / 2
        low, high = (low, rate) if fits(rate) else (rate, high)
    return high


def judge(missing: Missing, runs: tuple[Run, Run], qrels: Qrels, sample: Sample) -> Judged:
    """Say what the judgements of a sample say of the queries of ``missing``."""
    wanted, grades = bounding(missing.measure, qrels), sample.grades
    drawn = draw(missing, sample.rate, sample.seed)
    count = len(missing.query_ids)
    known = np.full(len(missing.query), -1.0)
    for at in range(len(known)):
        of = grades.get(missing.query_ids[missing.query[at]], {})
        if (grade := of.get(missing.doc_ids[at])) is not None:
            known[at] = wanted.gain(grade)
    relevant = known > 0
    seen = seen_by(missing, drawn, relevant)
    wants = (drawn.taken | seen[missing.query]) & (known < 0)
    left = tuple(
        (missing.query_ids[missing.query[at]], missing.doc_ids[at])
        for at in np.flatnonzero(wants).tolist()
    )
    moved = np.zeros(count)
    if not left:
        ids = tuple(missing.query_ids[row] for row in np.flatnonzero(seen).tolist())
        rows = dict(zip(missing.query_ids, range(count), strict=True))
        for query_id, case in cases(*runs, qrels, ids, wanted.asked.cutoff):
            judged = case._replace(grades={**grades[query_id], **case.grades})
            moved[rows[query_id]] = wanted.as_judged(judged) - wanted.as_judged(case)
    found = weighed(missing, drawn, relevant, moved, sample.rate)
    return found._replace(left=left)


def seen_by(missing: Missing, drawn: Draw, relevant: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Find the queries of which a relevant hit was drawn, shape (queries,)."""
    seen = np.zeros(len(missing.query_ids), dtype=bool)
    seen[missing.query[drawn.taken & relevant]] = True
    return seen


def weighed(
    missing: Missing,
    drawn: Draw,
    relevant: NDArray[np.bool_],
    moved: Floats,
    rate: float,
) -> Judged:
    """Weigh the changes of a whole sample; arrays alone, for simulations too.

    ``relevant`` has shape (hits,): whether each is, where its query was judged whole. ``moved`` has
    shape (queries,): what all judgements change the difference by. Both are looked at only where
    the sample shows them (``seen_by``).
    """
    seen = seen_by(missing, drawn, relevant)
    unseen, certain = np.zeros(len(seen)), _certain(missing, drawn.chance)
    np.add.at(unseen, missing.query[relevant], _log1m(drawn.chance[relevant]))
    change = np.zeros(len(seen))
    np.divide(moved, -expm1(unseen), out=change, where=seen)
    return Judged(
        np.where(certain, change, 0.0),
        np.where(certain, 0.0, change),
        span_at(missing, rate),
        int(drawn.taken.sum()),
        int((drawn.taken & relevant).sum()),
        (),
    )


def _certain(missing: Missing, chance: Floats) -> NDArray[np.bool_]:
    """Find queries of which all that can move the difference is drawn for sure."""
    unsure = np.zeros(len(missing.query_ids), dtype=bool)
    unsure[missing.query[(chance < 1) & (missing.weight > 0)]] = True
    return ~unsure


def _log1m(chance: Floats) -> Floats:
    """Logarithm of the probability that a hit is not drawn."""
    return log1p(-chance)
