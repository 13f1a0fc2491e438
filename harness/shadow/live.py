"""Gates on live traffic: rules on a mean, its verdict, and doubts about its interval."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import ndtri

from harness.core.evidence import LOST, SHED, Evidence, Traffic
from harness.core.gate import Cause, Finding, Verdict
from harness.core.printable import counted, many
from harness.core.scores import Estimate
from harness.gates.base.rules import (
    A_DAY_S,
    Depth,
    Fewest,
    GateSettings,
    Ratio,
    Rules,
    Share,
    Where,
    above,
    below,
    plain,
)
from harness.stats.sequential import NS_PER_S, Blocks, blocks, blocks_needed

MEMORY = 0.2
"""Largest correlation of neighbouring blocks that keeps the error rate (docs/decisions/0019)."""
MOST_SHED = 0.5
"""Largest share of shed attempts; above it, the compared ones depend on the machine's load."""


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MIN_PERIODS = 2
"""Fewest whole periods of a PASS: one alone cannot show that the next is like it."""
SECONDS = {"day": A_DAY_S, "week": 7 * A_DAY_S}


LiveValues = tuple[Floats, Ints, str]
"""What a gate averages: values in [0, 1] by time and the time of each in nanoseconds, of shape
(pairs,), and what they are, with notes for the reader."""


class LiveSettings(GateSettings):
    """A gate on a mean over pairs of answers to live queries, by bets on blocks."""

    timed: ClassVar[bool] = True
    needs: ClassVar[tuple[type, ...]] = (Traffic,)
    every_look: ClassVar[bool] = True
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
    def limit(self) -> float:
        return float(getattr(self, self.bounded_by))

    @abstractmethod
    def averaged(self, traffic: Traffic) -> LiveValues:
        """Return the values to average."""

    def planned(self, confidence: float) -> Fewest:
        note = f"of {self.block_s:g} s, in {MIN_PERIODS} whole {self.period}s or more"
        room = 1 - self.limit if self.passes == "above" else self.limit
        return Fewest("live blocks", blocks_needed(room, confidence), note)

    def judge(self, gate: str, evidence: Evidence, rules: Rules) -> Finding:
        return judge(gate, self, evidence, rules)

    def allow(self, mean: float) -> bool:
        """Return whether a mean lies on the side of the limit that passes."""
        return mean > self.limit if self.passes == "above" else mean <= self.limit


class RareSettings(LiveSettings):
    """A gate on a rare event of live queries: its share must lie below ``max_share``."""

    passes: ClassVar[Where] = "below"
    bounded_by: ClassVar[str] = "max_share"
    unit: ClassVar[str] = "share"
    max_share: Share


class FailuresSettings(RareSettings):
    """The share of live queries that the candidate does not answer must lie below ``max_share``.

    An answer of another engine in the candidate's place counts as missing; an empty answer counts
    as an answer.
    """

    @property
    def bound(self) -> str:
        return f"fewer than {self.max_share:.2%} of the live queries go unanswered"

    def averaged(self, traffic: Traffic) -> LiveValues:
        ways = ", ".join(f"{count} {how}" for how, count in sorted(traffic.failures.items()))
        said = "share that the candidate did not answer" + (f" ({ways})" if ways else "")
        return traffic.failed.astype(np.float64), traffic.failed_at, said


class SlowSettings(RareSettings):
    """The share of pairs beyond ``max_ratio`` times the control's time, below ``max_share``.

    Each arm has its own clock. An abandoned candidate counts with the time until it was abandoned,
    which is less than it would have taken.
    """

    max_ratio: Ratio

    @property
    def bound(self) -> str:
        slow = f"take more than {self.max_ratio:g} times the control's time"
        return f"fewer than {self.max_share:.2%} of the live queries {slow}"

    def averaged(self, traffic: Traffic) -> LiveValues:
        slow = traffic.candidate_ns > self.max_ratio * traffic.control_ns
        said = f"share beyond {self.max_ratio:g} times the control's time"
        return slow.astype(np.float64), traffic.timed_at, said


class OverlapSettings(LiveSettings):
    """The mean of Jaccard@``k`` over live queries must lie above ``floor``.

    Pairs of which both lists are empty have no Jaccard and do not count.
    """

    passes: ClassVar[Where] = "above"
    bounded_by: ClassVar[str] = "floor"
    k: Depth
    floor: Share

    @property
    def bound(self) -> str:
        return f"mean {self.unit} of live queries above {self.floor:g}"

    @property
    def unit(self) -> str:
        return f"Jaccard@{self.k}"

    def averaged(self, traffic: Traffic) -> LiveValues:
        others = ", ".join(str(k) for k in sorted(traffic.overlap) if k != self.k)
        return (
            traffic.overlap.get(self.k, np.empty(0)),
            traffic.overlap_at.get(self.k, np.empty(0, dtype=np.int64)),
            f"mean {self.unit}" + (f" (the log also has k of {others})" if others else ""),
        )


