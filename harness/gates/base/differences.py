"""The verdict on the mean difference of two arms, paired by query."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import EvidenceError
from harness.core.evidence import Evidence
from harness.core.gate import Cause, Finding, Verdict
from harness.core.printable import counted, many
from harness.core.scores import Estimate, Paired, Scores, codes, said_of_parted
from harness.gates.base.completions import HALVINGS, Bound, Completions, completions
from harness.gates.base.queries import SampleSettings, checked, in_slice, other, too_few
from harness.gates.base.rules import TOUCH, Rules, signed, some
from harness.measures.name import span_of
from harness.stats import sequential
from harness.stats.bounded import ValueRange, chance_above
from harness.stats.interval import interval
from harness.stats.sample_size import min_queries, queries_needed

Looks = Literal["planned", "anytime"]


@dataclass(frozen=True, slots=True)
class AskedMean:
    """One mean of differences."""

    settings: SampleSettings
    """With the measure and the slice."""
    limit: float
    """The bound; negative for an allowed loss."""
    both_sides: bool = False
    """Whether it must lie within the limit on both sides of 0."""
    versus: str | None = None
    """The arm that takes the control's place."""

    @property
    def bound(self) -> Bound:
        """Where the mean must lie."""
        return Bound(-self.limit if self.both_sides else self.limit, self.both_sides)


class DifferenceSettings(SampleSettings):
    """A gate on mean differences of the arms, paired by query."""

    @abstractmethod
    def asked(self, slices: Iterable[str]) -> Iterator[AskedMean]:
        """Yield the means; ``slices`` are those of the query set, for a gate on all of them."""

    def judge(self, gate: str, evidence: Evidence, rules: Rules) -> Finding:
        """Judge the one mean of most gates."""
        (one,) = self.asked(evidence.slices)
        return judge_mean(gate, one, evidence, rules)


def asked_means(settings: object, slices: Iterable[str]) -> Iterator[AskedMean]:
    """Yield the mean differences of a gate; none for other rules."""
    return settings.asked(slices) if isinstance(settings, DifferenceSettings) else iter(())


class LookSettings(DifferenceSettings):
    """A gate on a mean difference that says how often it may be judged."""

    looks: Looks = "planned"
    """``planned``: each look is one of the policy's attempts; ``anytime``: valid at every look."""

    @property
    def every_look(self) -> bool:
        return self.looks == "anytime"

    @property
    def at(self) -> str:
        """When the bound is valid, as the end of a sentence."""
        return ", at every look" if self.every_look else ""


HOPELESS = 20
"""Above this multiple of the present queries, more judging is not suggested."""


def known_span(measure: str) -> ValueRange:
    """Return the least and the greatest value of ``measure``."""
    span = span_of(measure)
    if span is None:
        raise EvidenceError(f"{measure} has no known least and greatest value; judge by another")
    return span


def needed(
    values: NDArray[np.float64],
    bound: float,
    *,
    best: float,
    span: ValueRange,
    clusters: NDArray[np.int64] | None,
    rules: Rules,
) -> str:
    """Return the number of queries that would settle on which side of ``bound`` the mean lies.

    ``best`` is the value of each query in the best case: no difference, or full agreement. If the
    present queries are too few even then, the answer says so.
    """
    now = len(values)
    count = queries_needed(
        values,
        bound=bound,
        span=span,
        confidence=rules.confidence,
        power=rules.power,
        clusters=clusters,
        largest=rules.largest_cluster,
    )
    if count is None:
        return (
            "the mean is the bound itself: more queries will not help;"
            " change the candidate, or the bound and its reason"
        )
    level, largest = rules.level / 2, rules.largest_cluster
    try:
        few = bound < best
        least = min_queries(best, bound, span=span, level=level, largest=largest) if few else 0
    except EvidenceError as error:
        return str(error)
    many = max(count, least, now + 1)
    asked = f"about {counted(many, 'judged query')} (now {now:,}) for power {rules.power:g}"
    if now < least:
        return f"{asked}; fewer than {least:,} leave room for a loss that none of them shows"
    if count > HOPELESS * now:
        return (
            f"{asked}: the difference is close to the bound, more queries will hardly help, change"
            " the candidate"
        )
    return f"{asked}; the number is as uncertain as the mean"


LESS = (
    "a margin below what the control has, or judgements of documents that it shows"
    " (a sure gain passes any margin)"
)
"""Hint for a margin that no loss can exceed."""
SMALLEST, WIDEST_ERROR = 1e-9, 0.999
"""Range of errors in which a p-value is looked for; the second is of both sides."""


