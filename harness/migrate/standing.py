"""The state of a migration, its events, and the blockers of its next step."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Literal, NoReturn

from pydantic import Field

from harness.core.errors import EvidenceError
from harness.core.formats import Moment
from harness.core.gate import Outcome, Verdict
from harness.core.store import StrictModel
from harness.policy.model import Policy, Step
from harness.policy.validity import check_age, check_past

Name = Annotated[str, Field(min_length=1)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]


class Said(StrictModel):
    """What a decision says of one step."""

    step: Name
    control: Name
    candidate: Name
    verdict: Verdict
    outcome: Outcome
    waits_for: str
    failed: tuple[str, ...]
    """Gates that fail."""
    open: tuple[str, ...]
    """Gates that are inconclusive."""
    control_setup: Sha256
    """Of engine, version and settings of the control: not of its documents, which grow."""
    candidate_setup: Sha256
    compared: Count
    """Queries that both arms answered."""
    replayed_at: Moment | None
    """When the arms were replayed, the earlier of the two; None if unknown."""


class DecisionRecord(StrictModel):
    """A decision, as far as a migration rests on it."""

    sha256: Sha256
    """Of the file ``decision.json``."""
    decided_at: Moment
    raced_at: Moment | None
    policy_sha256: Sha256
    steps: tuple[Said, ...]

    def of(self, step: str) -> Said | None:
        """Return its decision of ``step``; None where it has none."""
        return next((said for said in self.steps if said.step == step), None)

    @property
    def newest(self) -> Moment:
        """The latest of all its times."""
        return max(self._times)

    @property
    def oldest(self) -> Moment:
        """Time of the oldest evidence in it, as far as it tells."""
        return min(self._times)

    @property
    def _times(self) -> list[datetime]:
        replays = (said.replayed_at for said in self.steps)
        return [*filter(None, (self.decided_at, self.raced_at, *replays))]


class Day(StrictModel):
    """Control and candidate were compared on a day (UTC)."""

    day: date
    control: Name
    candidate: Name
    pairs: Annotated[int, Field(ge=1)]
    source: Literal["streams", "replay"]
    """A live comparison, or the replay behind a decision."""


class _Event(StrictModel):
    at: Moment
    by: Name
    """Who did it."""


class Begun(_Event):
    """The migration begins: nothing is taken yet."""

    kind: Literal["begun"] = "begun"
    policy: Name
    """Name of the policy that it follows."""
    switch: Name
    """Value of the kill switch that leaves the old engine in place."""


class Observed(_Event):
    """Evidence was looked at; nothing else changed."""

    kind: Literal["observed"] = "observed"
    decision: DecisionRecord | None
    days: tuple[Day, ...]


class Advanced(_Event):
    """A step was taken."""

    kind: Literal["advanced"] = "advanced"
    step: Name
    switch: Name
    decision: DecisionRecord | None
    """What it rests on; None only where it was overridden."""
    overridden: tuple[str, ...] = ()
    """Blocking findings that a person overrode; usually empty."""
    reason: str = ""
    """Why it was set aside."""


class RolledBack(_Event):
    """The last steps were taken back."""

    kind: Literal["rolled_back"] = "rolled_back"
    to: str
    """The step that is in force again; empty for the state before the first."""
    switch: Name
    reason: Name


class Drilled(_Event):
    """The way back was walked, and forth again; a drill that failed stays on the old engine."""

    kind: Literal["drilled"] = "drilled"
    step: Name
    old: Name
    """Value of the switch before the step."""
    new: Name
    passed: bool
    said: Name
    """What was seen, or why it failed."""
    questions: Count
    back_ns: Count
    """From writing the old value to its first own answer; 0 where there was none."""
    forth_ns: Count


class Interleaved(_Event):
    """Users see lists mixed from the rankings of several engines, or no longer do."""

    kind: Literal["interleaved"] = "interleaved"
    arms: tuple[Name, ...]
    """The engine that serves first; empty where mixing ends."""
    reason: Name


Event = Annotated[
    Begun | Observed | Advanced | RolledBack | Drilled | Interleaved, Field(discriminator="kind")
]


START = "start"
"""The state before the first step, as a person names it."""


@dataclass(frozen=True, slots=True)
class StepInForce:
    """A step that is in force."""

    step: str
    switch: str
    since: datetime
    decision: DecisionRecord | None
    drilled_at: datetime | None = None
    """When its rollback was last drilled with success; None where it never was."""


@dataclass(frozen=True, slots=True)
class MigrationState:
    """What is in force, and what was seen; the old engine serves where nothing is taken."""

    policy: str
    begun_at: datetime
    start: str
    """Value of the switch before the first step."""
    taken: tuple[StepInForce, ...] = ()
    """In the order of the policy."""
    decisions: tuple[DecisionRecord, ...] = ()
    """Every decision that was looked at, oldest first."""
    days: tuple[Day, ...] = ()
    overrides: tuple[Advanced, ...] = ()
    """Steps that were taken against the rules; kept for ever, also where they were taken back."""
    turned_back: Mapping[str, datetime] = field(default_factory=dict)
    """When each step was last taken back."""
    interleaved: Interleaved | None = None
    """What switched the mixing of rankings on; None where it is off. A move of a step ends it."""

    @property
    def step(self) -> str:
        """The step in force; empty before the first."""
        return self.taken[-1].step if self.taken else ""

    @property
    def switch(self) -> str:
        """What the kill switch is set to."""
        return self.taken[-1].switch if self.taken else self.start

    @property
    def since(self) -> datetime:
        """When the last of the steps in force was taken, or the migration began."""
        return self.taken[-1].since if self.taken else self.begun_at

    @property
    def before(self) -> str:
        """Value of the switch one step back; the old engine's before the first step."""
        return self.taken[-2].switch if len(self.taken) > 1 else self.start

    def next_of(self, policy: Policy) -> Step | None:
        """Return the step that is to be taken next; None where all are."""
        if policy.name != self.policy:
            raise EvidenceError(
                f"the migration follows the policy {self.policy!r}, not {policy.name!r};"
                " name its policy"
            )
        taken = [one.step for one in self.taken]
        if [step.name for step in policy.steps[: len(taken)]] != taken:
            raise EvidenceError(
                f"the steps {', '.join(taken)} are in force, but the policy begins with"
                f" {', '.join(step.name for step in policy.steps)}; bring its steps back"
            )
        return next(iter(policy.steps[len(taken) :]), None)

    def newest(self, step: str, other: DecisionRecord | None = None) -> DecisionRecord | None:
        """Return the newest decision about ``step``; ``other`` is one that was not noted yet."""
        rests_on = (one.decision for one in self.taken if one.decision)
        known = (other, *reversed(self.decisions), *rests_on)
        about = [found for found in known if found and found.of(step)]
        return max(about, key=lambda found: found.decided_at, default=None)

    def shadow_days(self, step: Step) -> frozenset[date]:
        """Days on which the arms of ``step`` were compared, as far as they count for it.

        They count from the day on which the previous step was taken. They restart after a day on
        which a gate of ``step`` failed or the step was taken back.
        """
        spoilt = [
            decision.decided_at
            for decision in self.decisions
            if (said := decision.of(step.name)) and said.failed
        ]
        if step.name in self.turned_back:
            spoilt.append(self.turned_back[step.name])
        until = max((at.astimezone(UTC).date() for at in spoilt), default=date.min)
        return frozenset(
            day.day
            for day in self.days
            if (day.control, day.candidate) == (step.control, step.candidate)
            and day.day >= self.since.astimezone(UTC).date()
            and day.day > until
        )


