"""The current needs of a migration, and the blockers of its next step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from harness.core.errors import EvidenceError
from harness.core.gate import Outcome, Verdict
from harness.policy.age import check_age, check_past
from harness.policy.migration.events import Decided, Said
from harness.policy.migration.state import START, State, Taken
from harness.policy.model import Policy, Step

PREFIX = 12


class Action(StrEnum):
    """What is to be done, most urgent first."""

    ROLLBACK = "rollback"
    MEND = "mend"
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

    decision: Decided | None
    refused: str
    """Why it is not believed; empty where every digest below it was counted again."""
    policy_sha256: str
    """Of the policy as it is today."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A migration on one day."""

    state: State
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


def standing(state: State, policy: Policy, evidence: CurrentDecision, *, now: datetime) -> Standing:
    """Say where the migration stands and what it asks for; ``now`` is aware of its zone.

    Raises:
        EvidenceError: the policy is not the one that the migration follows.
    """
    step = state.next_of(policy)
    hindrances = tuple(hindrances_of(state, policy, evidence, now=now))
    asks = [*_back(state, _believed(evidence)), *_expired(state, policy, evidence, now)]
    if state.taken and state.taken[-1].drilled_at is None:
        asks.append(Ask(Action.DRILL, f"the way back from {state.step} was never walked"))
    if step is None:
        asks.append(Ask(Action.DONE, f"{state.step} is the last step of the policy"))
    elif not hindrances:
        asks.append(Ask(Action.ADVANCE, f"nothing blocks {step.name}"))
    else:
        asks.append(Ask(Action.WAIT, f"{step.name}: {hindrances[0]}"))
    days = len(state.shadow_days(step)) if step else 0
    return Standing(state, now, step, days, hindrances, tuple(asks))


def hindrances_of(
    state: State, policy: Policy, evidence: CurrentDecision, *, now: datetime
) -> Iterator[str]:
    """Yield the blockers of the next step; none if it may be taken.

    Raises:
        EvidenceError: the policy is not the one that the migration follows.
    """
    step = state.next_of(policy)
    if step is None:
        yield f"{state.step} is the last step of the policy"
        return
    if step.switch is None:
        yield f"the policy names no switch for {step.name}; write switch = ... in its step"
    for ask in _back(state, _believed(evidence)):
        yield f"roll back to {ask.to} first: {ask.why}"
    yield from _of_decision(state, policy, step, evidence, now)
    if state.taken and state.taken[-1].drilled_at is None:
        yield f"the rollback of {state.step} was not drilled since it was taken"
    days = len(state.shadow_days(step))
    if days < step.shadow_days:
        yield f"{days} of the {step.shadow_days} days of shadow that the policy asks for"


def _of_decision(
    state: State, policy: Policy, step: Step, evidence: CurrentDecision, now: datetime
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
        yield f"the decision does not speak of {step.name}"
        return
    yield from _of_step(state, decision, step, said)


def _of_step(state: State, decision: Decided, step: Step, said: Said) -> Iterator[str]:
    arms, asked = (said.control, said.candidate), (step.control, step.candidate)
    if arms != asked:
        yield (
            f"it was decided of {' against '.join(arms)}, and the step is {' against '.join(asked)}"
        )
    if said.outcome is not Outcome.PROMOTE:
        why = [
            *(f"{gate} fails" for gate in said.failed),
            *(f"{gate} is open" for gate in said.open),
        ]
        if said.waits_for:
            why.append(f"it waits for {said.waits_for}")
        yield f"the decision is {said.outcome.upper()}: {'; '.join(why)}"
    last = state.taken[-1] if state.taken else None
    accepted = last.decision.of(last.step) if last and last.decision else None
    if last is None or accepted is None:
        return
    setups = {
        accepted.control: accepted.control_setup,
        accepted.candidate: accepted.candidate_setup,
    }
    if step.control not in setups:
        yield f"{accepted.candidate} serves since {last.step}, and the control is {step.control}"
    elif setups[step.control] != said.control_setup and not _passes(decision, last):
        yield (
            f"{step.control} is another engine, version or setting than when {last.step} was"
            f" taken, and {last.step} does not pass with it"
        )


def _passes(decision: Decided, taken: Taken) -> bool:
    said = decision.of(taken.step)
    return said is not None and said.verdict is Verdict.PASS


def _believed(evidence: CurrentDecision) -> Decided | None:
    return None if evidence.refused else evidence.decision


def _back(state: State, today: Decided | None) -> Iterator[Ask]:
    """Ask for a rollback where a step in force fails on evidence newer than its own."""
    for at, taken in enumerate(state.taken):
        newest = state.newest(taken.step, today)
        said = newest.of(taken.step) if newest else None
        if newest is None or said is None or newest == taken.decision:
            continue
        if said.verdict is Verdict.FAIL:
            to = state.taken[at - 1].step if at else START
            gates = ", ".join(said.failed)
            why = f"{taken.step} is in force and fails since {newest.decided_at.date()}: {gates}"
            yield Ask(Action.ROLLBACK, why, to)
            return


def _expired(
    state: State, policy: Policy, evidence: CurrentDecision, now: datetime
) -> Iterator[Ask]:
    """Ask for new evidence of the step in force."""
    if not state.taken:
        return
    newest = state.newest(state.step, _believed(evidence))
    if newest is None:
        yield Ask(Action.MEASURE, f"{state.step} is in force and no decision speaks of it")
        return
    try:
        check_age(newest.oldest.isoformat(), now=now, evidence_days=policy.evidence_days)
    except EvidenceError as stale:
        yield Ask(Action.MEASURE, f"of {state.step}: {stale}")
