"""What missing judgements leave open of a gate on relevance, and what a judged sample settles.

A gate decides over all completions of the judgements: by the worst and the best difference of each
query. Or a sample of the unjudged hits bounds what they do to the mean. Then the error of the gate
is split: half for the queries as they are judged, half for the sample.
"""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import EvidenceError
from harness.core.evidence import ArmResult, Evidence
from harness.core.gate import Verdict
from harness.core.printable import counted, many
from harness.core.scores import Estimate, Paired
from harness.gates.base.rules import Rules, above, signed, within
from harness.measures import missing_judgements
from harness.measures.missing_judgements import (
    MissingJudgements,
    SampledQueries,
    judged_by_relevance,
    missing,
)
from harness.stats.bounded import ValueRange

Floats = NDArray[np.float64]
Interval = Callable[[Floats, ValueRange | None, Rules], Estimate]
"""Mean of values with its interval; their span is that of the measure where none is given."""
HALVINGS = 30
EITHER_WAY = ValueRange(-1.0, 1.0)


class Bound(NamedTuple):
    """Where a mean difference must lie: above the limit, or within it on both sides of 0."""

    limit: float
    both: bool = False

    def verdict(self, estimate: Estimate) -> Verdict:
        """Judge an interval."""
        return within(estimate, self.limit) if self.both else above(estimate, self.limit)

    def room(self, estimate: Estimate) -> tuple[float, float]:
        """Return how far both ends may move until the verdict turns; negative where it is open."""
        low, high, free = estimate.low, estimate.high, float("inf")
        match self.verdict(estimate), self.both:
            case Verdict.PASS, True:
                return low + self.limit, self.limit - high
            case Verdict.PASS, False:
                return low - self.limit, free
            case Verdict.FAIL, True:
                return (low - self.limit, free) if low > 0 else (free, -self.limit - high)
            case Verdict.FAIL, False:
                return free, self.limit - high
        return -1.0, -1.0