def state_of(events: Iterable[Event]) -> MigrationState:
    """Add up the events of a ledger, oldest first."""
    state: MigrationState | None = None
    last: datetime | None = None
    for event in events:
        if last is not None and event.at < last:
            raise EvidenceError(
                f"an event of {event.at.isoformat()} follows one of {last.isoformat()};"
                " correct the clock"
            )
        last = event.at
        if not isinstance(event, Begun):
            state = _after(state or _no_state(), event)
        elif state is not None:
            raise EvidenceError(f"the migration began already, on {state.begun_at.date()}")
        else:
            state = MigrationState(event.policy, event.at, event.switch)
    return state or _no_state()


def _no_state() -> NoReturn:
    raise EvidenceError("the migration has not begun. Run: harness migrate begin --serving VALUE")


def _after(state: MigrationState, event: Event) -> MigrationState:
    """Return the state after an event."""
    if isinstance(event, Observed | Advanced) and event.decision:
        check_past(event.decision.newest, now=event.at)
    match event:
        case Observed():
            noted = (event.decision,) if event.decision else ()
            decisions = sorted((*state.decisions, *noted), key=lambda one: one.decided_at)
            return replace(state, decisions=tuple(decisions), days=(*state.days, *event.days))
        case Advanced():
            taken = StepInForce(event.step, event.switch, event.at, event.decision)
            overrides = (*state.overrides, event) if event.overridden else state.overrides
            steps = (*state.taken, taken)
            return replace(state, taken=steps, overrides=overrides, interleaved=None)
        case RolledBack():
            return _state_before(state, event.to, event.at)
        case Interleaved():
            return replace(state, interleaved=event if event.arms else None)
        case Drilled():
            if event.step != state.step:
                there = state.step or "no step"
                raise EvidenceError(f"a drill of {event.step}, where {there} is in force")
            *below, last = state.taken
            if not event.passed:
                return _state_before(state, below[-1].step if below else "", event.at)
            return replace(state, taken=(*below, replace(last, drilled_at=event.at)))
    raise TypeError(event)


