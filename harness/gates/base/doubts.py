"""Reasons against a PASS on live traffic that its confidence sequence would allow."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from harness.core.evidence import LOST, SHED, Traffic
from harness.core.printable import many
from harness.core.scores import Estimate
from harness.gates.base.rules import Rules
from harness.stats.sequential.blocks import Blocks

MEMORY = 0.2
"""Largest correlation of neighbouring blocks that keeps the error rate (docs/decisions/0019)."""
MOST_SHED = 0.5
"""Largest share of shed attempts; above it, the compared ones depend on the machine's load."""
FEWEST_QUERIES = 10
"""Fewest distinct queries, as if each were equally frequent (``Traffic.evenly``)."""


class Doubt(NamedTuple):
    """The reason against a PASS, and what would settle it."""

    why: str
    remedy: str


class Bound(NamedTuple):
    """A bound on a mean between 0 and 1, and the side on which it passes."""

    limit: float
    passes_above: bool


def doubts(
    traffic: Traffic,
    values: NDArray[np.float64],
    cut: Blocks,
    estimate: Estimate,
    *,
    bound: Bound,
    rules: Rules,
) -> Doubt | None:
    """Give the first reason against a PASS, or None.

    Pairs that the log lost count as the worst value. Other reasons are too many shed pairs, too few
    distinct queries, correlated blocks, and a plain mean on the wrong side (each block counts once,
    a busy one too). ``values`` has shape (pairs,).
    """
    return (
        _lost(traffic, len(values), estimate, bound)
        or _shed(traffic)
        or _alike(traffic)
        or _memory(cut, rules)
        or _busy(values, bound)
    )


def _lost(traffic: Traffic, pairs: int, estimate: Estimate, bound: Bound) -> Doubt | None:
    lost = traffic.passed_over.get(LOST, 0)
    end, worst = (estimate.low, 0.0) if bound.passes_above else (estimate.high, 1.0)
    at_worst = (end * pairs + worst * lost) / (pairs + lost)
    if not lost or _passes(at_worst, bound):
        return None
    return Doubt(
        f"but {many(lost, 'numbered attempt is')} not in the log; if all of them were bad, it"
        " could be"
        f" {at_worst:.4f}",
        "the lines that are missing, or a log that is whole",
    )


def _shed(traffic: Traffic) -> Doubt | None:
    shed = traffic.passed_over.get(SHED, 0)
    if shed <= MOST_SHED * traffic.attempted:
        return None
    return Doubt(
        f"but {shed} of {traffic.attempted} attempts were shed, more than {MOST_SHED:.0%}: what was"
        " compared came when the machine had time",
        "a smaller sample, of which fewer are shed",
    )


def _alike(traffic: Traffic) -> Doubt | None:
    if traffic.evenly >= FEWEST_QUERIES:
        return None
    return Doubt(
        f"but few queries came so often that all are as varied as {traffic.evenly:.1f} equally"
        f" frequent ones, and {FEWEST_QUERIES} are the fewest",
        "more different queries",
    )


def _memory(cut: Blocks, rules: Rules) -> Doubt | None:
    correlation, errors = cut.memory
    if correlation <= MEMORY or errors <= ndtri(1 - (1 - rules.confidence) / 2):
        return None
    return Doubt(
        f"but each block has a correlation of {correlation:.2f} with the next one"
        f" ({errors:.1f} standard errors)",
        "longer blocks, chosen before the next log begins",
    )


def _busy(values: NDArray[np.float64], bound: Bound) -> Doubt | None:
    mean = float(values.mean())
    if _passes(mean, bound):
        return None
    return Doubt(
        f"but the mean of all pairs is {mean:.4f}: busy blocks are worse, and each counts once",
        "blocks by pairs alone, chosen before the next log begins",
    )


def _passes(mean: float, bound: Bound) -> bool:
    return mean > bound.limit if bound.passes_above else mean <= bound.limit