def doubts(
    found: Estimate, cut: Blocks, traffic: Traffic, settings: LiveSettings, rules: Rules
) -> Iterator[tuple[str, str]]:
    """Yield each reason against a PASS, and what would settle it.

    Pairs that the log lost count as the worst value. Other reasons are too many shed pairs, a query
    or client with too many pairs, bursts longer than a block, and a latest period on the wrong
    side.
    """
    lost, shed = (traffic.passed_over.get(why, 0) for why in (LOST, SHED))
    end, worst = (found.low, 0.0) if settings.passes == "above" else (found.high, 1.0)
    at_worst = (end * found.n + worst * lost) / (found.n + lost)
    if lost and not settings.allow(at_worst):
        missing = f"but {many(lost, 'numbered attempt is')} not in the log"
        why = f"{missing}; if all of them were bad, it could be {at_worst:.4f}"
        yield why, "the lines that are missing, or a log that is whole"
    if shed > MOST_SHED * traffic.attempted:
        over = f"but {shed} of {traffic.attempted} attempts were shed, more than {MOST_SHED:.0%}"
        why = f"{over}: what was compared came when the machine had time"
        yield why, "a smaller sample, of which fewer are shed"
    pairs = int(traffic.asked.sum())
    if traffic.unnamed and not settings.assume_clients:
        unnamed = f"but {traffic.unnamed} of {many(pairs, 'pair')} name no client"
        remedy = "name the client of each query in the log, or say in the policy why no client has"
        yield f"{unnamed}, so one may have sent them all", f"{remedy} too many: assume_clients"
    for what, most, share in (
        ("client", traffic.largest_client, settings.max_client_share),
        ("query", int(traffic.asked.max(initial=0)), settings.max_query_share),
    ):
        if most > share * pairs:
            why = f"but one {what} has {most / pairs:.1%} of the pairs, and {share:.1%} is the most"
            yield why, f"a log without that {what}, or of more traffic by others"
    correlation, errors = cut.memory
    if correlation > MEMORY and errors > ndtri(1 - (1 - rules.confidence) / 2):
        why = (
            f"but bursts last longer than a block: each has a correlation of {correlation:.2f} with"
            f" the next one ({errors:.1f} standard errors), beyond the course of a"
            f" {settings.period}"
        )
        yield why, "longer blocks, or weeks as the period, chosen before the next log begins"
    values, at_ns, _ = settings.averaged(traffic)
    since = int(at_ns[-1]) - round(SECONDS[settings.period] * NS_PER_S)
    mean = float(values[at_ns > since].mean())
    if not settings.allow(mean):
        yield (
            f"but over the latest {settings.period} the mean is {mean:.4f}, beyond the bound",
            f"a new log that starts after the change, or more {settings.period}s",
        )


def judge(gate: str, settings: LiveSettings, evidence: Evidence, rules: Rules) -> Finding:
    """PASS where the interval lies on the right side of the limit (method, sections 4 and 9.7).

    The interval is over blocks of whole periods, of which there must be two, and holds at the end
    of every period. If blocks are independent, a mean on the limit itself ever passes at a rate of
    at most (1 - confidence) / 2. A PASS also needs that ``doubts`` finds no reason against it. The
    verdict is FAIL too if one period alone lies wholly beyond the limit, the k-th of them by 1 /
    (k (k + 1)) of the error rate. So a long good past does not hide a candidate that breaks.
    """
    traffic, period = evidence.of(Traffic), settings.period
    values, at_ns, said = settings.averaged(traffic)
    cut = blocks(values, at_ns, block_s=settings.block_s, period_s=SECONDS[period])
    pairs, most = int(traffic.asked.sum()), int(traffic.asked.max(initial=0))
    beside = f"; {counted(len(traffic.asked), 'different query')}"
    beside += f", the most asked {most / max(pairs, 1):.1%} of all"
    beside += "".join(f"; {n} {why}" for why, n in sorted(traffic.passed_over.items()) if n)
    whole = many(cut.periods, f"whole {period}")
    if cut.periods < MIN_PERIODS:
        return settings.undecided(
            gate,
            Cause.TOO_FEW,
            f"{said}: {many(len(values), 'pair')} in {whole}, and {MIN_PERIODS} are needed{beside}",
            f"{many(MIN_PERIODS - cut.periods, f'more {period}')} of traffic",
        )
    found = cut.interval(rules.confidence)
    over = (
        f"{many(found.n, 'pair')} in {whole} and {len(cut.sums)} blocks of {settings.block_s:g} s,"
        f" taken to be independent of each other{beside}"
    )
    verdict = (above if settings.passes == "above" else below)(found, settings.limit)
    if verdict is not Verdict.FAIL and (at := _broken(cut, settings, rules)):
        return settings.finding(
            gate,
            Verdict.FAIL,
            f"{said}: {found.value:.4f} over {over}; on {period} {at} alone it was"
            f" {cut.of(at - 1).mean:.4f}, surely beyond the bound",
        )
    reason = f"{said}: {plain(found)} over {over}"
    if settings.assume_clients and traffic.unnamed:
        reason += f"; clients are taken to be many: {settings.assume_clients}"
    if verdict is Verdict.PASS:
        for why, remedy in doubts(found, cut, traffic, settings, rules):
            said = f"{reason}; {why}"
            return settings.undecided(gate, Cause.SAMPLE, said, remedy, estimate=found)
    remedy = ""
    if verdict is Verdict.INCONCLUSIVE:
        needed = cut.periods_needed(settings.limit, rules.confidence)
        remedy = (
            "the mean is close to the bound: more traffic will not help, change the candidate"
            if needed is None
            else f"about {many(max(1, needed - cut.periods), f'more {period}')} of traffic, if it"
            " comes like this"
        )
    return settings.finding(gate, verdict, reason, estimate=found, remedy=remedy)


def _broken(cut: Blocks, settings: LiveSettings, rules: Rules) -> int | None:
    """Return the first period, from 1, that alone lies wholly beyond the limit."""
    for at in range(1, cut.periods + 1):
        own = cut.of(at - 1)
        confidence = 1 - (1 - rules.confidence) / (at * (at + 1))
        wrong_side = settings.passes != "above"
        if len(own.sums) and own.surely(settings.limit, above=wrong_side, confidence=confidence):
            return at
    return None
