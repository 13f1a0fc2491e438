"""What each gate needs before it can pass, from its rule, its margin and how sure it must be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from harness.core.errors import EvidenceError
from harness.core.evidence import Evidence
from harness.gates import (
    agreement_floor,
    identity,
    negatives,
    no_slice_harmed,
    queueing,
)
from harness.gates.base.live import MIN_PERIODS, LiveSettings
from harness.gates.base.paired import compare
from harness.gates.base.queries import SampleSettings
from harness.gates.base.rules import GateSettings, Rules
from harness.gates.base.sampled import known_span
from harness.gates.base.shares import ShareSettings
from harness.gates.base.timing import TimedSettings
from harness.measures.meaning import floor_in_words, gain_in_words, loss_in_words, share_in_words
from harness.policy.asked import AskedMean, asked_means
from harness.policy.model import Gate
from harness.policy.plan.at_hand import AtHand, Counted
from harness.policy.plan.forecast import MeanForecast, ShareForecast
from harness.policy.plan.need import Assumed, Need
from harness.replay.load.rounds import fewest_rounds
from harness.stats.proportion import size_for
from harness.stats.sample_size.enough import min_queries, min_queries_at_every_look
from harness.stats.sample_size.planning import Target, planned_equal
from harness.stats.sequential.blocks import blocks_needed

PROCESSES = 3
"""Of a race: of two, the error of the processes rests on one degree of freedom."""
MOVED = (0.02, 0.1, 0.3, 0.6)
"""Shares of the queries that an equal candidate may move."""
TIMES_MARGIN = 2
"""A gain is assumed to be so many times the margin where none is named."""


def needs(
    gate: Gate, rules: Rules, at_hand: AtHand | None, pilot: Evidence | None, assume: Assumed
) -> tuple[Need, ...]:
    """Give what a gate needs, one for each mean or share that it judges.

    ``pilot`` is evidence of the same two arms, where there is any. A rule that is not planned
    gives a need with a note that says so.
    """
    return tuple(_Planner(gate, rules, at_hand, pilot, assume).needs())


@dataclass(frozen=True, slots=True, eq=False)
class _Planner:
    gate: Gate
    rules: Rules
    at_hand: AtHand | None
    pilot: Evidence | None
    assume: Assumed

    @property
    def level(self) -> float:
        return (1 - self.rules.confidence) / 2

    def needs(self) -> Iterator[Need]:
        settings = self.gate.settings
        slices = self.at_hand.slices if self.at_hand else {}
        if means := tuple(asked_means(settings, slices)):
            yield from map(self.mean, means)
            return
        for kind, planned in PLANNED:
            if isinstance(settings, kind):
                yield planned(self, settings)
                return
        yield Need("not known", note=f"rule {self.gate.rule.name} cannot be planned")

    def mean(self, asked: AskedMean) -> Need:
        settings, bound = asked.settings, asked.limit
        truth = self._gain(bound) if bound >= 0 else 0.0
        have = self.at_hand.of_quality(settings.slice) if self.at_hand else None
        need = Need(
            _queries(settings.slice),
            _words(settings.measure, bound),
            settings.required_queries,
            have,
        )
        if truth <= bound:
            note = f"no true gain above {bound:g} is assumed: name one with --gain"
            return replace(need, note=note)
        wanted = Target(truth, abs(bound) if asked.both_sides else bound, asked.both_sides)
        least = max(need.least, self._fewest(settings, truth, bound))
        need = replace(need, least=least, equal=tuple(self._equal(settings, wanted)))
        if settings.every_look:
            return replace(need, note="judged at every look: queries are added until it answers")
        return self.forecast(need, asked, wanted)

    def forecast(self, need: Need, asked: AskedMean, wanted: Target) -> Need:
        settings = asked.settings
        if self.pilot is not None:
            try:
                compared = compare(self.pilot, settings, asked.versus)
                return replace(need, forecast=MeanForecast.of_pilot(compared, wanted))
            except EvidenceError as exc:
                return replace(need, note=f"the pilot says nothing of it: {exc}")
        if self.assume.spread is None:
            note = "no pilot, so its power is not planned: --dataset, or --spread"
            return replace(need, note=note)
        span = known_span(settings.measure).differences
        return replace(need, forecast=MeanForecast.of_spread(self.assume.spread, wanted, span))

    def _fewest(self, settings: SampleSettings, truth: float, bound: float) -> int:
        span = known_span(settings.measure).differences
        if settings.every_look:
            return min_queries_at_every_look(truth, bound, span=span, level=self.level)
        largest = self.rules.largest_cluster
        return min_queries(truth, bound, span=span, level=self.level, largest=largest)

    def _equal(self, settings: SampleSettings, wanted: Target) -> Iterator[tuple[float, int]]:
        """Plan for candidates that are equal, where a gate does not ask for more."""
        span, rules = known_span(settings.measure).differences, self.rules
        for moved in () if wanted.truth or settings.every_look else MOVED:
            found = planned_equal(
                moved, wanted, span=span, confidence=rules.confidence, power=rules.power,
                largest=rules.largest_cluster,
            )  # fmt: skip
            if found is not None:
                yield moved, max(found, settings.required_queries)

    def _gain(self, margin: float) -> float:
        return TIMES_MARGIN * margin if self.assume.gain is None else self.assume.gain

    def negative(self, settings: negatives.Settings) -> Need:
        bound = -settings.max_more
        have = self.at_hand.without_answer() if self.at_hand else None
        least = max(settings.required_queries, self._fewest(_named(settings), 0.0, bound))
        words = loss_in_words(settings.unit, settings.max_more)
        need = Need("negative queries", words, least, have)
        if self.pilot is None:
            return replace(need, note="no pilot, so its power is not planned: --dataset")
        empty, silent = negatives.emptiness(settings, self.pilot)
        silently = replace(self, pilot=silent)
        return silently.forecast(need, AskedMean(empty, bound), Target(0.0, bound))

    def agreement(self, settings: agreement_floor.Settings) -> Need:
        span = known_span(settings.measure)
        least = min_queries(
            span.most,
            settings.floor,
            span=span,
            level=self.level,
            largest=self.rules.largest_cluster,
        )
        have = self.at_hand.of_agreement(settings.slice) if self.at_hand else None
        words = floor_in_words(settings.measure, settings.floor)
        need = Need(_queries(settings.slice), words, max(least, settings.required_queries), have)
        if self.pilot is None:
            return replace(need, note="no pilot, so its power is not planned: --dataset")
        try:
            return replace(need, forecast=MeanForecast.of_agreement(settings, self.pilot))
        except EvidenceError as exc:
            return replace(need, note=f"the pilot says nothing of it: {exc}")

    def share(self, settings: ShareSettings) -> Need:
        least = size_for(0, ceiling=settings.max_share, confidence=self.rules.confidence)
        have = self.at_hand.every() if self.at_hand else None
        need = Need("queries", share_in_words(settings.max_share), least, have, independent=True)
        if self.pilot is None:
            return replace(need, forecast=ShareForecast(0.0, settings.max_share))
        arms = (self.pilot, replace(self.pilot, candidate=self.pilot.control))
        every = [ShareForecast.of_pilot(self.gate, settings, one, self.rules) for one in arms]
        return replace(need, forecast=max(every, key=lambda one: one.rate))

    def timed(self, settings: TimedSettings) -> Need:
        race = self.at_hand.race if self.at_hand else None
        have = Counted(race.queries, race.queries) if race else None
        note = "how far processes differ is known after a race, so its power is not planned"
        least = settings.fewest(self.rules.confidence)
        raced = race.processes if race else 0
        return Need("queries raced", "", least, have, processes=PROCESSES, raced=raced, note=note)

    def each_slice(self, _: no_slice_harmed.Settings) -> Need:
        return Need("queries of each slice", note="it asks for slices, and none is at hand")

    def live(self, settings: LiveSettings) -> Need:
        note = f"of {settings.block_s:g} s, in {MIN_PERIODS} whole {settings.period}s or more"
        room = 1 - settings.limit if settings.passes == "above" else settings.limit
        return Need("live blocks", least=blocks_needed(room, self.rules.confidence), note=note)

    def load(self, settings: queueing.Settings) -> Need:
        of = f"rounds of load with {settings.min_arrivals:,} arrivals at {settings.rate:g} a second"
        note = "how far rounds differ is known after a load test, so its power is not planned"
        return Need(of, least=fewest_rounds(self.rules.confidence), note=note)

    def whole(self, _: GateSettings) -> Need:
        return Need("the whole query set", note="it counts all queries and samples none")


PLANNED: tuple[tuple[type[GateSettings], Callable[[_Planner, Any], Need]], ...] = (
    (no_slice_harmed.Settings, _Planner.each_slice),
    (negatives.Settings, _Planner.negative),
    (agreement_floor.Settings, _Planner.agreement),
    (ShareSettings, _Planner.share),
    (LiveSettings, _Planner.live),
    (TimedSettings, _Planner.timed),
    (queueing.Settings, _Planner.load),
    (identity.Settings, _Planner.whole),
)
"""How the gates of each kind are planned, beside those on means of differences."""


def _named(settings: negatives.Settings) -> negatives.Settings:
    return settings.model_copy(update={"measure": settings.unit})


def _words(measure: str, bound: float) -> str:
    if not bound:
        return "any sure gain"
    return gain_in_words(measure, bound) if bound > 0 else loss_in_words(measure, -bound)


def _queries(name: str | None) -> str:
    return "queries" if name is None else f"queries of slice {name}"
