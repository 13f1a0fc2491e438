"""What stages hand to a report: everything measured, nothing rounded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from harness.core.evidence import ArmResult, Evidence, Race
from harness.core.gate import StepDecision
from harness.core.printable import printable
from harness.core.records import Document, Qrels, Query
from harness.core.scores import Dependence, Estimate
from harness.corpus.tuning import Leak
from harness.policy.looks import Looks
from harness.policy.model import Policy
from harness.report.rounding import for_json
from harness.stats.interval import TrafficMean

if TYPE_CHECKING:
    from harness.report.doc import Section

    Described = Callable[..., Section]
    """Takes the prefix of ids on the page, and ``now=False`` for what was there before."""


@dataclass(frozen=True, slots=True)
class Apart:
    """The differences of two arms, taken apart."""

    control: str
    candidate: str
    measure: str
    stages: tuple[str, ...]
    """In the order in which the candidate goes through them."""
    values: Mapping[str, tuple[float, float]]
    """Of control and candidate, by query id."""
    steps: Mapping[str, tuple[tuple[float, float], ...]]
    """By query id, for each stage what was won or lost by documents, and by their order."""


Lookup = Callable[[frozenset[str]], Mapping[str, Document]]
"""Fetch the documents of these ids, called once; ids that the corpus lacks may be left out."""


def made(kind: type, make: Callable[[Any], object]) -> BeforeValidator:
    """Convert what has this type, as reports give it; what was read from JSON stays."""
    return BeforeValidator(lambda value: make(value) if isinstance(value, kind) else value)


_ROUNDED = made(float, for_json)
Number = Annotated[float | None, _ROUNDED]
"""Ten significant digits; null where it is not finite."""
Exact = Annotated[float, _ROUNDED]
Chance = Annotated[Annotated[float, Field(ge=0, le=1)] | None, _ROUNDED]
Text = Annotated[str, made(str, printable)]
Count = Annotated[int, Field(ge=0)]
Some = Annotated[int, Field(ge=1)]
Sized = Annotated[Count, made(tuple, len)]
Named = Annotated[str, Field(min_length=1)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class DecisionPart(BaseModel):
    """A part of a decision; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", from_attributes=True)


class PolicyPart(DecisionPart):
    """Which policy decided."""

    name: str
    version: str
    sha256: Named


class DigestsPart(DecisionPart):
    """Digests of the data."""

    corpus: Named
    queries: Named
    qrels: Named


class CountsPart(DecisionPart):
    """Sizes of the data."""

    documents: Count
    queries: Count
    judgements: Count


class ArmPart(DecisionPart):
    """What an arm's index was made from."""

    engine: str
    version: str
    documents: Count
    corpus_sha256: Named
    settings_sha256: Named
    fingerprint: Named


class ProvenancePart(DecisionPart):
    """Where the numbers come from."""

    licence: str
    source: str
    sha256: DigestsPart
    counts: CountsPart
    fields: Annotated[tuple[Literal["title", "text"], ...], Field(min_length=1)] = ("title", "text")
    arms: dict[str, ArmPart]
    packages: dict[str, str]
    python: str
    code_version: str
    seed: int
    settings: dict[str, dict[str, Any]]
    """How arms were scored, compared and judged: what verification needs."""
    commands: tuple[str, ...]
    machine: str
    decided_at: str
    expires_at: str | None
    replayed_at: dict[str, str]


@dataclass(frozen=True, slots=True)
class JudgementCoverage:
    """How much of a query set can be judged on."""

    queries: int
    judged: int
    """Queries with a judgement."""
    negative: int
    """Of these, the ones that no document answers."""
    strangers: int
    """Judged queries that are not in the query set."""
    unanswered: Mapping[str, int]
    """Queries without an answer, by arm; arms that answered all are left out."""
    left_out: int = 0
    """Queries that the import left out, because they have no judgement."""
    own: int = 0
    """Queries that are also documents, and whose own hit was taken out of each run."""

    @property
    def unjudged(self) -> int:
        """Queries without a judgement."""
        return self.queries - self.judged


class PinPart(DecisionPart):
    """What the policy was pinned to, and what is other now."""

    command: str
    pinned_at: str | None
    times: Count
    differences: tuple[str, ...]


