"""The number of queries that the gates of a policy need, and what is at hand."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from harness.core.errors import EvidenceError
from harness.core.evidence import Evidence
from harness.core.printable import counted
from harness.core.records import Qrels
from harness.core.scores import codes, independent
from harness.gates import answers, quality
from harness.gates.base import differences
from harness.gates.base.queries import SampleSettings, ShareSettings, checked, in_slice
from harness.gates.base.rules import Rules
from harness.gates.latency import TimedSettings
from harness.measures.name import floor_in_words, gain_in_words, loss_in_words, one_in
from harness.policy.model import Gate, Policy, Step
from harness.stats import sample_size
from harness.stats.bounded import ValueRange
from harness.stats.interval import size_for
from harness.stats.sample_size import planned as planned_queries


class IndependentQueries(NamedTuple):
    """Some queries, and how many of them do not depend on each other."""

    queries: int
    independent: int


class Raced(NamedTuple):
    """How a race was run, or is set up to be run."""

    processes: int
    queries: int


@dataclass(frozen=True, slots=True)
class AtHand:
    """A query set with its judgements, and its race."""

    queries: frozenset[str]
    answerable: frozenset[str]
    """With a relevant document."""
    negative: frozenset[str]
    """Judged, without one."""
    slices: Mapping[str, frozenset[str]]
    clusters: Mapping[str, str]
    """Cluster by query id; one that is not in there stands alone."""
    race: Raced | None

    @classmethod
    def of(
        cls,
        queries: Iterable[str],
        qrels: Qrels,
        slices: Mapping[str, frozenset[str]],
        clusters: Mapping[str, str],
        race: Raced | None,
    ) -> "AtHand":
        """Count judgements of queries that are in the set."""
        ids = frozenset(queries)
        answerable, negative = (ids & frozenset(one) for one in (qrels.answerable, qrels.negative))
        return cls(ids, answerable, negative, slices, clusters, race)

    def count(self, ids: frozenset[str], name: str | None = None) -> IndependentQueries:
        """Count some of the queries; with ``name`` those of that slice alone."""
        own = ids if name is None else ids & self.slices.get(name, frozenset())
        return IndependentQueries(len(own), independent(sorted(own), self.clusters))


@dataclass(frozen=True, slots=True, eq=False)
class MeanForecast:
    """A mean whose values spread as those of a pilot, or as they are assumed to."""

    values: sample_size.Floats
    """Shape (queries,)."""
    clusters: sample_size.Codes | None
    span: ValueRange
    wanted: sample_size.IntervalTarget
    spread_known: bool
    """Whether the spread is assumed, and not that of a pilot."""
    said: str

    @classmethod
    def of_pilot(
        cls, compared: differences.PairedComparison, wanted: sample_size.IntervalTarget
    ) -> "MeanForecast":
        """Take the spread and the clusters of differences that were seen."""
        values = compared.paired.difference
        spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        effect = sample_size.dependence(values, compared.known).design_effect
        said = (
            f"{_truth(wanted)}, spread {spread:.3f} per query and design effect {effect:.2f} as in"
            f" {counted(len(values), 'query')} of the pilot"
        )
        return cls(values, compared.known, compared.span, wanted, spread_known=False, said=said)

    def decides(self, rules: Rules, queries: int) -> tuple[float, float] | None:
        """Return the means from which so many queries pass, and below which they fail; or None."""
        if self.wanted.both_sides or not queries:
            return None
        pilot = sample_size.Pilot.of(
            self.values, span=self.span, clusters=self.clusters, largest=rules.largest_cluster
        )
        up, down = (pilot.bounded(queries, rules.level / 2, upwards=at) for at in (False, True))
        return self.wanted.bound + up, self.wanted.bound - down

    def queries(self, rules: Rules, power: float) -> int | None:
        """Plan with the interval that decides."""
        return planned_queries(
            self.values,
            self.wanted,
            span=self.span,
            confidence=rules.confidence,
            power=power,
            clusters=self.clusters,
            largest=rules.largest_cluster,
            known=self.spread_known,
        )


@dataclass(frozen=True, slots=True)
class ShareForecast:
    """A share of queries that something bad happens to."""

    rate: float
    ceiling: float

    @property
    def said(self) -> str:
        """What is assumed, in words."""
        return f"a share of {self.rate:.2%}"

    def queries(self, rules: Rules, power: float) -> int | None:
        """Plan with the exact interval of a share."""
        return sample_size.planned_share(
            self.rate, ceiling=self.ceiling, confidence=rules.confidence, power=power
        )


def _truth(wanted: sample_size.IntervalTarget) -> str:
    return f"a true gain of {wanted.truth:g}" if wanted.truth else "no true difference"


class Assumed(NamedTuple):
    """What the planner takes to be true."""

    gain: float | None = None
    """Where a gate asks for a gain."""
    spread: float | None = None
    """Standard deviation of a query's difference, without a pilot."""


