"""Where a migration stands, on a terminal and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape

from harness.cli.base.app import out
from harness.core.printable import many

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime, timedelta
    from pathlib import Path

    from harness.policy.migration.events import Drilled, Observed
    from harness.policy.migration.state import State
    from harness.policy.migration.status import Standing
    from harness.policy.model import Policy

COLOURS = {"rollback": "red", "mend": "red", "measure": "yellow", "drill": "yellow"}
NS_PER_MS = 1e6
PREFIX = 12


def show(standing: Standing, policy: Policy) -> None:
    """Print what is in force, what it rests on, and what is to be done."""
    state = standing.state
    out.print(f"\n[bold]{escape(state.policy)}[/bold]")
    step = state.step or "nothing is taken"
    _row("in force", f"{step} since {_when(state.since)}; SEARCH_ENGINE={state.switch}")
    if state.taken:
        _row("rests on", _rests_on(standing, policy))
        drilled = state.taken[-1].drilled_at
        _row("drilled", _when(drilled) if drilled else "never since it was taken")
    if state.interleaved:
        since = f"since {_when(state.interleaved.at)}: {state.interleaved.reason}"
        _row("interleaved", f"{', '.join(state.interleaved.arms)} {since}")
    if standing.next:
        asked = standing.next.shadow_days
        days = f"; {standing.shadow_days} of {asked} days of shadow" if asked else ""
        arms = f"{standing.next.control} -> {standing.next.candidate}"
        _row("next", f"{standing.next.name} ({arms}){days}")
    for line in standing.hindrances:
        _row("", f"in its way: {line}")
    for ask in standing.asks:
        word = f"[{COLOURS.get(ask.action, 'green')}]{ask.action.upper():<10}[/]"
        out.print(f"  {word} {escape(f'to {ask.to}: ' if ask.to else '')}{escape(ask.why)}")
    _overrides(state)


def refused(hindrances: Sequence[str], step: str) -> None:
    """Print why a step was not taken."""
    out.print(f"[red]REFUSED[/] {escape(step)} was not taken; nothing was changed")
    for line in hindrances:
        _row("", line)


def begun(switch: Path, move: str, state: State) -> None:
    """Print that a migration began, and what the service is to read."""
    resumed(move, state)
    out.print(f"begun; the service reads {switch}", markup=False)


def rolled_back(move: str, state: State) -> None:
    """Print which step is in force again."""
    resumed(move, state)
    out.print(f"back to {state.step or 'start'}: SEARCH_ENGINE={state.switch}", markup=False)


def resumed(move: str, state: State) -> None:
    """Print that a move was completed that had been cut off."""
    if move:
        step = state.step or "no step"
        out.print(f"completed: a move that was cut off ({move}); {step} is in force", markup=False)


def noted(event: Observed) -> None:
    """Print what was noted: the decision, and the days on which each pair of arms was compared.

    A day on which a pair was compared in two ways, or is noted again because more was compared on
    it, is one day.
    """
    decision = event.decision.sha256[:PREFIX] if event.decision else "none that is new"
    out.print(f"noted: decision {decision}")
    days: dict[str, set[date]] = {}
    for one in event.days:
        days.setdefault(f"{one.control} -> {one.candidate}", set()).add(one.day)
    for pair, on in days.items():
        shown = ", ".join(str(day) for day in sorted(on))
        _row("", f"{pair}: {len(on)} day{'s' if len(on) > 1 else ''} of comparison ({shown})")


def drilled(event: Drilled) -> None:
    """Print how a drill went."""
    word = "[green]PROVEN[/]" if event.passed else "[red]FAILED[/]"
    out.print(f"{word} {escape(event.said)}")
    if event.passed:
        back, forth = event.back_ns / NS_PER_MS, event.forth_ns / NS_PER_MS
        out.print(f"  back in {back:.1f} ms, forth in {forth:.1f} ms, to the first own answer")
    else:
        out.print(f"  SEARCH_ENGINE={escape(event.old)}: {escape(event.step)} is taken back")


def as_json(standing: Standing) -> dict[str, Any]:
    """Write the same for machines; times in ISO 8601, ages in seconds."""
    state = standing.state
    rests_on = state.taken[-1].decision if state.taken else None
    drilled_at = state.taken[-1].drilled_at if state.taken else None
    age = standing.evidence_age
    return {
        "policy": state.policy,
        "step": state.step,
        "taken": [one.step for one in state.taken],
        "since": state.since.isoformat(),
        "switch": state.switch,
        "decision": rests_on.model_dump(mode="json") if rests_on else None,
        "evidence_age_s": age.total_seconds() if age is not None else None,
        "drilled_at": drilled_at.isoformat() if drilled_at else None,
        "next": standing.next.name if standing.next else None,
        "shadow_days": standing.shadow_days,
        "shadow_days_wanted": standing.next.shadow_days if standing.next else 0,
        "hindrances": list(standing.hindrances),
        "asks": [{"action": one.action, "to": one.to, "why": one.why} for one in standing.asks],
        "overrides": [one.model_dump(mode="json") for one in state.overrides],
    }


def _rests_on(standing: Standing, policy: Policy) -> str:
    rests_on, age = standing.state.taken[-1].decision, standing.evidence_age
    if rests_on is None or age is None:
        return "no decision"
    return (
        f"decision {rests_on.sha256[:PREFIX]} of {_when(rests_on.decided_at)};"
        f" evidence {_days(age)} old, good for {policy.evidence_days}"
    )


def _overrides(state: State) -> None:
    for one in state.overrides:
        _row("OVERRIDDEN", f"{one.step} on {_when(one.at)} by {one.by}: {one.reason}")
        for line in one.overridden:
            _row("", f"set aside: {line}")


def _row(what: str, said: str) -> None:
    out.print(f"  {what:<10} {escape(said)}")


def _when(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M")


def _days(age: timedelta) -> str:
    return many(age.days, "day")