def _state_before(state: MigrationState, to: str, at: datetime) -> MigrationState:
    """Take back every step after ``to``."""
    names = [one.step for one in state.taken]
    if to and to not in names:
        raise EvidenceError(f"the step {to} is not in force; there is {', '.join(names) or 'none'}")
    kept = state.taken[: names.index(to) + 1] if to else ()
    turned_back = {**state.turned_back, **dict.fromkeys(names[len(kept) :], at)}
    return replace(state, taken=kept, turned_back=turned_back, interleaved=None)


PREFIX = 12


class Action(StrEnum):
    """What is to be done, most urgent first."""

    ROLLBACK = "rollback"
    SWITCH = "switch"
    MEASURE = "measure"
    DRILL = "drill"
    ADVANCE = "advance"
    WAIT = "wait"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Ask:
    """One thing to do, and why."""

    action: Action
    why: str
    to: str = ""
    """Of a rollback: the step to go back to, or ``start``."""


@dataclass(frozen=True, slots=True)
class CurrentDecision:
    """A decision as it lies there today."""

    decision: DecisionRecord | None
    refused: str
    """Why it is not believed; empty where every digest below it was counted again."""
    policy_sha256: str
    """Of the policy as it is today."""

    @property
    def believed(self) -> DecisionRecord | None:
        """The decision, where it is believed."""
        return None if self.refused else self.decision


@dataclass(frozen=True, slots=True)
class MigrationDay:
    """A migration on one day."""

    state: MigrationState
    now: datetime
    next: Step | None
    shadow_days: int
    """Days of shadow that count for the next step."""
    hindrances: tuple[str, ...]
    """A blocker of the next step."""
    asks: tuple[Ask, ...]
    """Most urgent first; never empty."""

    @property
    def evidence_age(self) -> timedelta | None:
        """Age of the decision that the step in force rests on; None where there is none."""
        rests_on = self.state.taken[-1].decision if self.state.taken else None
        return self.now - rests_on.oldest if rests_on else None


def standing(
    state: MigrationState, policy: Policy, evidence: CurrentDecision, *, now: datetime
) -> MigrationDay:
    """Return where the migration stands and what it asks for; ``now`` is aware of its zone."""
    step = state.next_of(policy)
    rollback = _rollback_ask(state, evidence.believed)
    hindrances = tuple(_hindrances(state, policy, evidence, rollback, now))
    asks = [rollback] if rollback else []
    if state.taken:
        newest = state.newest(state.step, evidence.believed)
        try:
            if newest is None:
                why = f"{state.step} is in force and no decision speaks of it"
                asks.append(Ask(Action.MEASURE, why))
            else:
                check_age(newest.oldest.isoformat(), now=now, evidence_days=policy.evidence_days)
        except EvidenceError as stale:
            asks.append(Ask(Action.MEASURE, f"of {state.step}: {stale}"))
        if state.taken[-1].drilled_at is None:
            asks.append(Ask(Action.DRILL, f"the way back from {state.step} was never walked"))
    if step is None:
        asks.append(Ask(Action.DONE, f"{state.step} is the last step of the policy"))
    elif not hindrances:
        asks.append(Ask(Action.ADVANCE, f"nothing blocks {step.name}"))
    else:
        asks.append(Ask(Action.WAIT, f"{step.name}: {hindrances[0]}"))
    days = len(state.shadow_days(step)) if step else 0
    return MigrationDay(state, now, step, days, hindrances, tuple(asks))


