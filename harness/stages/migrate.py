"""The moves of a migration: begin, observe, advance and roll back.

A step is taken in the ledger first and then by the switch; it is taken back by the switch first.
So a process that is killed between the two leaves the old engine in place, and the status says
that the two differ.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from harness.core.errors import EvidenceError
from harness.policy.migration import START, State
from harness.policy.migration_events import Advanced, Begun, Day, Observed, RolledBack
from harness.policy.migration_status import Action, Ask, Evidence, Standing, standing
from harness.policy.model import Policy
from harness.stages import migrate_ledger as ledger
from harness.stages import migrate_switch as switch
from harness.stages.migrate_evidence import replayed


def begin(folder: Path, policy: Policy, value: str, *, now: datetime, by: str) -> None:
    """Begin a migration in ``folder``; ``value`` of the switch leaves the old engine in place.

    Raises:
        EvidenceError: one began there already.
    """
    known = ledger.read(folder)
    event = Begun(at=now, by=by, policy=policy.name, switch=value)
    ledger.add(folder, event, after=known.head)
    switch.write(folder, value, why="before the first step")


def look(folder: Path, policy: Policy, evidence: Evidence, *, now: datetime) -> Standing:
    """Say where the migration stands; nothing is written.

    Raises:
        BadFile: the ledger is torn or was changed.
        EvidenceError: nothing began, or the policy is another one.
    """
    state = ledger.read(folder).state
    found = standing(state, policy, evidence, now=now)
    apart = switch.drift(folder, state.switch)
    if not apart:
        return found
    cure = "harness migrate mend writes what the ledger says; a rollback that was cut off, do again"
    mend = Ask(Action.MEND, f"{apart}. {cure}")
    urgent = sum(ask.action is Action.ROLLBACK for ask in found.asks)
    return replace(found, asks=(*found.asks[:urgent], mend, *found.asks[urgent:]))


def observe(
    folder: Path, evidence: Evidence, days: tuple[Day, ...], *, now: datetime, by: str
) -> Observed | None:
    """Note the decision at hand, and the days given; None where all of it was known.

    Raises:
        EvidenceError: the decision is not to be believed, or a day is still to come.
    """
    if evidence.refused:
        raise EvidenceError(evidence.refused)
    known = ledger.read(folder)
    state = known.state
    decision = evidence.decision
    if decision in state.decisions:
        decision = None
    fresh = tuple(
        day for day in (*(replayed(decision) if decision else ()), *days) if day not in state.days
    )
    late = [day.day for day in fresh if day.day > now.astimezone(UTC).date()]
    if late:
        raise EvidenceError(f"evidence of {max(late)} is from the future; mend the clock")
    if decision is None and not fresh:
        return None
    event = Observed(at=now, by=by, decision=decision, days=fresh)
    ledger.add(folder, event, after=known.head)
    return event


def advance(
    folder: Path, policy: Policy, evidence: Evidence, *, now: datetime, by: str, reason: str
) -> tuple[str, ...]:
    """Take the next step, and give what stands in its way; nothing is done where anything does.

    With a ``reason``, the step is taken all the same; what stood in its way is kept for ever.

    Raises:
        EvidenceError: there is no next step, or the policy names no switch for it.
    """
    known = ledger.read(folder)
    state = known.state
    found = standing(state, policy, evidence, now=now)
    if found.next is None:
        raise EvidenceError(found.hindrances[0])
    if found.hindrances and not (reason and found.next.switch):
        return found.hindrances
    value = found.next.switch
    if value is None:
        raise EvidenceError(f"the policy names no switch for {found.next.name}")
    event = Advanced(
        at=now,
        by=by,
        step=found.next.name,
        switch=value,
        decision=evidence.decision,
        overridden=found.hindrances,
        reason=reason if found.hindrances else "",
    )
    made = ledger.add(folder, event, after=known.head)
    switch.write(folder, value, why=_why(event.step, made))
    return ()


def rollback(folder: Path, *, to: str, reason: str, now: datetime, by: str) -> State:
    """Take steps back, at once and whatever the evidence says.

    ``to`` names the step to go back to, ``start`` the state before the first; empty goes one back.

    Raises:
        BadFile: the ledger is torn or was changed; see ``rollback_without_ledger``.
        EvidenceError: nothing began, or ``to`` is not in force.
    """
    known = ledger.read(folder)
    state = known.state
    steps = ["", *(one.step for one in state.taken)]
    target = "" if to == START else to or steps[max(0, len(steps) - 2)]
    if target not in steps:
        raise EvidenceError(
            f"the step {target} is not in force; there is {', '.join([START, *steps[1:]])}"
        )
    at = steps.index(target)
    value = state.taken[at - 1].switch if at else state.start
    switch.write(folder, value, why=f"rolled back to {target or START}")
    event = RolledBack(at=now, by=by, to=target, switch=value, reason=reason)
    return ledger.add(folder, event, after=known.head).state


def rollback_without_ledger(folder: Path, value: str) -> None:
    """Set the switch where the ledger cannot be read; it must be brought back before all else."""
    switch.write(folder, value, why="rolled back without the ledger, which must be mended")


def set_again(folder: Path) -> str:
    """Write what the ledger says into the switch file, and give it.

    Raises:
        BadFile: the ledger is torn or was changed.
        EvidenceError: nothing began.
    """
    known = ledger.read(folder)
    switch.write(folder, known.state.switch, why=_why(known.state.step or START, known))
    return known.state.switch


def _why(step: str, made: ledger.Ledger) -> str:
    return f"{step}, entry {len(made.events)} of {ledger.FILE}, {made.head[:12]}"
