"""A policy: the steps of a migration, the gates of each, and how sure they must be."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from harness.core.errors import UnknownName
from harness.core.evidence import Evidence
from harness.core.gate import Finding
from harness.core.names import Label, Name
from harness.core.parts import kinds
from harness.core.scores import BY_TEXT, Clustering
from harness.core.store import StrictModel
from harness.gates.base.rules import GateSettings, Rules, missing
from harness.stats.inference import MOST_CONFIDENCE


def _why(granted: str) -> Any:  # noqa: ANN401  a field of pydantic
    """Return a field that holds why ``granted`` may be taken for granted."""
    return Field(default=None, min_length=1, description=granted)


class Premises(StrictModel):
    """The table ``[policy.premises]``: why each may be taken for granted; the page shows it."""

    drawn: str | None = _why("these queries are like those to come")
    needs: str | None = _why("no need is put twice in unlike words")
    judges: str | None = _why("the grades of a judged sample are right")
    starts: str | None = _why("the timed processes stand for every start")
    slowest: str | None = _why("the slowest answers, which no percentile counts, may take any time")


UNDECLARED = Premises()
"""What a policy without the table declares."""


Probability = Annotated[float, Field(gt=0, lt=1)]
Text = Annotated[str, Field(min_length=1)]
MOST_DAYS, MOST_ATTEMPTS = 36_500, 1_000
"""A hundred years, within which a day has a date; attempts, of which each has its share
of the error."""
Days = Annotated[int, Field(ge=1, le=MOST_DAYS)]
FEWEST_RESAMPLES, MOST_RESAMPLES = 1_000, 10_000_000
"""Below this the ends of a 95 % interval rest on fewer than 25 draws each."""


class Header(StrictModel):
    """The table ``[policy]``."""

    name: Label
    version: Annotated[int, Field(ge=1)]
    seed: Annotated[int, Field(ge=0)]
    confidence: Annotated[float, Field(ge=0.5, le=MOST_CONFIDENCE)]
    resamples: Annotated[int, Field(ge=FEWEST_RESAMPLES, le=MOST_RESAMPLES)]
    power: Probability
    evidence_days: Days
    attempts: Annotated[int, Field(ge=1, le=MOST_ATTEMPTS)]
    declared: Text = ""
    chained: bool = True
    clusters: Clustering = BY_TEXT
    largest_cluster: Probability = 0.0
    premises: Premises = UNDECLARED
    tuned_reason: Text = ""


class StepTable(StrictModel):
    """A table ``[[step]]``; its gates are read once their rule is known."""

    name: Label
    control: Name
    candidate: Name
    taken: bool
    baseline: Annotated[str, Field(pattern="^[0-9a-f]{12,64}$")] | None = None
    accepted: Text | None = None
    accepted_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    switch: Annotated[str, Field(pattern="^[a-z0-9_-]+$")] | None = None
    shadow_days: Days = 0
    same_engine: Text = ""
    gate: Annotated[list[Mapping[str, Any]], Field(min_length=1)]


class GateHead(BaseModel):
    """The keys that every ``[[step.gate]]`` has; the others are settings of its rule."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)
    name: Label
    rule: Text


class PolicyFile(StrictModel):
    """A whole policy file."""

    policy: Header
    step: Annotated[list[StepTable], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition of a step."""

    name: str
    rule: str
    settings: GateSettings
    written: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The table as the file has it; empty where the gate is not from a file."""

    def judge(self, evidence: Evidence, rules: Rules) -> Finding:
        """Judge ``evidence``, or name the kind that is missing."""
        found = missing(self.name, self.settings, evidence)
        return found or self.settings.judge(self.name, evidence, rules)


class AcceptedDecision(NamedTuple):
    """A decision that was kept, by its bytes."""

    path: Path
    sha256: str


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the migration: candidate takes over from control."""

    name: str
    control: str
    candidate: str
    taken: bool
    gates: tuple[Gate, ...]
    baseline: str | None = None
    """How the fingerprint of the control's index begins; None where it is not fixed yet."""
    switch: str | None = None
    """What the kill switch is set to by the step; None where no switch takes it."""
    shadow_days: int = 0
    """Days on which the candidate must have been compared before the step is taken."""
    accepted: AcceptedDecision | None = None
    """The decision that it was taken by; None where the policy does not name it."""
    same_engine: str = ""
    """Why its two arms may be one engine (A/A); empty where they may not."""

    def needs(self, kind: type) -> bool:
        """Return whether a gate needs this kind of evidence."""
        return any(kind in gate.settings.needs for gate in self.gates)

    @property
    def also(self) -> tuple[str, ...]:
        """Arms that its gates read beside its two, each once."""
        named = (arm for gate in self.gates for arm in gate.settings.arms)
        return tuple(
            dict.fromkeys(arm for arm in named if arm not in {self.control, self.candidate})
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """All bounds and rules of a decision."""

    name: str
    version: int
    evidence_days: int
    """How old evidence may be."""
    rules: Rules
    """Of each attempt: its confidence leaves one of ``attempts`` parts of the error budget."""
    steps: tuple[Step, ...]
    """In the order in which they are taken."""
    chained: bool
    """Whether a step waits for those before it, as in a migration; else each stands alone."""
    attempts: int = 1
    """Attempts planned at each control, by all candidates, on the queries of one data set."""
    declared: str = ""
    """Why attempts are declared and not counted; empty where a log counts them."""
    clusters: Clustering = BY_TEXT
    """Which queries depend on each other and are resampled together."""
    premises: Premises = UNDECLARED
    """What is taken for granted, and why."""
    tuned_reason: str = ""
    """Why an arm may be judged on queries that it was tuned on; empty where it may not."""

    @property
    def level(self) -> float:
        """Probability of a wrong PASS of a gate at its bound, in one attempt."""
        return (1 - self.rules.confidence) / 2

    @property
    def alpha(self) -> float:
        """Error budget: false-promotion rate at one control over all planned attempts.

        All gates of a step must pass, so its rate is at most that of one gate (intersection-union
        test; Berger, Technometrics 24, 1982). Attempts add up (Bonferroni), whatever they share.
        """
        return self.level * self.attempts

    @property
    def arms(self) -> tuple[str, ...]:
        """Every arm that a step or a gate names, in the order of the policy."""
        named = (
            arm
            for step in self.steps
            for arm in (
                step.control,
                step.candidate,
                *(a for gate in step.gates for a in gate.settings.arms),
            )
        )
        return tuple(dict.fromkeys(named))

    def needs(self, kind: type) -> bool:
        """Return whether a gate needs this kind of evidence."""
        return any(step.needs(kind) for step in self.steps)

    @property
    def beside(self) -> frozenset[str]:
        """Names of the kinds of evidence that it rests on because a gate needs them."""
        return frozenset(one.name for one in kinds() if not one.always and self.needs(one.value))

    @property
    def measures(self) -> tuple[str, ...]:
        """Every measure of quality that a gate reads, in the order of the policy."""
        asked = (gate.settings.measures for step in self.steps for gate in step.gates)
        return tuple(dict.fromkeys(name for names in asked for name in names))

    def accepting(self, at: int) -> Step | None:
        """Return the taken step that installed the control of step ``at``; None before any."""
        control = self.steps[at].control
        before = [step for step in self.steps[:at] if step.taken and step.candidate == control]
        return before[-1] if self.chained and before else None

    def until(self, name: str) -> "Policy":
        """Leave out the steps after ``name``."""
        known = [step.name for step in self.steps]
        if name not in known:
            raise UnknownName("step", name, known)
        return replace(self, steps=self.steps[: known.index(name) + 1])