def _hindrances(
    state: MigrationState,
    policy: Policy,
    evidence: CurrentDecision,
    rollback: Ask | None,
    now: datetime,
) -> Iterator[str]:
    """Yield the blockers of the next step; none if it may be taken."""
    step = state.next_of(policy)
    if step is None:
        yield f"{state.step} is the last step of the policy"
        return
    if step.switch is None:
        yield f"the policy names no switch for {step.name}; write switch = ... in its step"
    if rollback:
        yield f"roll back to {rollback.to} first: {rollback.why}"
    yield from _of_decision(state, policy, step, evidence, now)
    if state.taken and state.taken[-1].drilled_at is None:
        yield f"the rollback of {state.step} was not drilled since it was taken"
    days = len(state.shadow_days(step))
    if days < step.shadow_days:
        yield f"{days} of the {step.shadow_days} days of shadow that the policy asks for"


def _of_decision(
    state: MigrationState, policy: Policy, step: Step, evidence: CurrentDecision, now: datetime
) -> Iterator[str]:
    """Yield why the decision at hand does not allow the step."""
    decision = evidence.decision
    if evidence.refused:
        yield f"the decision is not believed: {evidence.refused}"
    if decision is None:
        if not evidence.refused:
            yield "nothing was decided yet"
        return
    if decision.policy_sha256 != evidence.policy_sha256:
        yield (
            f"it was decided by a policy {decision.policy_sha256[:PREFIX]}, and the policy is"
            f" {evidence.policy_sha256[:PREFIX]} now; decide again"
        )
    try:
        check_age(decision.oldest.isoformat(), now=now, evidence_days=policy.evidence_days)
        check_past(decision.newest, now=now)
    except EvidenceError as stale:
        yield str(stale)
    turned_back = state.turned_back.get(step.name)
    if turned_back and decision.decided_at <= turned_back:
        yield f"it was decided before {step.name} was taken back; measure what was fixed"
    said = decision.of(step.name)
    if said is None:
        yield f"no decision for step {step.name}"
        return
    yield from _of_step(state, decision, step, said)


def _of_step(
    state: MigrationState, decision: DecisionRecord, step: Step, said: Said
) -> Iterator[str]:
    arms, asked = (said.control, said.candidate), (step.control, step.candidate)
    if arms != asked:
        yield (
            f"it was decided of {' against '.join(arms)}, and the step is {' against '.join(asked)}"
        )
    if said.outcome is not Outcome.PROMOTE:
        why = [f"{gate} fails" for gate in said.failed]
        why += [f"{gate} is open" for gate in said.open]
        why += [f"it waits for {said.waits_for}"] if said.waits_for else []
        yield f"the decision is {said.outcome.upper()}: {'; '.join(why)}"
    last = state.taken[-1] if state.taken else None
    accepted = last.decision.of(last.step) if last and last.decision else None
    if last is None or accepted is None:
        return
    setups = {
        accepted.control: accepted.control_setup,
        accepted.candidate: accepted.candidate_setup,
    }
    today = decision.of(last.step)
    passes = today is not None and today.verdict is Verdict.PASS
    if step.control not in setups:
        yield f"{accepted.candidate} serves since {last.step}, and the control is {step.control}"
    elif setups[step.control] != said.control_setup and not passes:
        yield (
            f"{step.control} is another engine, version or setting than when {last.step} was"
            f" taken, and {last.step} does not pass with it"
        )


def _rollback_ask(state: MigrationState, today: DecisionRecord | None) -> Ask | None:
    """Ask for a rollback where a step in force fails on evidence newer than its own."""
    for at, taken in enumerate(state.taken):
        newest = state.newest(taken.step, today)
        said = newest.of(taken.step) if newest else None
        if newest and said and newest != taken.decision and said.verdict is Verdict.FAIL:
            gates = ", ".join(said.failed)
            why = f"{taken.step} is in force and fails since {newest.decided_at.date()}: {gates}"
            return Ask(Action.ROLLBACK, why, state.taken[at - 1].step if at else START)
    return None