@dataclass(frozen=True, slots=True, eq=False)
class Need:
    """What one gate, or one slice of it, needs."""

    gate: Gate
    of: str
    """What is counted."""
    means: str = ""
    """The bound in what people see."""
    least: int = 0
    """Independent ones without which it cannot pass; 0 where its rule counts none."""
    have: IndependentQueries | None = None
    """None where no query set is at hand."""
    forecast: MeanForecast | ShareForecast | None = None
    processes: int = 0
    """Of a race; 0 where none is timed."""
    raced: int = 0
    """Processes of the race at hand."""
    independent: bool = False
    """Whether independent queries are planned, and not queries like those of the pilot."""
    equal: tuple[tuple[float, int], ...] = ()
    """Queries that pass an equal candidate, by the share of queries that it moves."""
    note: str = ""
    """Why nothing more is planned; empty where all is."""
    alone: int | None = None
    """Queries with which this passes with the policy's power; None where it is not planned."""
    together: int | None = None
    """Queries with which all gates of the step pass with that power, if each has so many."""

    def decides(self, rules: Rules) -> tuple[float, float] | None:
        """Return the means from which so many queries pass, and below which they fail; or None."""
        if not isinstance(self.forecast, MeanForecast) or self.have is None:
            return None
        return self.forecast.decides(rules, self.have.queries)

    @property
    def queries(self) -> int:
        """Queries to plan with: for all gates together where that is known."""
        return max(self.least, self.together or 0)

    @property
    def lacks(self) -> int:
        """Queries that are not at hand; 0 where no query set is."""
        if self.have is None:
            return 0
        count = self.have.independent if self.independent else self.have.queries
        return max(0, self.queries - count, self.least - self.have.independent)

    @property
    def lacks_processes(self) -> int:
        """Processes that the race at hand is short of; 0 where none is at hand."""
        return max(0, self.processes - self.raced) if self.have else 0


PROCESSES = 3
"""Of a race: of two, the error of the processes rests on one degree of freedom."""
MOVED = (0.02, 0.1, 0.3, 0.6)
"""Shares of the queries that an equal candidate may move."""
TIMES_MARGIN = 2
"""A gain is assumed to be so many times the margin where none is named."""


def needs(
    gate: Gate, rules: Rules, at_hand: AtHand | None, pilot: Evidence | None, assume: Assumed
) -> tuple[Need, ...]:
    """Return what a gate needs, for each mean or share; ``pilot`` is of the same two arms."""
    planner = _Planner(gate, rules, at_hand, pilot, assume)
    means = differences.asked_means(gate.settings, at_hand.slices if at_hand else ())
    return tuple(map(planner.mean, means)) or (planner.other(),)