class SincePart(DecisionPart):
    """What changed since the last decision on other evidence."""

    at: str
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Custody:
    """All of it, of one data set and one decision."""

    coverage: JudgementCoverage
    pin: PinPart
    number: int
    """Of the decision's line in the log of experiments."""
    previous: str
    """Digest of the line before it."""
    since: SincePart | None
    """None where no decision on other queries or judgements is in the log."""
    looks: Mapping[str, Looks]
    """By step."""
    earlier: tuple[str, ...] = ()
    """What the lines before it were, in words."""
    unprobed: tuple[str, ...] = ()
    """Arms whose index no one counted: their identity is their own word."""
    pinned_names: tuple[str, ...] = ()
    """Data sets with pins of the policy, if these data have none."""
    tuned: tuple[Leak, ...] = ()
    """Arms with a tuning record, and how many of these queries it has seen."""
    tuned_reason: str = ""
    """Why the policy allows queries that it has seen; empty where it does not."""
    raced: bool = False
    """Whether times of a race are part of the evidence."""


@dataclass(frozen=True, slots=True, eq=False)
class Latency:
    """A race and what follows from it. All estimates of ``percentiles`` are nanoseconds."""

    race: Race
    percentiles: Mapping[str, Mapping[str, Estimate]]
    """Of first answers, by arm, then by name (``p50`` ... ``p99``); absent if undefined."""
    ratios: Mapping[str, Mapping[str, Estimate]]
    """Candidate / control by comparison, then by name (``mean``, ``p50``, ``p95``)."""
    aa: Mapping[str, Mapping[str, Estimate]]
    """Every other process over the rest, by arm and name: how noisy the machine was."""
    repeats: Mapping[str, Estimate]
    """Time of a text that comes again over that of its first time, by arm."""
    seen: Mapping[str, Estimate]
    """Time of a text that the replay had asked over that of a variant, by arm."""

    def is_verified(self, arm: str) -> bool:
        """Return whether an arm's times may be shown (method, section 5); silence is a no."""
        return self.race.verified.get(arm) is True


@dataclass(frozen=True, slots=True, eq=False)
class ReportInput:
    """One dataset: what was measured and, where a policy judged, what was decided.

    A comparison is a control and a candidate under a name. Each step is a comparison of its name;
    without a policy ``decisions`` is empty and the comparisons are only described. A decided
    step may lack evidence (then its gates say so), a comparison may not lack arms.
    """

    dataset: str
    provenance: ProvenancePart
    evidence: Mapping[str, Evidence]
    """By comparison."""
    arms: Mapping[str, ArmResult]
    """Every arm measured, by name, also those in no comparison."""
    queries: Mapping[str, Query]
    """By query id."""
    qrels: Qrels
    documents: Lookup
    measure: str
    """The measure that people look at first, e.g. ``nDCG@10``; by it queries are ranked."""
    policy: PolicyPart | None = None
    decisions: tuple[StepDecision, ...] = ()
    """In the order of the migration."""
    means: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)
    """Mean of each measure with its interval, by arm and measure."""
    slice_means: Mapping[str, Mapping[str, Mapping[str, Estimate]]] = field(default_factory=dict)
    """The same by slice, arm and measure."""
    differences: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)
    """Mean of candidate - control with its interval, by comparison and measure."""
    slice_differences: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)
    """The same of ``measure``, by comparison and slice."""
    latency: Latency | None = None
    """None where no race was run."""
    judged_by: Policy | None = None
    """What a verdict may err, and where each gate passes; None without a policy."""
    custody: Custody | None = None
    """How the evidence was kept; None without a policy."""
    place: str = ""
    """Command-line options that name these data; empty if unknown."""
    apart: tuple[Apart, ...] = ()
    """Differences taken apart by stages (``harness decompose``), whether they still hold or not."""
    beside: tuple[Described, ...] = ()
    """Evidence of slices, each in a section of its own."""
    history: str = ""
    """Address of the page of earlier decisions as seen from this one; empty where none is."""
    dependence: Mapping[str, Mapping[str, Dependence]] = field(default_factory=dict)
    """What clusters of queries cost each of ``differences``."""
    traffic: Mapping[str, TrafficMean] = field(default_factory=dict)
    """Mean of ``measure`` over the traffic of a log, by arm and by ``control~candidate``; empty
    where the queries are not a sample of one."""

    def trusted_ratios(self, latency: Latency) -> Mapping[str, Mapping[str, Estimate]]:
        """Return the ratios of comparisons of which both arms were verified."""
        return {
            name: row
            for name, row in latency.ratios.items()
            if (of := self.evidence.get(name))
            and all(latency.is_verified(side.arm) for side in (of.control, of.candidate))
        }
