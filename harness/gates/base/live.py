"""The verdict on a mean over live traffic, which may be asked for at any time."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from harness.core.evidence import Evidence, Traffic
from harness.core.gate import Finding, Verdict
from harness.gates.base.rules import (
    GateSettings,
    MinQueries,
    Rules,
    Share,
    Where,
    above,
    below,
    plain,
)
from harness.stats.anytime import FORESIGHT, anytime, ever_beyond, values_needed

Floats = NDArray[np.float64]


class LiveSettings(GateSettings):
    """A gate on a mean over pairs of answers to live queries."""

    timed: ClassVar[bool] = True
    min_pairs: MinQueries
    """Fewest pairs that it may be judged on."""

    @property
    def fewest(self) -> int:
        return self.min_pairs

    @property
    @abstractmethod
    def limit(self) -> float:
        """The bound on the mean."""

    @abstractmethod
    def values(self, traffic: Traffic) -> Floats:
        """Give what is averaged, between 0 and 1 and in the order of time, shape (pairs,)."""

    @abstractmethod
    def said(self, traffic: Traffic) -> str:
        """Name what is averaged, and what a reader should know beside it."""


class RareSettings(LiveSettings):
    """A gate on what may rarely befall a live query: its share must lie below ``max_share``."""

    max_share: Share

    @property
    @abstractmethod
    def befalls(self) -> str:
        """What may rarely befall the live queries, as a verb that follows them."""

    @abstractmethod
    def befell(self, traffic: Traffic) -> NDArray[np.bool_]:
        """Tell which queries it befell, in the order of time, shape (pairs,)."""

    @property
    def bound(self) -> str:
        return f"fewer than {self.max_share:.2%} of the live queries {self.befalls}"

    @property
    def passes(self) -> Where:
        return "below"

    @property
    def limit(self) -> float:
        return self.max_share

    @property
    def unit(self) -> str:
        return "share"

    def values(self, traffic: Traffic) -> Floats:
        return self.befell(traffic).astype(np.float64)


def judge_live(gate: str, settings: LiveSettings, evidence: Evidence, rules: Rules) -> Finding:
    """PASS where the confidence sequence lies on the right side of the limit (method, section 4).

    It may be asked after every pair: over all looks together a mean on the limit itself passes with
    a chance of at most half of what the confidence leaves. FAIL also where ``min_pairs`` in a row
    are surely beyond the limit by themselves, so that a candidate that was good for long and
    breaks does not keep its PASS. A sequence that leaves no mean says that what is averaged moved
    meanwhile, and is INCONCLUSIVE.

    Raises:
        EvidenceError: a value does not lie between 0 and 1.
    """
    traffic = evidence.traffic
    if traffic is None:
        return settings.undecided(
            gate,
            f"no live traffic of {evidence.candidate.arm} beside {evidence.control.arm} is there",
            "compare the two on live queries, and take their log in: harness traffic",
        )
    values = settings.values(traffic)
    passed_over = "".join(
        f"; {count} {why}" for why, count in sorted(traffic.passed_over.items()) if count
    )
    if len(values) < settings.min_pairs:
        return settings.undecided(
            gate,
            f"{settings.said(traffic)}: {len(values)} pairs, fewer than the {settings.min_pairs}"
            f" that the policy asks for{passed_over}",
            f"{settings.min_pairs - len(values)} more pairs",
        )
    found = anytime(values, confidence=rules.confidence, least=0, most=1)
    said, over = settings.said(traffic), f"{found.n} pairs{passed_over}"
    judged = above if settings.passes == "above" else below
    moved = found.low > found.high
    verdict = Verdict.INCONCLUSIVE if moved else judged(found, settings.limit)
    if verdict is not Verdict.FAIL and (row := _broken(values, settings, rules)):
        first, last = row
        return settings.finding(
            gate,
            Verdict.FAIL,
            f"{said}: {found.value:.4f} over {over}; from pair {first + 1} to {last} alone it was"
            f" {values[first:last].mean():.4f}, surely beyond the bound",
        )
    if moved:
        return settings.undecided(
            gate,
            f"{said}: {found.value:.4f}, but it moved while it was watched, and no one mean is left"
            f" over {over}",
            "a log that begins after what changed",
        )
    return settings.finding(
        gate,
        verdict,
        f"{said}: {plain(found)} over {over}",
        estimate=found,
        settle=_more(values, settings.limit, rules) if verdict is Verdict.INCONCLUSIVE else "",
    )


def _broken(values: Floats, settings: LiveSettings, rules: Rules) -> tuple[int, int] | None:
    """Find pairs in a row, ``min_pairs`` of them, whose mean is surely on the wrong side.

    A long good past hides a bad present from a sequence over all. So each row of pairs has a
    sequence of its own, and the k-th may err by 1 / (k (k + 1)) of what the confidence leaves:
    these shares sum to 1, however many rows there will be.
    """
    wide = settings.min_pairs
    for row, first in enumerate(range(0, len(values), wide), start=1):
        beyond = ever_beyond(
            values[first : first + wide],
            bound=settings.limit,
            above=settings.passes == "below",
            confidence=1 - (1 - rules.confidence) / (row * (row + 1)),
            least=0,
            most=1,
        )
        if beyond:
            return first, min(first + wide, len(values))
    return None


def _more(values: Floats, limit: float, rules: Rules) -> str:
    needed = values_needed(values, bound=limit, confidence=rules.confidence, least=0, most=1)
    if needed is None:
        return f"more than {FORESIGHT} times the pairs that came, if more come like these"
    return f"about {max(1, needed - len(values))} more pairs, if they come like these"
