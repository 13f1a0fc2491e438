"""How far the assessors of a panel agree, how fast they are, and whether they drift."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import median

import numpy as np

from harness.core.errors import EvidenceError
from harness.core.scores import Estimate
from harness.corpus import pool_times
from harness.stages.judging.panel.panel import Pair, Panel
from harness.stats.raters.kappa import jackknifed, kappa
from harness.stats.raters.several import Codes, Floats, alpha, fleiss

BREAK_S = 600.0
"""A longer gap between two grades is a break, and no time for a pair."""


@dataclass(frozen=True, slots=True)
class Assessor:
    """One assessor's work."""

    name: str
    judged: int
    of: int
    median_s: float | None
    """Seconds from one grade to the next; None where fewer than two were timed."""
    drift: Estimate | None
    """Mean grade of the second half of the work less that of the first; None where too few."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """What a panel says of itself; None for a figure where too few queries were judged twice."""

    assessors: tuple[Assessor, ...]
    twice: int
    """Pairs that two judged."""
    differ: int
    far: int
    """Of these, with grades two or more apart."""
    alpha: Estimate | None
    fleiss: Estimate | None
    cohen: tuple[tuple[str, str, Estimate | None], ...]
    """Quadratically weighted kappa of each two assessors who share pairs."""


def agreement(panel: Panel, confidence: float) -> Agreement:
    """Compare all that was judged twice.

    Raises:
        BadFile: a part cannot be read.
    """
    both = {pair: grades for pair in panel.grades if len(grades := _given(panel, pair)) > 1}
    units = [tuple(grades.values()) for grades in both.values()]
    clusters = _codes([query_id for query_id, _ in both])
    apart = [max(unit) - min(unit) for unit in units]
    return Agreement(
        assessors=tuple(_assessor(panel, name, confidence) for name in panel.assessors),
        twice=len(units),
        differ=sum(gap > 0 for gap in apart),
        far=sum(gap > 1 for gap in apart),
        alpha=_enough(lambda: alpha(units, clusters, confidence=confidence)),
        fleiss=_enough(lambda: fleiss(units, clusters, confidence=confidence)),
        cohen=tuple(
            (one, other, _cohen(both, one, other, confidence))
            for one, other in combinations(panel.assessors, 2)
            if any(one in grades and other in grades for grades in both.values())
        ),
    )


def _given(panel: Panel, pair: Pair) -> dict[str, int]:
    return {name: grade for name, grade in panel.grades[pair].items() if grade is not None}


def _cohen(
    both: dict[Pair, dict[str, int]], one: str, other: str, confidence: float
) -> Estimate | None:
    shared = {pair: of for pair, of in both.items() if one in of and other in of}
    grades = [np.array([of[name] for of in shared.values()]) for name in (one, other)]
    clusters = _codes([query_id for query_id, _ in shared])
    return _enough(
        lambda: kappa(grades[0], grades[1], clusters, confidence=confidence, weights="quadratic")
    )


def _assessor(panel: Panel, name: str, confidence: float) -> Assessor:
    part = panel.parts[name]
    given = pool_times.read(panel.path(name))
    gaps = [(after.at - before.at).total_seconds() for before, after in pairwise(given)]
    fast = [gap for gap in gaps if gap <= BREAK_S]
    now = {(one.query_id, one.doc_id): one.grade for one in part.judgements}
    order = list(dict.fromkeys((one.query_id, one.doc_id) for one in given))
    graded = [(pair, now[pair]) for pair in order if pair in now]
    return Assessor(
        name, len(part.judgements), len(part.pairs), median(fast) if fast else None,
        _drift(graded, confidence),
    )  # fmt: skip


def _drift(graded: Sequence[tuple[Pair, int]], confidence: float) -> Estimate | None:
    """Compare the halves; the order was drawn, so without drift they differ by chance alone."""
    half = len(graded) // 2
    clusters = _codes([query_id for (query_id, _), _ in graded])
    tables = np.zeros((len(set(clusters.tolist())), 2, 2))
    for at, (_, grade) in enumerate(graded):
        tables[clusters[at], int(at >= half)] += (grade, 1.0)

    def value(table: Floats) -> float:
        if not table[:, 1].all():
            return math.nan
        means = table[:, 0] / table[:, 1]
        return float(means[1] - means[0])

    return _enough(
        lambda: jackknifed(
            tables, value, confidence=confidence, n=len(graded), within=(-math.inf, math.inf)
        )
    )


def _codes(names: Sequence[str]) -> Codes:
    code = {name: at for at, name in enumerate(Counter(names))}
    return np.array([code[name] for name in names], dtype=np.int64)


def _enough(estimate: Callable[[], Estimate | None]) -> Estimate | None:
    try:
        return estimate()
    except EvidenceError:
        return None