@dataclass(frozen=True, slots=True, eq=False)
class Completions:
    """The differences of paired queries under all completions, shape (queries,) each."""

    measured: Floats
    worst: Floats
    best: Floats
    missing: MissingJudgements
    judged: SampledQueries | None
    """None without a sample, or while some of it is not judged."""
    left: int
    """Pairs of the sample that are not judged."""
    by: str
    """Who judged the sample."""
    arms: tuple[str, str]
    dataset: str
    every: MissingJudgements
    """Of all queries, from which a sample is drawn."""
    rate: float
    """Of the sample."""

    @property
    def known(self) -> Floats:
        """The differences with all that was judged for certain, shape (queries,)."""
        return self.measured if self.judged is None else self.measured + self.judged.certain

    def over(self, lost: Floats, interval: Interval, rules: Rules) -> Estimate:
        """Return the mean difference over all completions; ``lost`` are further differences."""
        measured = np.append(self.measured, lost)
        if self.judged is None:
            worst, best = (
                interval(np.append(end, lost), None, rules) for end in (self.worst, self.best)
            )
            return Estimate(float(measured.mean()), worst.low, best.high, len(measured))
        known = np.append(self.known, lost)
        if not any(self.judged.span):
            return interval(known, None, rules)
        own = interval(known, None, half(rules))
        change = interval(
            np.append(self.judged.change, np.zeros(len(lost))), self.judged.span, half(rules)
        )
        return Estimate(
            own.value + change.value, own.low + change.low, own.high + change.high, own.n
        )

    def said(self, bound: Bound, interval: Interval, rules: Rules) -> str:
        """Describe what the unjudged hits do to the verdict."""
        hits = many(len(self.missing.query), "unjudged hit")
        if self.judged is None:
            over = f"; over all that {hits} may be {signed(self.over(NONE, interval, rules))}"
            turns = self._turns(bound, interval(self.measured, None, half(rules)))
            return over + (f"; {turns}, and no sample was judged" if turns else "")
        if not any(self.judged.span):
            return f"; with all of {hits} judged by {self.by}"
        known = interval(self.known, None, half(rules))
        change = interval(self.judged.change, self.judged.span, half(rules))
        turns = self._turns(bound, known)
        down = self._down(bound, known)
        most = self._share(-change.low if down else change.high, down=down)
        found = "none is" if not self.judged.relevant else f"{self.judged.relevant} are"
        return (
            f"; {turns or 'more queries are needed first'}; of {self.judged.drawn} that were drawn"
            f" and judged by {self.by} {found}, so at most {most} are; with them"
            f" {signed(self.over(NONE, interval, rules))}, half of the error for the sample"
        )

    def _turns(self, bound: Bound, known: Estimate) -> str:
        """Return the share of an arm's unjudged hits that would turn the verdict; empty without."""
        down = self._down(bound, known)
        room = bound.room(known)[0 if down else 1]
        if room <= 0:
            return ""
        arm = self.arms[0 if down else 1]
        share = self._share(room, down=down)
        return (
            f"the verdict turns if {share} of {arm}'s unjudged hits, weighted by rank, are relevant"
        )

    def _down(self, bound: Bound, known: Estimate) -> bool:
        """Return whether the verdict turns by what the candidate loses."""
        down, up = bound.room(known)
        return down <= up

    def _share(self, mean: float, *, down: bool) -> str:
        weights = self.missing.loss if down else self.missing.gain
        whole = float(weights.sum()) / len(self.measured)
        share = max(mean, 0.0) / whole if whole > 0 else 1.0
        return f"{100 * min(share, 1.0):.1f} %"

    def remedy(self, bound: Bound, interval: Interval, rules: Rules) -> str:
        """Name the command that draws a sample to settle it; empty where no judgement does."""
        if bound.verdict(interval(self.known, None, rules)) is Verdict.INCONCLUSIVE:
            return ""
        if self.judged:  # were the sample large, would the verdict be that of the judged hits?
            known, moved = interval(self.known, None, rules), float(self.judged.change.mean())
            settled = Estimate(known.value + moved, known.low + moved, known.high + moved, known.n)
            if bound.verdict(settled) is not bound.verdict(known):
                return ""
        if self.left:
            return (
                f"judge the {many(self.left, 'pair')} of the sample that are left: harness judge"
                f" POOL, then harness labels POOL --dataset {self.dataset}"
            )
        if not self.missing.can_be_drawn:
            return "a gate by nDCG@k, RR@k, P@k or R@k, whose unjudged hits can be sampled"
        size, of = self._size(bound, interval, rules), len(self.every.query)
        what = f"the {counted(of, 'unjudged hit')}"
        if size < of:
            what = f"a sample of {size:,} of {what}, which settles it if none is relevant"
        if self.arms[0] == self.arms[1]:  # two releases of one arm: no pool is drawn of both
            return f"judge {what}"
        return (
            f"judge {what}: harness pool --dataset {self.dataset} --control {self.arms[0]}"
            f" --candidate {self.arms[1]} --measure {shlex.quote(self.missing.measure)} --order"
            f" sample --size {min(size, of)} --out pool.qrels"
        )

    def _size(self, bound: Bound, interval: Interval, rules: Rules) -> int:
        """Count the hits that settle it where none is relevant; all, where no sample does."""
        every = self.every
        if self.judged:
            return missing_judgements.expected_size(every, 2 * self.rate)
        down, up = bound.room(interval(self.known, None, half(rules)))
        unseen = interval(np.zeros(len(self.measured)), EITHER_WAY, half(rules)).high
        if min(down, up) <= 0:
            return len(every.query)
        rate = missing_judgements.rate_within(self.missing, down / unseen, up / unseen)
        return len(every.query) if rate is None else missing_judgements.expected_size(every, rate)


NONE: Floats = np.zeros(0)


def half(rules: Rules) -> Rules:
    """Return half of the error to each of two ends that must both hold."""
    return replace(rules, confidence=1 - (1 - rules.confidence) / 2)


def completions(
    evidence: Evidence, control: ArmResult, candidate: ArmResult, paired: Paired
) -> Completions | None:
    """Find what missing judgements leave open; None where they leave nothing."""
    if evidence.complete or not paired.query_ids or not judged_by_relevance(paired.measure):
        return None
    if evidence.qrels is None:
        raise EvidenceError(
            f"the judgements of {evidence.dataset} were not handed on; give the evidence its qrels"
        )
    runs = control.run, candidate.run
    every = missing(*runs, evidence.qrels, paired.measure)
    found = every.of(paired.query_ids)
    if not len(found.query):
        return None
    key = control.arm, candidate.arm, paired.measure
    sample = evidence.samples.get(key) if found.can_be_drawn else None
    judged = (
        None if sample is None else missing_judgements.judge(found, runs, evidence.qrels, sample)
    )
    open_, measured = found.counts > 0, paired.difference
    left = len(judged.left) if judged else 0
    return Completions(
        measured,
        np.where(open_, found.worst, measured),
        np.where(open_, found.best, measured),
        found,
        None if left else judged,
        left,
        sample.by if sample else "",
        key[:2],
        evidence.dataset,
        every,
        sample.rate if sample else 0.0,
    )