@dataclass(frozen=True, slots=True, eq=False)
class PairedComparison:
    """Differences candidate - control, and the queries without a value in one arm or both."""

    control: Scores
    candidate: Scores
    control_arm: str
    candidate_arm: str
    paired: Paired
    groups: NDArray[np.int64] | None
    """Cluster of each paired query and then of each lost one; None if all are independent."""
    every_look: bool = False
    """Whether intervals and p-values are valid at all looks together while queries are added."""
    parted: int = 0
    """Paired queries that are near duplicates by their words, but have different intents."""
    open: Completions | None = None
    """What missing judgements leave open; None where they leave nothing."""

    @property
    def known(self) -> NDArray[np.int64] | None:
        """Cluster of each paired query."""
        return None if self.groups is None else self.groups[: len(self.paired.query_ids)]

    @property
    def span(self) -> ValueRange:
        """Largest loss and largest gain of one query."""
        return known_span(self.paired.measure).differences

    def estimate(self, rules: Rules) -> Estimate:
        """Mean difference over the paired queries, with room for what is not judged."""
        return self._over(np.zeros(0), rules)

    def with_unpaired(self, each: float, rules: Rules) -> Estimate:
        """Mean difference with each lost query counted as ``each``."""
        return self._over(np.full(len(self.paired.unpaired), each), rules)

    def as_judged(self, rules: Rules) -> Estimate:
        """Mean difference over the paired queries, with every unjudged document irrelevant."""
        return self._interval(self.paired.difference, None, rules)

    def p_above(self, bound: float, rules: Rules) -> float:
        """p-value of "the mean difference is ``bound`` or less"."""
        if self.open is None or self.open.judged is None:
            values = self.paired.difference if self.open is None else self.open.worst
            return self._p_above(values, bound, rules)
        return _smallest_error(lambda error: self.estimate(error).low > bound, rules)

    def p_below(self, bound: float, rules: Rules) -> float:
        """p-value of "the mean difference is ``bound`` or more"."""
        if self.open is None or self.open.judged is None:
            values = self.paired.difference if self.open is None else self.open.best
            return self._p_above(-values, -bound, rules)
        return _smallest_error(lambda error: self.estimate(error).high < bound, rules)

    def said(self, bound: Bound, rules: Rules) -> str:
        """Return means and difference as judged, lost queries, and what is not judged, in words."""
        now = f"{self.means}, difference {signed(self.as_judged(rules))}{self.losses}"
        return now + self.unjudged(bound, rules)

    def unjudged(self, bound: Bound, rules: Rules) -> str:
        """Describe what the unjudged hits do to the verdict; empty where they do nothing."""
        return self.open.said(bound, self._interval, rules) if self.open else ""

    def settled(self, bound: Bound, rules: Rules) -> tuple[str, Cause]:
        """Return what would settle an INCONCLUSIVE, judgements or queries, and its cause."""
        remedy = self.open.remedy(bound, self._interval, rules) if self.open else ""
        if remedy:
            return remedy, Cause.UNJUDGED
        limit = bound.limit if self.paired.difference.mean() > 0 or not bound.both else -bound.limit
        return self.needed(limit, rules), Cause.OPEN

    def needed(self, bound: float, rules: Rules) -> str:
        """Return the number of judged queries that would settle it, in words."""
        values, groups, span = self.paired.difference, self.known, self.span
        if not self.every_look:
            return needed(values, bound, best=0.0, span=span, clusters=groups, rules=rules)
        sure, largest, now = rules.confidence, rules.largest_cluster, len(values)
        times = sequential.times_needed(
            values, bound, span=span, confidence=sure, clusters=groups, largest=largest
        )
        if times is None:
            said = "the difference is close to the bound: more queries will not help"
            return f"{said}, change the candidate"
        count = counted(max(math.ceil(times * now), now + 1), "judged query")
        said = f"about {count} (now {now:,}), if they come like these"
        return f"{said}; they may be added in any number of steps"

    def empty_pass(self, verdict: Verdict, estimate: Estimate, margin: float) -> str:
        """Return why a candidate without any hits would pass too; empty where it would not."""
        mean, least = float(self.paired.control.mean()), known_span(self.paired.measure).least
        if verdict is not Verdict.PASS or estimate.low > TOUCH or mean - least > margin + TOUCH:
            return ""
        return (
            f"losing everything would pass: the control's own mean is {mean:.4f},"
            f" the margin {margin:g}"
        )

    @property
    def losses(self) -> str:
        """List the lost queries by the arm without a value; empty if there is none."""
        left, right = set(self.control.query_ids), set(self.candidate.query_ids)
        unpaired = self.paired.unpaired
        other = "queries that the other has one for"
        said = [
            f"; {arm} has no value for {len(ids)} {what} ({some(ids)})"
            for arm, what, ids in (
                (self.candidate_arm, other, tuple(q for q in unpaired if q in left)),
                (self.control_arm, other, tuple(q for q in unpaired if q in right)),
                ("neither arm", "queries", tuple(q for q in unpaired if q not in left | right)),
            )
            if ids
        ]
        return "".join(said)

    @property
    def answers(self) -> str:
        """Hint for a comparison that lost queries leave open."""
        return (
            f"answers of both arms: find out why {some(self.paired.unpaired)} have none, and replay"
        )

    @property
    def means(self) -> str:
        """Both means over the paired queries, in words."""
        paired = self.paired
        known = self.known
        groups = "" if known is None else f" in {many(len(np.unique(known)), 'cluster')}"
        return (
            f"{self.candidate_arm} {paired.candidate.mean():.4f},"
            f" {self.control_arm} {paired.control.mean():.4f} over"
            f" {many(len(paired.query_ids), 'query')}"
            f"{groups}{said_of_parted(self.parted)}"
        )

    def _p_above(self, values: NDArray[np.float64], bound: float, rules: Rules) -> float:
        span, groups, largest = self.span, self.known, rules.largest_cluster
        if self.every_look:
            return sequential.p_above(values, bound, span=span, clusters=groups, largest=largest)
        column = values.reshape(-1, 1)
        return float(chance_above(column, bound, span=span, clusters=groups, largest=largest)[0])

    def _over(self, lost: NDArray[np.float64], rules: Rules) -> Estimate:
        if self.open is not None:
            return self.open.over(lost, self._interval, rules)
        return self._interval(np.append(self.paired.difference, lost), None, rules)

    def _interval(
        self, values: NDArray[np.float64], span: ValueRange | None, rules: Rules
    ) -> Estimate:
        """Mean of values of the paired queries, and of the lost ones after them."""
        span = span or self.span
        groups = None if self.groups is None else self.groups[: len(values)]
        if self.every_look:
            column, sure, largest = values.reshape(-1, 1), rules.confidence, rules.largest_cluster
            (found,) = sequential.evalues_each(
                column, span=span, confidence=sure, clusters=groups, largest=largest
            )
            return found
        return interval(values, span=span, inference=rules, clusters=groups)


