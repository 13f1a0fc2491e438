"""How far several people who judged the same pairs agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from harness.core.errors import EvidenceError
from harness.core.scores import Estimate
from harness.stages.judging.several import Pair, Panel
from harness.stats.raters.kappa import kappa
from harness.stats.raters.several import Codes, alpha, fleiss


@dataclass(frozen=True, slots=True)
class Assessor:
    """How far one person is."""

    name: str
    judged: int
    of: int


@dataclass(frozen=True, slots=True)
class Agreement:
    """What they say together; None for a figure where too few queries were judged twice."""

    assessors: tuple[Assessor, ...]
    twice: int
    """Pairs that two or more judged."""
    differ: int
    far: int
    """Of these, with grades two or more apart."""
    alpha: Estimate | None
    fleiss: Estimate | None
    """Of the pairs that all judged."""
    cohen: tuple[tuple[str, str, Estimate | None], ...]
    """Quadratically weighted kappa of each two assessors who share pairs."""


def agreement(panel: Panel, confidence: float) -> Agreement:
    """Compare all that was judged twice."""
    both = {pair: grades for pair, grades in panel.grades.items() if len(grades) > 1}
    units, clusters = _units(both)
    whole = _units({pair: of for pair, of in both.items() if len(of) == len(panel.parts)})
    apart = [max(unit) - min(unit) for unit in units]
    return Agreement(
        assessors=tuple(
            Assessor(name, len(part.judgements), len(part.pairs))
            for name, part in panel.parts.items()
        ),
        twice=len(units),
        differ=sum(gap > 0 for gap in apart),
        far=sum(gap > 1 for gap in apart),
        alpha=_enough(lambda: alpha(units, clusters, confidence=confidence)),
        fleiss=_enough(lambda: fleiss(*whole, confidence=confidence)),
        cohen=tuple(
            (one, other, _cohen(both, one, other, confidence))
            for one, other in combinations(panel.parts, 2)
            if any(one in grades and other in grades for grades in both.values())
        ),
    )


def _units(grades: Mapping[Pair, Mapping[str, int]]) -> tuple[list[tuple[int, ...]], Codes]:
    return [tuple(of.values()) for of in grades.values()], _codes([one for one, _ in grades])


def _cohen(
    both: Mapping[Pair, Mapping[str, int]], one: str, other: str, confidence: float
) -> Estimate | None:
    shared = {pair: of for pair, of in both.items() if one in of and other in of}
    grades = [np.array([of[name] for of in shared.values()]) for name in (one, other)]
    clusters = _codes([query_id for query_id, _ in shared])
    return _enough(
        lambda: kappa(grades[0], grades[1], clusters, confidence=confidence, weights="quadratic")
    )


def _codes(names: Sequence[str]) -> Codes:
    code = {name: at for at, name in enumerate(Counter(names))}
    return np.array([code[name] for name in names], dtype=np.int64)


def _enough(estimate: Callable[[], Estimate | None]) -> Estimate | None:
    try:
        return estimate()
    except EvidenceError:
        return None
