"""``decision.json``: its model, of which the schema is made, written and read back."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AliasChoices, Field, ValidationError, model_serializer, model_validator

from harness.core.errors import BadFile
from harness.core.gate import Cause, Finding, Outcome, StepDecision, Verdict, together
from harness.core.scores import BY_TEXT, Clustering, Estimate
from harness.report import inputs

Json = dict[str, Any]


class IntervalPart(inputs.DecisionPart):
    """A number with its two-sided interval and the queries it rests on."""

    value: inputs.Number
    low: inputs.Number
    high: inputs.Number
    n: inputs.Count

    @property
    def estimate(self) -> Estimate | None:
        """The estimate; None without a value. An end that is null is open."""
        if self.value is None:
            return None
        low = -float("inf") if self.low is None else self.low
        high = float("inf") if self.high is None else self.high
        return Estimate(self.value, low, high, self.n)


Intervals = dict[str, IntervalPart]


class FindingPart(inputs.DecisionPart):
    """One gate. An inconclusive one says what would settle it. Timed: rests on a clock."""

    gate: str
    rule: str
    verdict: Verdict
    cause: Cause
    """Why, for programs: kept goes with pass, broken with fail, the others with inconclusive."""
    reason: Annotated[inputs.Text, Field(min_length=1)]
    bound: inputs.Text
    estimate: IntervalPart | None
    limit: inputs.Number
    unit: str
    settle: inputs.Text = Field(validation_alias=AliasChoices("settle", "remedy"))
    p_value: inputs.Chance
    timed: bool

    @model_validator(mode="after")
    def _settled(self) -> FindingPart:
        if self.verdict is Verdict.INCONCLUSIVE and not self.settle:
            raise ValueError("settle is empty, and the gate is inconclusive")
        return self

    @property
    def finding(self) -> Finding:
        """The finding as gates give it."""
        kept = {name: getattr(self, name) for name in type(self).model_fields if name != "settle"}
        estimate = self.estimate.estimate if self.estimate else None
        return Finding(**{**kept, "estimate": estimate, "remedy": self.settle})


class StepPart(inputs.DecisionPart):
    """What was decided of one step."""

    step: str
    control: str
    candidate: str
    taken: bool
    verdict: Verdict
    untimed_verdict: Verdict
    outcome: Outcome
    waits_for: str = Field(validation_alias=AliasChoices("waits_for", "blocked_by"))
    blocking: tuple[Annotated[str, inputs.made(Finding, attrgetter("gate"))], ...]
    findings: tuple[FindingPart, ...]
    accepted_by: Annotated[str, Field(pattern="^([0-9a-f]{64})?$")]
    """Digest of the decision that put the control in its place; empty where none is named."""

    def decision(self, dataset: str) -> StepDecision:
        """Return the step as it is decided from its findings."""
        found = StepDecision(
            step=self.step,
            control=self.control,
            candidate=self.candidate,
            taken=self.taken,
            findings=tuple(each.finding for each in self.findings),
            blocked_by=self.waits_for,
            accepted_by=self.accepted_by,
        )
        if (self.verdict, self.outcome) != (found.verdict, found.outcome):
            raise ValueError(
                f"step {self.step} of {dataset} says {self.verdict}, {self.outcome},"
                f" but its findings give {found.verdict}, {found.outcome}"
            )
        return found


class AlikePart(inputs.DecisionPart):
    """One measure of agreement."""

    mean: inputs.Number
    n: inputs.Sized = Field(validation_alias=AliasChoices("n", "query_ids"))
    undefined: dict[str, inputs.Sized]


class AgreementPart(inputs.DecisionPart):
    """Agreement of two runs."""

    classes: Annotated[dict[str, inputs.Count], inputs.made(tuple, Counter)]
    scores: dict[str, AlikePart]


class DependencePart(inputs.DecisionPart):
    """Queries of one cluster depend on each other: how many independent queries they are worth."""

    queries: inputs.Some
    clusters: inputs.Some
    largest: inputs.Some
    design_effect: inputs.Number
    """How much wider the clusters make the variance of a mean."""
    effective: inputs.Number


class ComparisonPart(inputs.DecisionPart):
    """Agreement of candidate and control beside noise: control against control."""

    name: str
    control: str
    candidate: str
    differences: Intervals
    dependence: dict[str, DependencePart] = Field(default={})
    agreement: AgreementPart
    noise: AgreementPart


class QualityPart(inputs.DecisionPart):
    """Means of each arm, of all queries and of each slice."""

    measure: str
    means: dict[str, Intervals]
    slices: dict[str, dict[str, Intervals]]


class LatencyPart(inputs.DecisionPart):
    """Percentiles of first answers, only of arms whose rankings were verified; ratios, shares."""

    timed: Literal[True]
    unit: Literal["ns"]
    machine: str
    raced_at: str
    verified: dict[str, bool]
    percentiles: dict[str, Intervals]
    ratios: dict[str, Intervals]
    aa: dict[str, Intervals]
    repeats: Intervals
    seen: Intervals
    processes: inputs.Count
    reference_ns: float
    stolen: dict[str, dict[str, float]]
    """Shares of time that answers lost to the system, by arm and name."""

    @classmethod
    def of(cls, report: inputs.ReportInput, latency: inputs.Latency) -> LatencyPart:
        """Leave out the times of arms that were not verified."""
        race, at = latency.race, latency.percentiles
        own = {name: getattr(latency, name) for name in ("aa", "repeats", "seen")}
        return cls.model_validate({
            **own, "timed": True, "unit": "ns",
            **{name: getattr(race, name) for name in ("machine", "raced_at", "verified")},
            "percentiles": {arm: at[arm] for arm in at if latency.is_verified(arm)},
            "ratios": report.trusted_ratios(latency),
            "processes": max(map(len, race.elapsed_ns.values()), default=0),
            "reference_ns": float(np.median(race.reference_ns)),
            "stolen": {arm: one.shares for arm, one in race.stolen.items()},
        })  # fmt: skip


class AlphaPart(inputs.DecisionPart):
    """Chances of a wrong promotion at one control: in one attempt, and over all planned ones."""

    level: inputs.Exact
    allowed: inputs.Exact = Field(validation_alias=AliasChoices("allowed", "alpha"))
    attempts: inputs.Some
    declared: str
    """Why attempts are not counted from a log."""


class LeakPart(inputs.DecisionPart):
    """An arm with a tuning record, and how many of the judged queries it has seen."""

    arm: str
    seen: inputs.Count
    judged: inputs.Count
    collections: tuple[str, ...]


COVERED = ("queries", "judged", "unjudged", "negative", "strangers", "unanswered")


class EvidencePart(inputs.DecisionPart):
    """How complete the evidence is, and whether it is what the policy was pinned to."""

    queries: inputs.Count
    judged: inputs.Count
    unjudged: inputs.Count
    negative: inputs.Count
    strangers: inputs.Count
    """Judged queries that are not in the query set."""
    unanswered: dict[str, inputs.Some]
    unprobed: tuple[str, ...]
    """Arms whose index was not counted: their identity is what they state."""
    tuned: tuple[LeakPart, ...] = ()
    """Absent without a tuning record."""
    pin: inputs.PinPart

    @model_serializer(mode="wrap")
    def _dumped(self, dump: Any) -> Json:  # noqa: ANN401  of pydantic
        found: Json = dump(self)
        return found if self.tuned else {key: found[key] for key in found if key != "tuned"}

    @classmethod
    def of(cls, kept: inputs.Custody) -> EvidencePart:
        """Take what is the same from day to day."""
        names = {name: getattr(kept.coverage, name) for name in COVERED}
        own = {"unprobed": kept.unprobed, "tuned": kept.tuned, "pin": kept.pin}
        return cls.model_validate(names | own)


class LooksPart(inputs.DecisionPart):
    """How often a step was judged."""

    looks: inputs.Some = Field(validation_alias=AliasChoices("looks", "attempts"))
    spent: inputs.Exact
    """Level of all attempts together, one-sided."""
    untimed: inputs.Count
    timed: inputs.Count
    unjudged_races: inputs.Count = Field(
        validation_alias=AliasChoices("unjudged_races", "unjudged")
    )
    since: tuple[str, ...]
    before: tuple[tuple[str, str], ...]


class RecordPart(inputs.DecisionPart):
    """Which line of the experiment log the decision is, and what came before."""

    number: inputs.Some
    previous: inputs.Sha256
    earlier: tuple[str, ...]
    """What the lines before it were, in words."""
    since: inputs.SincePart | None
    steps: dict[str, LooksPart] = Field(validation_alias=AliasChoices("steps", "looks"))


class ClustersPart(inputs.DecisionPart):
    """Which queries were taken to depend on each other, and why not by their texts."""

    how: Clustering
    reason: inputs.Text
    parted: inputs.Count
    """Queries that are near duplicates by their words, and that declared intents part."""


class DatasetPart(inputs.DecisionPart):
    """What was measured and decided on one data set."""

    dataset: str
    policy: inputs.PolicyPart | None
    clusters: ClustersPart | None = None
    steps: tuple[StepPart, ...]
    comparisons: tuple[ComparisonPart, ...]
    quality: QualityPart
    latency: LatencyPart | None
    trust: dict[Literal["alpha"], AlphaPart] | None
    """What the policy may err by design."""
    evidence: EvidencePart | None
    record: RecordPart | None
    provenance: inputs.ProvenancePart

    @classmethod
    def of(cls, report: inputs.ReportInput) -> DatasetPart:
        """Take it from a report."""
        policy, kept = report.judged_by, report.custody
        parted = (len(found.parted) for found in report.evidence.values())
        return cls.model_validate({
            "dataset": report.dataset,
            "policy": report.policy,
            "clusters": {
                "how": policy.clusters if policy else BY_TEXT,
                "reason": (policy.premises.needs or "") if policy else "",
                "parted": max(parted, default=0),
            },
            "steps": report.decisions,
            "comparisons": [
                {
                    "name": name, "control": of.control.arm, "candidate": of.candidate.arm,
                    "differences": report.differences.get(name, {}),
                    "dependence": report.dependence.get(name, {}),
                    "agreement": of.agreement, "noise": of.noise,
                }
                for name, of in report.evidence.items()
            ],
            "quality": {
                "measure": report.measure, "means": report.means, "slices": report.slice_means
            },
            "latency": LatencyPart.of(report, report.latency) if report.latency else None,
            "trust": {"alpha": policy} if policy else None,
            "evidence": EvidencePart.of(kept) if kept else None,
            "record": kept,
            "provenance": report.provenance,
        })  # fmt: skip


class OutcomePart(inputs.DecisionPart):
    """The outcome of one step."""

    dataset: str
    step: str
    outcome: Outcome


class SummaryPart(inputs.DecisionPart):
    """Over the steps of all data sets; verdict is null where nothing was to decide."""

    verdict: Verdict | None
    outcomes: dict[Outcome, inputs.Count]
    steps: tuple[OutcomePart, ...]


class Decision(inputs.DecisionPart):
    """What the gates found for each step, what follows from it and where the numbers come from.

    A number that is not finite is null.
    """

    schema_version: Literal["1.5"]
    summary: SummaryPart
    datasets: tuple[DatasetPart, ...]

    @classmethod
    def of(cls, reports: Sequence[inputs.ReportInput]) -> Decision:
        """Assemble everything that was decided."""
        every = [(of.dataset, one) for of in reports for one in of.decisions]
        outcomes = Counter(one.outcome for _, one in every)
        return cls(
            schema_version="1.5",
            summary=SummaryPart(
                verdict=together(one.verdict for _, one in every) if every else None,
                outcomes={outcome: outcomes[outcome] for outcome in Outcome},
                steps=tuple(
                    OutcomePart(dataset=name, step=one.step, outcome=one.outcome)
                    for name, one in every
                ),
            ),
            datasets=tuple(map(DatasetPart.of, reports)),
        )


HINT = "Write it again with the gate stage"


def to_json(reports: Sequence[inputs.ReportInput]) -> Json:
    """Return everything that was decided, as values that JSON can hold."""
    return Decision.of(reports).model_dump(mode="json")


def steps_json(decisions: Iterable[StepDecision]) -> list[Json]:
    """Return what is decided of each step, as JSON has it."""
    return [StepPart.model_validate(one).model_dump(mode="json") for one in decisions]


def without_times(value: Json) -> Json:
    """Copy a decision without anything that a clock or a machine had a part in.

    A step keeps ``untimed_verdict``, from findings without times. Its verdict, its outcome and what
    it waits for may depend on times and are left out, as is the summary.
    """
    rest = copy.deepcopy(value)
    del rest["summary"]
    for dataset in rest["datasets"]:
        del dataset["latency"], dataset["record"]
        for fact in ("machine", "decided_at", "expires_at", "replayed_at"):
            del dataset["provenance"][fact]
        for step in dataset["steps"]:
            del step["verdict"], step["outcome"], step["waits_for"], step["blocking"]
            step["findings"] = [found for found in step["findings"] if not found["timed"]]
    return rest


def schema() -> Json:
    """Return the JSON Schema (draft 2020-12) of ``decision.json``."""
    return Decision.model_json_schema()


def from_json(value: Json, path: Path) -> tuple[tuple[str, StepDecision], ...]:
    """Read the decisions back, each with its dataset, from the content of ``path``."""
    try:
        found = Decision.model_validate_json(json.dumps(value), strict=True)
        return tuple(
            (of.dataset, step.decision(of.dataset)) for of in found.datasets for step in of.steps
        )
    except ValidationError as exc:
        first = exc.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BadFile(path, f"{where}: {first['msg']}", HINT) from exc
    except ValueError as exc:
        raise BadFile(path, str(exc), HINT) from exc