def compare(evidence: Evidence, settings: SampleSettings, versus: str | None) -> PairedComparison:
    """Pair the candidate with the control, or with the arm ``versus``."""
    base = evidence.control if versus is None else other(evidence, versus)
    control, candidate = (
        in_slice(checked(side.scores, settings.measure, side.arm), evidence, settings.slice)
        for side in (base, evidence.candidate)
    )
    paired = Paired.of(control, candidate)
    groups = codes((*paired.query_ids, *paired.unpaired), evidence.clusters)
    arms = base.arm, evidence.candidate.arm
    parted = len(evidence.parted.intersection(paired.query_ids))
    open_ = completions(evidence, base, evidence.candidate, paired)
    looks = settings.every_look
    return PairedComparison(control, candidate, *arms, paired, groups, looks, parted, open_)


def _smallest_error(decides: Callable[[Rules], bool], rules: Rules) -> float:
    """Return the smallest error of one side at which an interval decides, by bisection."""
    low, high = math.log(SMALLEST), 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        fits = decides(replace(rules, confidence=1 - min(2 * math.exp(middle), WIDEST_ERROR)))
        low, high = (low, middle) if fits else (middle, high)
    return math.exp(high)


def judge_mean(
    gate: str, asked: AskedMean, evidence: Evidence, rules: Rules, *, from_nothing: bool = False
) -> Finding:
    """Judge on which side of a bound the mean difference lies (method, section 4).

    Within a margin on both sides, these are Schuirmann's two one-sided tests (1987), and the
    p-value is the larger of the two. A PASS must also hold when every lost query counts as the
    worst difference, -1, and within a margin as +1 too. A PASS that a candidate without any hits
    would get too becomes INCONCLUSIVE, unless ``from_nothing`` is set.
    """
    settings, bound = asked.settings, asked.bound
    found = compare(evidence, settings, asked.versus)
    if thin := too_few(gate, settings, found.paired.query_ids, evidence, found.losses):
        return thin
    estimate = found.estimate(rules)
    verdict = bound.verdict(estimate)
    reason = f"{settings.where}: {found.said(bound, rules)}"
    remedy, cause = "", Cause.OPEN
    if verdict is Verdict.INCONCLUSIVE:
        remedy, cause = found.settled(bound, rules)
    if verdict is Verdict.PASS and found.paired.unpaired:
        worst = {"-1": -1.0, "+1": 1.0} if asked.both_sides else {"-1": -1.0}
        ends = {said: found.with_unpaired(each, rules) for said, each in worst.items()}
        if any(bound.verdict(end) is not Verdict.PASS for end in ends.values()):
            verdict = Verdict.INCONCLUSIVE
        remedy, cause = found.answers, Cause.UNANSWERED
        counted_as = ", ".join(f"as {said} each {signed(end)}" for said, end in ends.items())
        reason += f"; with these counted {counted_as}"
    margin = -asked.limit
    if margin > 0 and not from_nothing and (empty := found.empty_pass(verdict, estimate, margin)):
        verdict, reason, remedy = Verdict.INCONCLUSIVE, f"{reason}; {empty}", LESS
        cause = Cause.EMPTY
    p_value = found.p_above(asked.limit, rules)
    if asked.both_sides:
        p_value = max(p_value, found.p_below(margin, rules))
    return settings.finding(
        gate, verdict, reason, estimate=estimate, remedy=remedy, p_value=p_value, cause=cause
    )
