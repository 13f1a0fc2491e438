"""The verdict on a mean over live traffic, valid at any time."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from harness.core.evidence import Evidence, Traffic
from harness.core.gate import Cause, Finding, Verdict
from harness.core.printable import counted, many
from harness.core.scores import Estimate
from harness.gates.base.doubts import Bound, doubts
from harness.gates.base.rules import (
    A_DAY_S,
    MOST_QUERIES,
    GateSettings,
    MinQueries,
    Rules,
    Share,
    Where,
    above,
    below,
    plain,
)
from harness.stats.sequential.anytime import FORESIGHT, anytime, ever_beyond, values_needed
from harness.stats.sequential.blocks import Blocks, blocks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FEWEST_BLOCKS = 2


class LiveSettings(GateSettings):
    """A gate on a mean over pairs of answers to live queries, by bets on blocks."""

    timed: ClassVar[bool] = True
    min_pairs: MinQueries
    """Fewest pairs that a verdict needs."""
    block_pairs: Annotated[int, Field(ge=1, le=MOST_QUERIES)]
    """Fewest pairs of a block; 1 treats each pair as independent of those before it."""
    block_s: Annotated[float, Field(ge=0, le=A_DAY_S)]
    """Shortest time of a block, in seconds; 0 to cut by pairs alone."""

    @property
    def required_queries(self) -> int:
        return self.min_pairs

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

    def blocks(self, traffic: Traffic) -> Blocks:
        """Cut ``values`` into blocks."""
        values, at_ns = self.values(traffic), self.at_ns(traffic)
        return blocks(values, at_ns, min_size=self.block_pairs, seconds=self.block_s)


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
    """PASS where the confidence sequence lies on the right side of the limit (method, section 4).

    The sequence is over blocks of pairs (method, section 8), and is valid after every pair. If
    blocks are independent, a mean on the limit itself ever passes at a rate of at most (1 -
    confidence) / 2. A PASS also needs that ``doubts`` finds no reason against it. The verdict is
    FAIL too if the interval of ``min_pairs`` in a row is wholly beyond the limit. So a candidate
    that breaks after a long good past does not keep its PASS. An empty interval means that the mean
    changed meanwhile, and is INCONCLUSIVE.

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
    values, cut = settings.values(traffic), settings.blocks(traffic)
    passed_over = "".join(
        f"; {count} {why}" for why, count in sorted(traffic.passed_over.items()) if count
    )
    said = settings.said(traffic)
    if len(values) < settings.min_pairs or len(cut.means) < FEWEST_BLOCKS:
        lacking = max(settings.min_pairs, FEWEST_BLOCKS * settings.block_pairs) - len(values)
        longer = f"{FEWEST_BLOCKS - len(cut.means)} more blocks, of {settings.block_s:g} s each"
        return settings.undecided(
            gate,
            Cause.TOO_FEW,
            f"{said}: {many(len(values), 'pair')} in {len(cut.means)} blocks, and"
            f" {many(settings.min_pairs, 'pair')} and {FEWEST_BLOCKS} blocks are needed"
            f"{passed_over}",
            many(lacking, "more pair") if lacking > 0 else longer,
        )
    pairs, beside = int(cut.sizes.sum()), f"{_asked(traffic)}{passed_over}"
    found = anytime(cut.means, confidence=rules.confidence, least=0, most=1)
    shown, over = replace(found, n=pairs), f"{many(pairs, 'pair')} in {_said(cut)}{beside}"
    judged = above if settings.passes == "above" else below
    moved = found.low > found.high
    verdict = Verdict.INCONCLUSIVE if moved else judged(found, settings.limit)
    if verdict is not Verdict.FAIL and (row := _broken(cut, settings, rules)):
        first, last = (int(cut.sizes[:at].sum()) for at in (row.start, row.stop))
        return settings.finding(
            gate,
            Verdict.FAIL,
            f"{said}: {found.value:.4f} over {over}; from pair {first + 1} to {last} alone it was"
            f" {values[first:last].mean():.4f}, surely beyond the bound",
        )
    if moved:
        return settings.undecided(
            gate,
            Cause.MOVED,
            f"{said}: {found.value:.4f}, but it moved while it was watched, and no one mean is left"
            f" over {over}",
            "a log that begins after what changed",
        )
    reason = f"{said}: {plain(shown)} over {over}{_apart(found)}"
    bound = Bound(settings.limit, settings.passes == "above")
    doubt = doubts(traffic, values[:pairs], cut, found, bound=bound, rules=rules)
    if verdict is Verdict.PASS and doubt:
        return settings.undecided(
            gate, Cause.SAMPLE, f"{reason}; {doubt.why}", doubt.remedy, estimate=shown
        )
    remedy = _more(cut, settings.limit, rules) if verdict is Verdict.INCONCLUSIVE else ""
    return settings.finding(gate, verdict, reason, estimate=shown, remedy=remedy)


def _apart(estimate: Estimate) -> str:
    """Say that the mean of now lies outside what all looks together leave, where it does.

    An interval that holds at every look never grows again, and the mean goes on moving.
    """
    if estimate.low <= estimate.value <= estimate.high:
        return ""
    return (
        "; the mean of now lies outside the interval that all looks together leave, as it may by"
        " chance or where what is averaged moved: see the latest days alone"
    )


def _said(cut: Blocks) -> str:
    """Count the blocks, and say how long they are and what is taken for granted of them."""
    if int(cut.sizes.max()) == 1:
        return f"{len(cut.means)} blocks of one pair, each taken to be independent"
    return (
        f"{len(cut.means)} blocks ({np.median(cut.sizes):.0f} pairs and"
        f" {np.median(cut.seconds):.3g} s in the middle), taken to be independent of each other"
    )


def _asked(traffic: Traffic) -> str:
    """Say how many different queries there were, and how often the most asked was."""
    most = int(traffic.asked.max(initial=0)) / max(int(traffic.asked.sum()), 1)
    return f"; {counted(len(traffic.asked), 'different query')}, the most asked {most:.1%} of all"


def _broken(cut: Blocks, settings: LiveSettings, rules: Rules) -> range | None:
    """Find blocks in a row, of ``min_pairs`` or more, whose mean is surely on the wrong side.

    A long good past hides a bad present from a sequence over all. So each row of blocks has a
    sequence of its own, and the k-th may err by 1 / (k (k + 1)) of what the confidence leaves:
    these shares sum to 1, however many rows there will be.
    """
    for at, row in enumerate(cut.rows(settings.min_pairs), start=1):
        beyond = ever_beyond(
            cut.means[row.start : row.stop],
            bound=settings.limit,
            above=settings.passes == "below",
            confidence=1 - (1 - rules.confidence) / (at * (at + 1)),
            least=0,
            most=1,
        )
        if beyond:
            return row
    return None


def _more(cut: Blocks, limit: float, rules: Rules) -> str:
    needed = values_needed(cut.means, bound=limit, confidence=rules.confidence, least=0, most=1)
    if needed is None:
        return f"more than {FORESIGHT} times the pairs that came, if more come like these"
    more = max(1, round((needed - len(cut.means)) * float(cut.sizes.mean())))
    return f"about {many(more, 'more pair')}, if they come like these"
