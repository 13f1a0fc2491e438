"""Reasons against a PASS on live traffic that its interval would allow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from harness.core.evidence import LOST, SHED, Traffic
from harness.core.printable import many
from harness.core.scores import Estimate
from harness.gates.base.rules import Rules
from harness.stats.sequential.blocks import NS_PER_S, Blocks

MEMORY = 0.2
"""Largest correlation of neighbouring blocks that keeps the error rate (docs/decisions/0019)."""
MOST_SHED = 0.5
"""Largest share of shed attempts; above it, the compared ones depend on the machine's load."""


class Doubt(NamedTuple):
    """The reason against a PASS, and what would settle it."""

    why: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Premises:
    """A bound on a mean between 0 and 1, and what its PASS takes for granted."""

    limit: float
    passes_above: bool
    period: str
    period_s: float
    max_query_share: float
    max_client_share: float
    clients_assumed: bool

    def allow(self, mean: float) -> bool:
        """Tell whether a mean lies on the side of the limit that passes."""
        return mean > self.limit if self.passes_above else mean <= self.limit


def doubts(
    traffic: Traffic,
    values: NDArray[np.float64],
    at_ns: NDArray[np.int64],
    cut: Blocks,
    estimate: Estimate,
    *,
    premises: Premises,
    rules: Rules,
) -> Doubt | None:
    """Give the first reason against a PASS, or None.

    Pairs that the log lost count as the worst value. Other reasons are too many shed pairs, a query
    or client with too many pairs, bursts longer than a block, and a latest period on the wrong
    side. ``values`` and ``at_ns`` have shape (pairs,).
    """
    return (
        _lost(traffic, estimate, premises)
        or _shed(traffic)
        or _clients(traffic, premises)
        or _query(traffic, premises)
        or _bursts(cut, premises, rules)
        or _latest(values, at_ns, premises)
    )


def _lost(traffic: Traffic, estimate: Estimate, premises: Premises) -> Doubt | None:
    lost, pairs = traffic.passed_over.get(LOST, 0), estimate.n
    end, worst = (estimate.low, 0.0) if premises.passes_above else (estimate.high, 1.0)
    at_worst = (end * pairs + worst * lost) / (pairs + lost)
    if not lost or premises.allow(at_worst):
        return None
    return Doubt(
        f"but {many(lost, 'numbered attempt is')} not in the log; if all of them were bad, it"
        f" could be {at_worst:.4f}",
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


def _clients(traffic: Traffic, premises: Premises) -> Doubt | None:
    pairs = int(traffic.asked.sum())
    if traffic.unnamed and not premises.clients_assumed:
        return Doubt(
            f"but {traffic.unnamed} of {many(pairs, 'pair')} name no client, so one may have sent"
            " them all",
            "name the client of each query in the log, or say in the policy why no client has too"
            " many: assume_clients",
        )
    return _too_many("client", traffic.largest_client, pairs, premises.max_client_share)


def _query(traffic: Traffic, premises: Premises) -> Doubt | None:
    most, pairs = int(traffic.asked.max(initial=0)), int(traffic.asked.sum())
    return _too_many("query", most, pairs, premises.max_query_share)


def _too_many(what: str, most: int, pairs: int, share: float) -> Doubt | None:
    if most <= share * pairs:
        return None
    return Doubt(
        f"but one {what} has {most / pairs:.1%} of the pairs, and {share:.1%} is the most",
        f"a log without that {what}, or of more traffic by others",
    )


def _bursts(cut: Blocks, premises: Premises, rules: Rules) -> Doubt | None:
    correlation, errors = cut.memory
    if correlation <= MEMORY or errors <= ndtri(1 - (1 - rules.confidence) / 2):
        return None
    return Doubt(
        f"but bursts last longer than a block: each has a correlation of {correlation:.2f} with the"
        f" next one ({errors:.1f} standard errors), beyond the course of a {premises.period}",
        "longer blocks, or weeks as the period, chosen before the next log begins",
    )


def _latest(
    values: NDArray[np.float64], at_ns: NDArray[np.int64], premises: Premises
) -> Doubt | None:
    since = int(at_ns[-1]) - round(premises.period_s * NS_PER_S)
    mean = float(values[at_ns > since].mean())
    if premises.allow(mean):
        return None
    return Doubt(
        f"but over the latest {premises.period} the mean is {mean:.4f}, beyond the bound",
        f"a log that begins after what changed, or more {premises.period}s",
    )
