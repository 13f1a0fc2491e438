"""The moves of a migration: begin, observe, advance and roll back."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from harness.core.errors import EvidenceError
from harness.core.folders import MIGRATION, FileChange, changing, cut_off, mark
from harness.migrate import ledger
from harness.migrate.ledger import replayed
from harness.migrate.standing import (
    START,
    Action,
    Advanced,
    Ask,
    Begun,
    CurrentDecision,
    Day,
    MigrationDay,
    MigrationState,
    Observed,
    RolledBack,
    standing,
)
from harness.policy.model import Policy

BEGIN, OBSERVE, ADVANCE, ROLLBACK, MEND = "begin", "observe", "advance", "rollback", "mend"


class Move(NamedTuple):
    """What was done."""

    resumed: str
    """The move that had been cut off and was completed; empty where there was none."""
    state: MigrationState
    hindrances: tuple[str, ...] = ()
    """What blocks a step that was not taken."""


def _move(folder: Path, what: str) -> AbstractContextManager[FileChange]:
    if what != BEGIN and not folder.is_dir():
        _ = ledger.read(folder).state
    return changing(folder / ledger.LEDGER_FILE, within=[folder], what=what)


def begin(folder: Path, policy: Policy, value: str, *, now: datetime, by: str) -> Move:
    """Begin a migration in ``folder``; ``value`` of the switch leaves the old engine in place."""
    check_switches(policy)
    with _move(folder, BEGIN) as change:
        made = ledger.read(folder)
        if change.resumed != BEGIN:
            made = ledger.added(made, Begun(at=now, by=by, policy=policy.name, switch=value))
            change.write(folder / ledger.LEDGER_FILE, ledger.ledger_text(made))
            text = ledger.switch_text(value, why="before the first step")
            change.write(folder / ledger.SWITCH_FILE, text)
        return Move(change.resumed, made.state)


def check_switches(policy: Policy) -> None:
    """Check that all steps of a policy can be taken."""
    if without := [step.name for step in policy.steps if step.switch is None]:
        raise EvidenceError(
            f"the policy {policy.name!r} names no switch for {', '.join(without)}, so they could"
            " never be taken; write switch = ... in each [[step]]"
        )


def look(folder: Path, policy: Policy, evidence: CurrentDecision, *, now: datetime) -> MigrationDay:
    """Return where the migration stands; nothing is written."""
    state = ledger.read(folder).state
    found = standing(state, policy, evidence, now=now)
    apart = ledger.drift(folder, state.switch)
    if cut_off(folder / ledger.LEDGER_FILE):
        apart = f"{folder / ledger.LEDGER_FILE}: a move was cut off, and the next one completes it"
    if not apart:
        return found
    hint = "harness migrate mend writes what the ledger says; repeat a rollback that was cut off"
    mend = Ask(Action.MEND, f"{apart}. {hint}")
    urgent = sum(ask.action is Action.ROLLBACK for ask in found.asks)
    return replace(found, asks=(*found.asks[:urgent], mend, *found.asks[urgent:]))


def observe(
    folder: Path, evidence: CurrentDecision, days: tuple[Day, ...], *, now: datetime, by: str
) -> Observed | None:
    """Note the decision at hand, and the days given; None where all of it was known."""
    if evidence.refused:
        raise EvidenceError(evidence.refused)
    with _move(folder, OBSERVE) as change:
        known = ledger.read(folder)
        state = known.state
        decision = evidence.decision
        if decision in state.decisions:
            decision = None
        seen = (*(replayed(decision) if decision else ()), *days)
        fresh = tuple(day for day in seen if day not in state.days)
        late = [day.day for day in fresh if day.day > now.astimezone(UTC).date()]
        if late:
            raise EvidenceError(f"evidence of {max(late)} is from the future; correct the clock")
        if decision is None and not fresh:
            return None
        event = Observed(at=now, by=by, decision=decision, days=fresh)
        change.write(folder / ledger.LEDGER_FILE, ledger.ledger_text(ledger.added(known, event)))
        return event


def advance(
    folder: Path, policy: Policy, evidence: CurrentDecision, *, now: datetime, by: str, reason: str
) -> Move:
    """Take the next step; nothing is done where anything stands in its way.

    With a ``reason``, the step is taken all the same; what stood in its way is kept for ever.
    """
    with _move(folder, ADVANCE) as change:
        known = ledger.read(folder)
        if change.resumed == ADVANCE:
            return Move(change.resumed, known.state)
        found = standing(known.state, policy, evidence, now=now)
        if found.next is None:
            raise EvidenceError(found.hindrances[0])
        if found.hindrances and not (reason and found.next.switch):
            return Move(change.resumed, known.state, found.hindrances)
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
        made = ledger.added(known, event)
        change.write(folder / ledger.LEDGER_FILE, ledger.ledger_text(made))
        change.write(
            folder / ledger.SWITCH_FILE, ledger.switch_text(value, why=_why(event.step, made))
        )
        return Move(change.resumed, made.state)


def rollback(folder: Path, *, to: str, reason: str, now: datetime, by: str) -> Move:
    """Take steps back, at once and whatever the evidence says.

    ``to`` names the step to go back to, ``start`` the state before the first; empty goes one back.
    """
    with _move(folder, ROLLBACK) as change:
        known = ledger.read(folder)
        if change.resumed == ROLLBACK:
            return Move(change.resumed, known.state)
        target, value = _back(known.state, to)
        event = RolledBack(at=now, by=by, to=target, switch=value, reason=reason)
        made = ledger.added(known, event)
        why = f"rolled back to {target or START}"
        change.write(folder / ledger.SWITCH_FILE, ledger.switch_text(value, why=why))
        change.write(folder / ledger.LEDGER_FILE, ledger.ledger_text(made))
        return Move(change.resumed, made.state)


def _back(state: MigrationState, to: str) -> tuple[str, str]:
    """Return the step to go back to, empty for the start, and its value of the switch."""
    steps = ["", *(one.step for one in state.taken)]
    target = "" if to == START else to or steps[max(0, len(steps) - 2)]
    if target not in steps:
        raise EvidenceError(
            f"the step {target} is not in force; there is {', '.join([START, *steps[1:]])}"
        )
    at = steps.index(target)
    return target, state.taken[at - 1].switch if at else state.start


def rollback_without_ledger(folder: Path, value: str) -> None:
    """Set the switch where the ledger cannot be read; it must be brought back before all else."""
    ours = mark(folder, MIGRATION).is_file()
    if not (ours or ledger.is_switch(folder) or ledger.is_ledger(folder)):
        problem = f"holds neither a switch nor a ledger, nor the mark of {MIGRATION}"
        raise EvidenceError(f"{folder}: {problem}. Name the folder of the migration with --at")
    ledger.write(folder, value, why="rolled back without the ledger, which must be fixed")


def set_again(folder: Path) -> str:
    """Write what the ledger says into the switch file, and give it."""
    with _move(folder, MEND):
        known = ledger.read(folder)
        value = known.state.switch
        ledger.write(folder, value, why=_why(known.state.step or START, known))
        return value


def _why(step: str, made: ledger.Ledger) -> str:
    return f"{step}, entry {len(made.events)} of {ledger.LEDGER_FILE}, {made.head[:12]}"
