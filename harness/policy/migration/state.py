"""The state of a migration: what its events add up to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime

from harness.core.errors import EvidenceError
from harness.policy.age import check_past
from harness.policy.migration.events import (
    Advanced,
    Begun,
    Day,
    Decided,
    Drilled,
    Event,
    Interleaved,
    Observed,
    RolledBack,
)
from harness.policy.model import Policy, Step

START = "start"
"""The state before the first step, as a person names it."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A step that is in force."""

    step: str
    switch: str
    since: datetime
    decision: Decided | None
    drilled_at: datetime | None = None
    """When its rollback was last drilled with success; None where it never was."""


@dataclass(frozen=True, slots=True)
class State:
    """What is in force, and what was seen; the old engine serves where nothing is taken."""

    policy: str
    begun_at: datetime
    start: str
    """Value of the switch before the first step."""
    taken: tuple[Taken, ...] = ()
    """In the order of the policy."""
    decisions: tuple[Decided, ...] = ()
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
        """Give the step that is to be taken next; None where all are.

        Raises:
            EvidenceError: the policy is another one, or lost or moved a step that was taken.
        """
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

    def newest(self, step: str, other: Decided | None = None) -> Decided | None:
        """Give the newest decision about ``step``; ``other`` is one that was not noted yet."""
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


def state_of(events: Iterable[Event]) -> State:
    """Add up the events of a ledger, oldest first.

    Raises:
        EvidenceError: they are not of one migration. The beginning is missing, time runs backwards,
            a decision is later than its event, or a step was taken back or drilled but never taken.
    """
    state: State | None = None
    last: datetime | None = None
    for event in events:
        if last is not None and event.at < last:
            raise EvidenceError(
                f"an event of {event.at.isoformat()} follows one of {last.isoformat()};"
                " correct the clock"
            )
        last = event.at
        if isinstance(event, Observed | Advanced) and event.decision:
            check_past(event.decision.newest, now=event.at)
        state = applied(state, event)
    if state is None:
        raise EvidenceError("the migration has not begun. Run: harness migrate begin")
    return state


def applied(state: State | None, event: Event) -> State:
    """Give the state after ``event``.

    Raises:
        EvidenceError: it cannot happen in this state.
    """
    if isinstance(event, Begun):
        if state is not None:
            raise EvidenceError(f"the migration began already, on {state.begun_at.date()}")
        return State(event.policy, event.at, event.switch)
    if state is None:
        raise EvidenceError("the migration has not begun. Run: harness migrate begin")
    if isinstance(event, Observed):
        noted = (event.decision,) if event.decision else ()
        decisions = tuple(sorted((*state.decisions, *noted), key=lambda one: one.decided_at))
        return replace(state, decisions=decisions, days=(*state.days, *event.days))
    if isinstance(event, Advanced):
        taken = Taken(event.step, event.switch, event.at, event.decision)
        overrides = (*state.overrides, event) if event.overridden else state.overrides
        steps = (*state.taken, taken)
        return replace(state, taken=steps, overrides=overrides, interleaved=None)
    if isinstance(event, RolledBack):
        return _back(state, event.to, event.at)
    if isinstance(event, Interleaved):
        return replace(state, interleaved=event if event.arms else None)
    return _drilled(state, event)


def _back(state: State, to: str, at: datetime) -> State:
    """Take back every step after ``to``."""
    names = [one.step for one in state.taken]
    if to and to not in names:
        raise EvidenceError(f"the step {to} is not in force; there is {', '.join(names) or 'none'}")
    kept = state.taken[: names.index(to) + 1] if to else ()
    back = dict.fromkeys(names[len(kept) :], at)
    turned_back = {**state.turned_back, **back}
    return replace(state, taken=kept, turned_back=turned_back, interleaved=None)


def _drilled(state: State, event: Drilled) -> State:
    if event.step != state.step:
        raise EvidenceError(f"a drill of {event.step}, where {state.step or 'no step'} is in force")
    if not event.passed:
        return _back(state, state.taken[-2].step if len(state.taken) > 1 else "", event.at)
    return replace(state, taken=(*state.taken[:-1], replace(state.taken[-1], drilled_at=event.at)))
