"""The verdict on a mean over live traffic, valid at the end of every whole period."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from harness.core.evidence import Evidence, Traffic
from harness.core.gate import Cause, Finding, Verdict
from harness.core.printable import counted, many
from harness.gates.base.doubts import Premises, doubts
from harness.gates.base.rules import (
    A_DAY_S,
    GateSettings,
    Rules,
    Share,
    Where,
    above,
    below,
    plain,
)
from harness.stats.sequential.blocks import Blocks, blocks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MIN_PERIODS = 2
"""Fewest whole periods of a PASS: one alone cannot show that the next is like it."""
SECONDS = {"day": A_DAY_S, "week": 7 * A_DAY_S}


class LiveSettings(GateSettings):
    """A gate on a mean over pairs of answers to live queries, by bets on blocks."""

    timed: ClassVar[bool] = True
    period: Literal["day", "week"]
    """What traffic repeats itself by; only whole ones count."""
    block_s: Annotated[float, Field(gt=0, le=A_DAY_S)]
    """Length of a block in seconds: as long as the longest disturbance that goes unseen."""
    max_query_share: Share
    """Largest share of the pairs that one query may have."""
    max_client_share: Share
    """Largest share of the pairs that one client may have."""
    assume_clients: str = Field("", pattern=r"\S|^$")
    """Why no client has more, where the log names none; empty to assume nothing."""

    @property
    def every_look(self) -> bool:
        return True

    @property
    @abstractmethod
    def limit(self) -> float:
        """The bound on the mean."""

    @abstractmethod
    def values(self, traffic: Traffic) -> Floats:
        """Give the values to average, in [0, 1] and by time, shape (pairs,)."""

    @abstractmethod
    def at_ns(self, traffic: Traffic) -> Ints:
        """Give the time of each of ``values``, in nanoseconds, shape (pairs,)."""

    @abstractmethod
    def said(self, traffic: Traffic) -> str:
        """Describe the values, with notes for the reader."""

    def premises(self) -> Premises:
        """Give what a PASS takes for granted of traffic."""
        return Premises(
            limit=self.limit,
            passes_above=self.passes == "above",
            period=self.period,
            period_s=SECONDS[self.period],
            max_query_share=self.max_query_share,
            max_client_share=self.max_client_share,
            clients_assumed=bool(self.assume_clients),
        )


class RareSettings(LiveSettings):
    """A gate on a rare event of live queries: its share must lie below ``max_share``."""

    max_share: Share

    @property
    @abstractmethod
    def befalls(self) -> str:
        """The event, as a verb phrase after "live queries"."""

    @abstractmethod
    def befell(self, traffic: Traffic) -> NDArray[np.bool_]:
        """Tell which queries had the event, by time, shape (pairs,)."""

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
    """PASS where the interval lies on the right side of the limit (method, sections 4 and 9.7).

    The interval is over blocks of whole periods, of which there must be two, and holds at the end
    of every period. If blocks are independent, a mean on the limit itself ever passes at a rate of
    at most (1 - confidence) / 2. A PASS also needs that ``doubts`` finds no reason against it. The
    verdict is FAIL too if one period alone lies wholly beyond the limit, the k-th of them by 1 /
    (k (k + 1)) of the error rate. So a long good past does not hide a candidate that breaks.

    Raises:
        EvidenceError: a value does not lie between 0 and 1.
    """
    traffic = evidence.traffic
    if traffic is None:
        return settings.undecided(
            gate,
            Cause.NO_EVIDENCE,
            f"no live traffic of {evidence.candidate.arm} beside {evidence.control.arm} is there",
            "compare the two on live queries, and take their log in: harness traffic",
        )
    values, at_ns, premises = settings.values(traffic), settings.at_ns(traffic), settings.premises()
    cut = blocks(values, at_ns, block_s=settings.block_s, period_s=premises.period_s)
    beside = f"{_asked(traffic)}{_passed_over(traffic)}"
    said, whole = settings.said(traffic), many(cut.periods, f"whole {settings.period}")
    if cut.periods < MIN_PERIODS:
        return settings.undecided(
            gate,
            Cause.TOO_FEW,
            f"{said}: {many(len(values), 'pair')} in {whole}, and {MIN_PERIODS} are needed{beside}",
            f"{many(MIN_PERIODS - cut.periods, f'more {settings.period}')} of traffic",
        )
    found = cut.interval(rules.confidence)
    over = (
        f"{many(found.n, 'pair')} in {whole} and {len(cut.sums)} blocks of {settings.block_s:g} s,"
        f" taken to be independent of each other{beside}"
    )
    judged = above if premises.passes_above else below
    verdict = judged(found, settings.limit)
    if verdict is not Verdict.FAIL and (at := _broken(cut, premises, rules)):
        return settings.finding(
            gate,
            Verdict.FAIL,
            f"{said}: {found.value:.4f} over {over}; on {settings.period} {at} alone it was"
            f" {cut.of(at - 1).mean:.4f}, surely beyond the bound",
        )
    reason = f"{said}: {plain(found)} over {over}"
    if settings.assume_clients and traffic.unnamed:
        reason += f"; clients are taken to be many: {settings.assume_clients}"
    if verdict is Verdict.PASS:
        doubt = doubts(traffic, values, at_ns, cut, found, premises=premises, rules=rules)
        if doubt:
            return settings.undecided(
                gate, Cause.SAMPLE, f"{reason}; {doubt.why}", doubt.remedy, estimate=found
            )
    remedy = _more(cut, settings, rules) if verdict is Verdict.INCONCLUSIVE else ""
    return settings.finding(gate, verdict, reason, estimate=found, remedy=remedy)


def _passed_over(traffic: Traffic) -> str:
    """Count the attempts that tell nothing, by reason."""
    counts = sorted(traffic.passed_over.items())
    return "".join(f"; {count} {why}" for why, count in counts if count)


def _asked(traffic: Traffic) -> str:
    """Say how many different queries there were, and how often the most asked was."""
    most = int(traffic.asked.max(initial=0)) / max(int(traffic.asked.sum()), 1)
    return f"; {counted(len(traffic.asked), 'different query')}, the most asked {most:.1%} of all"


def _broken(cut: Blocks, premises: Premises, rules: Rules) -> int | None:
    """Find a period, from 1, whose own mean is surely on the wrong side."""
    for at in range(1, cut.periods + 1):
        own = cut.of(at - 1)
        confidence = 1 - (1 - rules.confidence) / (at * (at + 1))
        wrong_side = not premises.passes_above
        if len(own.sums) and own.surely(premises.limit, above=wrong_side, confidence=confidence):
            return at
    return None


def _more(cut: Blocks, settings: LiveSettings, rules: Rules) -> str:
    needed = cut.periods_needed(settings.limit, rules.confidence)
    if needed is None:
        return "the mean is close to the bound: more traffic will not help, change the candidate"
    more = max(1, needed - cut.periods)
    return f"about {many(more, f'more {settings.period}')} of traffic, if it comes like this"