@dataclass(frozen=True, slots=True, eq=False)
class _Planner:
    gate: Gate
    rules: Rules
    at_hand: AtHand | None
    pilot: Evidence | None
    assume: Assumed

    def other(self) -> Need:
        """Plan a gate that is not on means of differences."""
        settings = self.gate.settings
        if fewest := settings.planned(self.rules.confidence):
            return Need(self.gate, fewest.of, least=fewest.least, note=fewest.note)
        match settings:
            case quality.NegativesSettings():
                return self.negative(settings)
            case answers.AgreementFloorSettings():
                return self.agreement(settings)
            case ShareSettings():
                return self.share(settings)
            case TimedSettings():
                return self.timed(settings)
        note = f"rule {self.gate.rule} cannot be planned"
        return Need(self.gate, "not known", note=note)

    def mean(self, asked: differences.AskedMean) -> Need:
        settings, bound = asked.settings, asked.limit
        gain = TIMES_MARGIN * bound if self.assume.gain is None else self.assume.gain
        truth, at = gain if bound >= 0 else 0.0, self.at_hand
        have = at.count(at.answerable, settings.slice) if at else None
        words = "any sure gain"
        if bound:
            in_words = gain_in_words if bound > 0 else loss_in_words
            words = in_words(settings.measure, abs(bound))
        need = Need(self.gate, _queries(settings.slice), words, settings.required_queries, have)
        if truth <= bound:
            note = f"no true gain above {bound:g} is assumed: name one with --gain"
            return replace(need, note=note)
        wanted = sample_size.IntervalTarget(
            truth, abs(bound) if asked.both_sides else bound, asked.both_sides
        )
        least = max(need.least, self._fewest(settings, truth, bound))
        span, rules = differences.known_span(settings.measure).differences, self.rules
        equal: list[tuple[float, int]] = []  # of equal candidates, where no more is asked for
        for moved in () if wanted.truth or settings.every_look else MOVED:
            found = sample_size.planned_equal(
                moved, wanted, span=span, confidence=rules.confidence, power=rules.power,
                largest=rules.largest_cluster,
            )  # fmt: skip
            if found is not None:
                equal.append((moved, max(found, settings.required_queries)))
        need = replace(need, least=least, equal=tuple(equal))
        if settings.every_look:
            return replace(need, note="judged at every look: queries are added until it answers")
        return self.forecast(need, asked, wanted)

    def forecast(
        self, need: Need, asked: differences.AskedMean, wanted: sample_size.IntervalTarget
    ) -> Need:
        settings = asked.settings
        if self.pilot is not None:
            try:
                compared = differences.compare(self.pilot, settings, asked.versus)
                return replace(need, forecast=MeanForecast.of_pilot(compared, wanted))
            except EvidenceError as exc:
                return replace(need, note=f"the pilot says nothing of it: {exc}")
        if self.assume.spread is None:
            note = "no pilot, so its power is not planned: --dataset, or --spread"
            return replace(need, note=note)
        span, spread = differences.known_span(settings.measure).differences, self.assume.spread
        values = sample_size.assumed(spread, truth=wanted.truth, span=span)
        said = f"{_truth(wanted)}, spread {spread:g} per query as assumed"
        forecast = MeanForecast(values, None, span, wanted, spread_known=True, said=said)
        return replace(need, forecast=forecast)

    def _fewest(self, settings: SampleSettings, truth: float, bound: float) -> int:
        span, level = differences.known_span(settings.measure).differences, self.rules.level / 2
        if settings.every_look:
            return sample_size.min_queries_at_every_look(truth, bound, span=span, level=level)
        largest = self.rules.largest_cluster
        return sample_size.min_queries(truth, bound, span=span, level=level, largest=largest)

    def negative(self, settings: quality.NegativesSettings) -> Need:
        bound = -settings.max_more
        have = self.at_hand.count(self.at_hand.negative) if self.at_hand else None
        named = settings.model_copy(update={"measure": settings.unit})
        least = max(settings.required_queries, self._fewest(named, 0.0, bound))
        words = loss_in_words(settings.unit, settings.max_more)
        need = Need(self.gate, "negative queries", words, least, have)
        if self.pilot is None:
            return replace(need, note="no pilot, so its power is not planned: --dataset")
        empty, silent = quality.emptiness(settings, self.pilot)
        silently = replace(self, pilot=silent)
        return silently.forecast(
            need, differences.AskedMean(empty, bound), sample_size.IntervalTarget(0.0, bound)
        )

    def agreement(self, settings: answers.AgreementFloorSettings) -> Need:
        span = differences.known_span(settings.measure)
        level, largest = self.rules.level / 2, self.rules.largest_cluster
        least = sample_size.min_queries(
            span.most, settings.floor, span=span, level=level, largest=largest
        )
        at = self.at_hand
        have = at.count(at.queries, settings.slice) if at else None
        words = floor_in_words(settings.measure, settings.floor)
        least = max(least, settings.required_queries)
        need = Need(self.gate, _queries(settings.slice), words, least, have)
        if self.pilot is None:
            return replace(need, note="no pilot, so its power is not planned: --dataset")
        every = self.pilot.agreement.scores
        try:
            scores = checked(every, settings.measure, "agreement")
        except EvidenceError as exc:
            return replace(need, note=f"the pilot says nothing of it: {exc}")
        scores = in_slice(scores, self.pilot, settings.slice)
        if scores.mean is None:
            said = f"the pilot has no value of {settings.where}"
            return replace(need, note=f"the pilot says nothing of it: {said}")
        wanted, groups = (
            sample_size.IntervalTarget(scores.mean, settings.floor),
            codes(scores.query_ids, self.pilot.clusters),
        )
        said = f"mean {scores.mean:.4f} as in {counted(len(scores.values), 'query')} of the pilot"
        forecast = MeanForecast(scores.values, groups, span, wanted, spread_known=False, said=said)
        return replace(need, forecast=forecast)

    def share(self, settings: ShareSettings) -> Need:
        least = size_for(0, ceiling=settings.max_share, confidence=self.rules.confidence)
        have = self.at_hand.count(self.at_hand.queries) if self.at_hand else None
        words = one_in(settings.max_share, "query")
        need = Need(self.gate, "queries", words, least, have, independent=True)
        if self.pilot is None:
            return replace(need, forecast=ShareForecast(0.0, settings.max_share))
        arms = (self.pilot, replace(self.pilot, candidate=self.pilot.control))
        found = [self.gate.judge(one, self.rules).estimate for one in arms]
        rates = [one.value for one in found if one is not None]
        if not rates:
            raise EvidenceError("the pilot has no query")
        return replace(need, forecast=ShareForecast(max(rates), settings.max_share))

    def timed(self, settings: TimedSettings) -> Need:
        race = self.at_hand.race if self.at_hand else None
        have = IndependentQueries(race.queries, race.queries) if race else None
        note = "how far processes differ is known after a race, so its power is not planned"
        return Need(
            self.gate,
            "queries raced",
            least=settings.fewest(self.rules.confidence),
            have=have,
            processes=PROCESSES,
            raced=race.processes if race else 0,
            note=note,
        )


