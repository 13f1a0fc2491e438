"""Gates on what the judgements say: means of differences, slices, and collapsed queries."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from harness.core.evidence import ArmResult, Evidence
from harness.core.gate import OF_VERDICT, Cause, Finding, Verdict
from harness.core.printable import many
from harness.core.run import Status
from harness.core.scores import Estimate, Scores
from harness.gates.base import differences
from harness.gates.base.completions import Bound
from harness.gates.base.queries import SampleSettings, checked, other, too_few
from harness.gates.base.rules import (
    TOUCH,
    Depth,
    Fewest,
    GateSettings,
    Margin,
    Rules,
    Share,
    Where,
    above,
    signed,
    some,
)
from harness.stats.significance import adjusted


class NonInferiorSettings(differences.LookSettings):
    """The mean of candidate - control must lie above -``margin``."""

    rule: ClassVar[str] = "non_inferior"
    passes: ClassVar[Where] = "above"
    margin: Margin

    @property
    def bound(self) -> str:
        return f"loses less than {self.margin:g} of {self.where}{self.at}"

    @property
    def limit(self) -> float:
        return -self.margin

    def asked(self, slices: Iterable[str]) -> Iterator[differences.AskedMean]:  # noqa: ARG002
        """Yield it; the p-value tests "the loss is the margin" against "it is smaller"."""
        yield differences.AskedMean(self, self.limit)


class SuperiorSettings(differences.LookSettings):
    """The mean of candidate - control must lie above ``margin``, which may be 0."""

    rule: ClassVar[str] = "superior"
    passes: ClassVar[Where] = "above"
    margin: Annotated[float, Field(ge=0, lt=1)]
    versus: str | None = None
    """Another arm to compare with, instead of the control."""

    @property
    def arms(self) -> tuple[str, ...]:
        return () if self.versus is None else (self.versus,)

    @property
    def bound(self) -> str:
        over = "the control" if self.versus is None else self.versus
        return f"gains more than {self.margin:g} of {self.where} over {over}{self.at}"

    @property
    def limit(self) -> float:
        return self.margin

    def asked(self, slices: Iterable[str]) -> Iterator[differences.AskedMean]:  # noqa: ARG002
        """Yield it; the p-value tests "the gain is the margin" against "it is greater"."""
        yield differences.AskedMean(self, self.limit, versus=self.versus)

    def judge(self, gate: str, evidence: Evidence, rules: Rules) -> Finding:
        """FAIL too where both arms show the same list for every query: none can have a gain."""
        found = super().judge(gate, evidence, rules)
        base = evidence.control if self.versus is None else other(evidence, self.versus)
        if found.estimate is None or not base.run.shows_the_same(evidence.candidate.run):
            return found
        said = "both arms show the same list for every query, so nothing is gained"
        cause, reason = OF_VERDICT[Verdict.FAIL], f"{found.reason}; {said}"
        return replace(found, verdict=Verdict.FAIL, cause=cause, reason=reason, remedy="")


class EquivalentSettings(differences.DifferenceSettings):
    """The mean of candidate - control must lie between -``margin`` and ``margin``."""

    rule: ClassVar[str] = "equivalent"
    passes: ClassVar[Where] = "within"
    bounded_by: ClassVar[str] = "margin"
    margin: Margin

    @property
    def bound(self) -> str:
        return f"differs by less than {self.margin:g} of {self.where}"

    def asked(self, slices: Iterable[str]) -> Iterator[differences.AskedMean]:  # noqa: ARG002
        yield differences.AskedMean(self, -self.margin, both_sides=True)


NAMED = 3
"""Slices that the reason lists, in addition to those that did not pass."""


class NoSliceHarmedSettings(differences.DifferenceSettings):
    """Each slice must lose less than its margin; ``min_queries`` applies to each slice."""

    rule: ClassVar[str] = "no_slice_harmed"
    slice: None = None
    slices: tuple[str, ...] = Field(default=(), strict=False)
    """Slices to judge; empty for every slice of the query set."""
    margin: Margin
    margins: Mapping[str, Margin] = Field(default_factory=dict)
    """Margins of single slices, by name."""

    @model_validator(mode="after")
    def _looked_at(self) -> Self:
        unknown = sorted(set(self.margins) - set(self.slices)) if self.slices else []
        if unknown:
            raise ValueError(f"margins names {', '.join(unknown)}, and slices does not")
        return self

    @property
    def bound(self) -> str:
        own = "".join(f", {name} less than {margin:g}" for name, margin in self.margins.items())
        return f"each slice loses less than {self.margin:g} of {self.measure}{own}"

    @property
    def limit(self) -> float | None:
        return None if self.margins else -self.margin

    @property
    def passes(self) -> Where | None:
        return None if self.margins else "above"

    def asked(self, slices: Iterable[str]) -> Iterator[differences.AskedMean]:
        for name in sorted(self.slices or slices):
            own = self.model_copy(update={"slice": name})
            yield differences.AskedMean(own, -self.margins.get(name, self.margin))

    def planned(self, confidence: float) -> Fewest:  # noqa: ARG002  only of no slice
        return Fewest("queries of each slice", 0, "it asks for slices, and none is at hand")

    def judge(self, gate: str, evidence: Evidence, rules: Rules) -> Finding:
        """PASS where the interval of each slice shows a loss below its margin.

        A slice passes as in ``non_inferior``, with each lost query counted as -1. FAIL where the
        interval of one lies below its margin, and its p-value does so too after Holm's correction
        for the number of slices. A slice that is too small, or whose control has at most its margin
        to lose, is INCONCLUSIVE and named.
        """
        found: list[_Slice] = []
        small: list[str] = []
        for one in self.asked(evidence.slices):
            own, compared = one.settings, differences.compare(evidence, one.settings, versus=None)
            ids = compared.paired.query_ids
            if too_few(gate, own, ids, evidence):
                small.append(f"{own.slice} ({len(ids)} of {self.required_queries} queries)")
            else:
                found.append(_Slice.of(str(own.slice), compared, one.limit, rules))
        if not found:
            needed = many(self.required_queries, "independent query")
            return self.undecided(
                gate,
                Cause.TOO_FEW,
                f"{many(len(small), 'slice')}, none with {needed}",
                "name slices in the query set, and judge enough queries of each",
            )
        p_values = adjusted(np.array([one.p_harmed for one in found]))
        harmed = {
            one.name
            for one, p_value in zip(found, p_values, strict=True)
            if above(one.estimate, one.limit) is Verdict.FAIL and p_value <= rules.level / 2
        }
        verdict = Verdict.FAIL if harmed else Verdict.INCONCLUSIVE
        if verdict is not Verdict.FAIL and not small and all(one.passes for one in found):
            verdict = Verdict.PASS
        open_ = [one for one in found if not (one.passes or one.name in harmed)]
        remedies = [one.settled(rules) for one in open_]
        causes = {cause for _, cause in remedies}
        cause = causes.pop() if len(causes) == 1 else None
        too_small = f"; too small: {', '.join(small)}" if small else ""
        return self.finding(
            gate,
            verdict,
            f"{self.measure} by slice, worst first: {_said(found, harmed, rules)}{too_small}",
            estimate=min(found, key=lambda one: one.estimate.low - one.limit).estimate,
            remedy="; ".join([*small, *(remedy for remedy, _ in remedies)]),
            p_value=float(p_values.min()),
            cause=Cause.TOO_FEW if small and not open_ else cause,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Slice:
    name: str
    limit: float
    compared: differences.PairedComparison
    estimate: Estimate
    p_harmed: float
    """Of "it loses no more than its margin"."""
    passes: bool
    empty: str
    """Why a PASS would mean nothing; empty where it would mean something."""

    @classmethod
    def of(
        cls, name: str, compared: differences.PairedComparison, limit: float, rules: Rules
    ) -> "_Slice":
        """Measure a slice."""
        estimate = compared.estimate(rules)
        worst = compared.with_unpaired(-1.0, rules) if compared.paired.unpaired else estimate
        kept = above(worst, limit)
        empty = compared.empty_pass(kept, estimate, -limit)
        p_harmed = compared.p_below(limit, rules)
        passes = kept is Verdict.PASS and not empty
        return cls(name, limit, compared, estimate, p_harmed, passes, empty)

    def settled(self, rules: Rules) -> tuple[str, Cause]:
        """Describe what would settle it, and why it is open."""
        if self.empty:
            return f"{self.name}: {differences.LESS}", Cause.EMPTY
        unpaired = self.compared.paired.unpaired
        if unpaired and above(self.estimate, self.limit) is Verdict.PASS:
            return f"{self.name}: {self.compared.answers}", Cause.UNANSWERED
        remedy, cause = self.compared.settled(Bound(self.limit), rules)
        return f"{self.name}: {remedy}", cause


def _said(found: Sequence[_Slice], harmed: Collection[str], rules: Rules) -> str:
    """Name the worst slices, and all that did not pass."""
    ordered = sorted(found, key=lambda one: one.estimate.value)
    named = [one for rank, one in enumerate(ordered) if rank < NAMED or not one.passes]
    said = ", ".join(
        f"{one.name} {signed(one.estimate)}"
        + (" (harmed)" if one.name in harmed else "" if one.passes else " (open)")
        + one.compared.losses
        + one.compared.unjudged(Bound(one.limit), rules)
        + (f"; {one.empty}" if one.empty else "")
        for one in named
    )
    return said + (f", and {len(found) - len(named)} more" if len(found) > len(named) else "")


NEGATIVE = "negative_query"


class NegativesSettings(SampleSettings):
    """Of the first ``depth`` places, the share left empty may shrink by less than ``max_more``.

    The queries are those without a value of ``measure``, because no document is relevant.
    """

    rule: ClassVar[str] = "negatives"
    passes: ClassVar[Where] = "above"
    slice: None = None
    depth: Depth
    max_more: Share

    @property
    def unit(self) -> str:
        return f"Empty@{self.depth}"

    @property
    def deepest(self) -> int:
        return max(super().deepest, self.depth)

    @property
    def bound(self) -> str:
        return f"fills less than {self.max_more:g} more of the first {self.depth} places"

    @property
    def limit(self) -> float:
        return -self.max_more

    def judge(self, gate: str, evidence: Evidence, rules: Rules) -> Finding:
        """Judge the queries that no document answers, and no others (method, section 2).

        A query that fails is lost, not silent: a PASS must also hold with each counted as -1. If
        the control fills every page, any candidate passes.
        """
        empty, silent = emptiness(self, evidence)
        return differences.judge_mean(
            gate, differences.AskedMean(empty, self.limit), silent, rules, from_nothing=True
        )


def emptiness(
    settings: NegativesSettings, evidence: Evidence
) -> tuple[NegativesSettings, Evidence]:
    """Score negative queries by the share of places left empty, and name that as the measure."""
    empty = settings.model_copy(update={"measure": settings.unit})
    control, candidate = (
        replace(side, scores={empty.measure: _left_empty(side, settings)})
        for side in (evidence.control, evidence.candidate)
    )
    return empty, replace(evidence, control=control, candidate=candidate)


def _left_empty(side: ArmResult, settings: NegativesSettings) -> Scores:
    """Share of the first places that each answered negative query leaves empty."""
    negative = frozenset(
        checked(side.scores, settings.measure, side.arm).undefined.get(NEGATIVE, ())
    )
    run = side.run
    values: dict[str, float] = {}
    lost: list[str] = []
    for query_id, status, hits in zip(run.query_ids, run.status, run.lengths, strict=True):
        if query_id in negative and status == Status.ANSWERED:
            values[query_id] = 1 - min(int(hits), settings.depth) / settings.depth
        elif query_id in negative:
            lost.append(query_id)
    return Scores(
        settings.unit,
        tuple(values),
        np.array(list(values.values()), dtype=np.float64),
        {"failed": tuple(lost)} if lost else {},
    )


class CollapseSettings(GateSettings):
    """At most ``max_share`` of the queries may lose more than ``drop`` of their value."""

    rule: ClassVar[str] = "collapse"
    bounded_by: ClassVar[str] = "max_share"
    passes: ClassVar[Where] = "below"
    unit: ClassVar[str] = "share"
    measure: str
    drop: Share
    max_share: Share

    @property
    def measures(self) -> tuple[str, ...]:
        return (self.measure,)

    @property
    def bound(self) -> str:
        of = f"over {self.drop:.0%} of their {self.measure}"
        return f"at most {self.max_share:.2%} of the queries lose {of}"

    def judge(self, gate: str, evidence: Evidence, rules: Rules) -> Finding:  # noqa: ARG002
        """PASS or FAIL by a count over these very queries, as they are judged, without an interval.

        A query that the candidate gives no value for, and the control does, has lost all of it. An
        unjudged hit counts as it does in the measure: as not relevant.
        """
        before, now = (
            checked(side.scores, self.measure, side.arm)
            for side in (evidence.control, evidence.candidate)
        )
        queries = len(before.values)
        if not queries:
            why = f"{evidence.control.arm} has no {self.measure} of any query"
            return self.undecided(gate, Cause.NO_EVIDENCE, why, "judge some queries")
        fallen = collapsed(before, now, self.drop)
        share = len(fallen) / queries
        verdict = Verdict.PASS if share <= self.max_share + TOUCH else Verdict.FAIL
        which = f": {some(fallen)}" if fallen else ""
        reason = (
            f"{len(fallen)} of {many(queries, 'query')} lost over {self.drop:.0%} of"
            f" {self.measure}, as judged{which}"
        )
        estimate = Estimate(share, share, share, queries)
        return self.finding(gate, verdict, reason, estimate=estimate)


def collapsed(before: Scores, now: Scores, drop: float) -> tuple[str, ...]:
    """Return the queries that lost more than ``drop`` of their own value, the greatest loss first.

    Those without a value now count as fallen to 0.
    """
    values = now.by_query
    fell = [
        (values.get(query_id, 0.0) - old, query_id)
        for query_id, old in before.by_query.items()
        if old > 0 and values.get(query_id, 0.0) < old * (1 - drop) - TOUCH
    ]
    return tuple(query_id for _, query_id in sorted(fell))
