"""What stages hand to a report: everything measured, nothing rounded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.core.engine import Manifest
from harness.core.evidence import ArmResult, Evidence, Race
from harness.core.gate import StepDecision
from harness.core.printable import many
from harness.core.records import Document, Qrels, Query
from harness.core.scores import Dependence, Estimate
from harness.policy.model import Policy
from harness.report.rounding import percent
from harness.stats.interval import TrafficMean

if TYPE_CHECKING:
    from harness.report.doc import Section
    from harness.report.page.custody import Custody

    Described = Callable[..., Section]
    """Takes the prefix of ids on the page, and ``now=False`` for what was there before."""


@dataclass(frozen=True, slots=True)
class Trust:
    """What the policy may err, beside what it says."""

    policy: Policy

    @property
    def alone(self) -> str:
        """State what a step may err by design."""
        level = percent(self.policy.level)
        return f"False-promotion rate: the design allows {level} in one attempt."

    @property
    def together(self) -> str:
        """Describe the error budget over all attempts, and whether a log counts them."""
        policy = self.policy
        said = (
            f"Error budget: {percent(policy.alpha)} false promotion at each control, over"
            f" {many(policy.attempts, 'planned attempt')} of {percent(policy.level)}."
        )
        if policy.declared:
            said += f" Attempts are declared, not counted: {policy.declared}."
        if granted := policy.premises.model_dump(exclude_none=True):
            each = " ".join(f"({key}) {why}." for key, why in granted.items())
            said += f" The policy takes for granted, unchecked: {each}"
        return said


@dataclass(frozen=True, slots=True)
class QueryStage:
    """One query on its way to one stage: what was won or lost by documents, and by their order."""

    shown: float
    order: float


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
    steps: Mapping[str, tuple[QueryStage, ...]]
    """By query id, a step for each stage."""


Lookup = Callable[[frozenset[str]], Mapping[str, Document]]
"""Fetch the documents of these ids, called once; ids that the corpus lacks may be left out."""


@dataclass(frozen=True, slots=True)
class PolicyName:
    """Which policy decided."""

    name: str
    version: str
    sha256: str
    """Of the policy's file."""


@dataclass(frozen=True, slots=True, eq=False)
class Provenance:
    """Provenance of the numbers, enough to reproduce them."""

    dataset: str
    licence: str
    source: str
    """Where the data come from, in words or as an address; it is shown and never loaded."""
    corpus_sha256: str
    queries_sha256: str
    qrels_sha256: str
    documents: int
    fields: tuple[str, ...]
    """Parts of a document that were searched."""
    queries: int
    judgements: int
    manifests: Mapping[str, Manifest]
    """By arm."""
    packages: Mapping[str, str]
    """Version by package name."""
    python: str
    code_version: str
    """A git commit or the digest of the code."""
    seed: int
    commands: tuple[str, ...]
    """What to type to make this report again, in order."""
    machine: str
    """One line that names the processor, cores and system."""
    decided_at: str
    """UTC, ISO 8601."""
    expires_at: str | None
    """UTC, ISO 8601: when the decision stops counting; None where no policy says so."""
    replayed_at: Mapping[str, str] = field(default_factory=dict)
    """UTC, ISO 8601: when each arm's run was made, by arm; only the known ones."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By stage, as JSON: how arms were scored, compared and judged, to derive the numbers again."""


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

    provenance: Provenance
    policy: PolicyName | None
    decisions: tuple[StepDecision, ...]
    """In the order of the migration."""
    evidence: Mapping[str, Evidence]
    """By comparison."""
    arms: Mapping[str, ArmResult]
    """Every arm measured, by name, also those in no comparison."""
    means: Mapping[str, Mapping[str, Estimate]]
    """Mean of each measure with its interval, by arm and measure."""
    slice_means: Mapping[str, Mapping[str, Mapping[str, Estimate]]]
    """The same by slice, arm and measure."""
    differences: Mapping[str, Mapping[str, Estimate]]
    """Mean of candidate - control with its interval, by comparison and measure."""
    slice_differences: Mapping[str, Mapping[str, Estimate]]
    """The same of ``measure``, by comparison and slice."""
    latency: Latency | None
    """None where no race was run."""
    queries: Mapping[str, Query]
    """By query id."""
    qrels: Qrels
    documents: Lookup
    measure: str
    """The measure that people look at first, e.g. ``nDCG@10``; by it queries are ranked."""
    trust: Trust | None = None
    """What is known of the judge; None without a policy."""
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