def _queries(name: str | None) -> str:
    return "queries" if name is None else f"queries of slice {name}"


@dataclass(frozen=True, slots=True, eq=False)
class PlannedStep:
    """One step with all that it needs."""

    step: Step
    needs: tuple[Need, ...]

    @property
    def lacking(self) -> tuple[str, ...]:
        """List what is not at hand: of each kind of query as many as its largest need asks for."""
        most: dict[str, int] = {}
        for one in self.needs:
            for count, of in ((one.lacks, one.of), (one.lacks_processes, "processes")):
                most[of] = max(count, most.get(of, 0))
        return tuple(f"{count:,} {of}" for of, count in most.items() if count)


def plan(
    policy: Policy,
    at_hand: AtHand | None,
    pilots: Mapping[str, Evidence],
    assume: Assumed = Assumed(),  # noqa: B008  a tuple of nothing
) -> tuple[PlannedStep, ...]:
    """Plan every step; ``pilots`` is evidence by step, for those that have some.

    For m gates to pass together with a given power, each may fail with probability (1 - power) / m
    (Bonferroni). So their correlations need not be known.
    """
    rules, steps = policy.rules, []
    for step in policy.steps:
        pilot = pilots.get(step.name)
        found = [need for gate in step.gates for need in needs(gate, rules, at_hand, pilot, assume)]
        many = max(1, sum(need.forecast is not None for need in found))
        each = 1 - (1 - rules.power) / many
        for at, need in enumerate(found):
            if (forecast := need.forecast) is not None:
                alone, together = (forecast.queries(rules, one) for one in (rules.power, each))
                found[at] = replace(need, alone=alone, together=together)
        steps.append(PlannedStep(step, tuple(found)))
    return tuple(steps)
