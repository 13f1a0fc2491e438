"""``harness migrate``: the step in force, the way forth and back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import options
from harness.cli.command import Result, command, group, said
from harness.cli.project import Project, by, now, own
from harness.core.errors import HarnessError
from harness.core.printable import many

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date, datetime

    from harness.migrate.ledger import Move
    from harness.migrate.standing import CurrentDecision, MigrationDay, Observed
    from harness.policy.model import Policy


FOLDER = "migration"


def folder_of(at: Path | None) -> Path:
    """Folder of ledger and switch."""
    return at or Project.own().root / FOLDER


@dataclass(frozen=True, slots=True)
class Followed(options.EvidencePlace):
    """A migration, its policy, and the evidence at hand."""

    at: options.At = None
    policy: options.PolicyFile = None

    def read(self) -> tuple[Path, Policy, CurrentDecision]:
        """Read policy and decision, and count every digest below that again; with the folder."""
        from harness.migrate.ledger import evidence
        from harness.pipeline.verify import verify_with_files

        folder, (judged_by, file) = folder_of(self.at), options.policy_of(self.policy)
        layout, root = self.layout(), Project.here().root
        held = partial(verify_with_files, layout, self.source, root)
        return folder, judged_by, evidence(layout, file, held)


REFUSED, OPEN = 1, 3
migrate = group(
    "migrate",
    "The state of a migration: a ledger that only grows, and the kill switch of the service. Steps"
    " are taken by decisions; the way back is always open, and is drilled.",
)


@command(migrate)
def begin(
    serving: Annotated[str, typer.Option(help="Value of SEARCH_ENGINE for the old engine.")],
    at: options.At = None,
    policy: options.PolicyFile = None,
) -> Result:
    """Begin a migration: write its ledger, and the switch that leaves the old engine in place.

    Example: harness migrate begin --policy policy/mail.toml --serving fts5
    """
    from harness.core.folders import MIGRATION
    from harness.migrate import ledger
    from harness.migrate.ledger import SWITCH_FILE

    folder, (judged_by, file) = folder_of(at), options.policy_of(policy)
    ledger.check_switches(judged_by)
    own(folder, MIGRATION, file, known=ledger.is_ledger)
    done = ledger.begin(folder, judged_by, serving, now=now(), by=by())
    return said(*_resumed(done), f"begun; the service reads {folder / SWITCH_FILE}")


@command(migrate)
def observe(
    of: Followed,
    shadow: Annotated[
        list[Path] | None,
        typer.Option(help="A folder of shadow streams of the next step's arms. May be repeated."),
    ] = None,
) -> Result:
    """Record the present decision, and the days on which the next step's arms were compared.

    Run it after new evidence: days of shadow are counted from these records.

    Example: harness migrate observe --policy policy/mail.toml --dataset agent-mail --shadow shadow
    """
    from harness.migrate import ledger
    from harness.migrate.ledger import live, read, streamed

    folder, judged_by, found = of.read()
    step = read(folder).state.next_of(judged_by)
    days = streamed(live(shadow or ()), step) if step else ()
    noted = ledger.observe(folder, found, days, now=now(), by=by())
    return said("nothing new") if noted is None else said(*_noted(noted))


@command(migrate)
def status(of: Followed) -> Result:
    """Print which step is in force, since when, what it rests on, and what is to be done.

    Nothing is written. Exit codes: 0 nothing is wrong, 1 a step must be rolled back, 2 bad input,
    3 the switch is not what the ledger says, or evidence expired.

    Example: harness migrate status --policy policy/mail.toml --dataset agent-mail
    """
    from harness.migrate import ledger
    from harness.migrate.standing import Action

    folder, judged_by, decision = of.read()
    found = ledger.look(folder, judged_by, decision, now=now())
    actions = {ask.action for ask in found.asks}
    code = OPEN if actions & {Action.SWITCH, Action.MEASURE} else 0
    code = REFUSED if Action.ROLLBACK in actions else code
    return Result(said(*_standing(found, judged_by)).doc, code, status_json(found))


@command(migrate)
def advance(
    of: Followed,
    *,
    override: Annotated[
        bool, typer.Option("--override", help="Take the step against the rules; always shown.")
    ] = False,
    reason: options.Reason = "",
) -> Result:
    """Take the next step, if a fresh, verified and complete decision says PROMOTE.

    The decision is derived again from its raw evidence (harness verify); the days of shadow must
    be there, and the rollback of the step in force be drilled. Exit codes: 0 taken, 1 refused,
    2 bad input.

    Example: harness migrate advance --policy policy/mail.toml --dataset agent-mail
    """
    from harness.migrate import ledger
    from harness.migrate.standing import standing

    if override != bool(reason.strip()):
        raise HarnessError("--override asks for --reason, and --reason is only for --override")
    folder, judged_by, found = of.read()
    before = ledger.look(folder, judged_by, found, now=now())
    done = ledger.advance(folder, judged_by, found, now=now(), by=by(), reason=reason.strip())
    if not done.hindrances:
        there = standing(done.state, judged_by, found, now=now())
        return said(*_resumed(done), *_standing(there, judged_by))
    step = before.next.name if before.next else ""
    refused = f"REFUSED {step} was not taken; nothing was changed"
    return Result(said(refused, *(_row("", line) for line in done.hindrances)).doc, REFUSED)


@command(migrate)
def rollback(
    at: options.At = None,
    step: options.Step = "",
    reason: options.Reason = "by hand",
) -> Result:
    """Go back one step, or to the one that --step names (or start), at once, without evidence.

    With --step of the step in force, the switch is set again to what the ledger says.

    Example: harness migrate rollback --reason "names are not found"
    """
    from harness.migrate import ledger

    done = ledger.rollback(folder_of(at), to=step, reason=reason, now=now(), by=by())
    back = f"back to {done.state.step or 'start'}: SEARCH_ENGINE={done.state.switch}"
    return said(*_resumed(done), back)


@command(migrate)
def drill(
    arm: options.ArmName,
    of: options.EvidencePlace,
    at: options.At = None,
    url: Annotated[
        str, typer.Option(help="A mail-server that reads the switch. [the arm, opened here]")
    ] = "",
    *,
    questions: Annotated[int, typer.Option(min=1, help="Queries a side.")] = 50,
    patience_s: Annotated[
        float, typer.Option(min=0, help="How long the service may take to follow the switch.")
    ] = 10.0,
) -> Result:
    """Switch back, prove that the old engine answers, switch forward, prove it again.

    Each answer must carry the fingerprint of the expected engine. A drill that fails leaves the
    old engine in place. Exit codes: 0 proven, 1 failed, 2 bad input.

    Example: harness migrate drill --dataset agent-mail --arm mail-tantivy
    """
    from time import perf_counter_ns, sleep

    from harness.corpus.prepared import Prepared
    from harness.migrate.drill import DrillClock, opened
    from harness.migrate.drill import drill as walk

    project = Project.here()
    folder = folder_of(at)
    layout = of.layout()
    asked = [query.text for query in Prepared.open(layout.data).queries() if query.text.strip()]
    clock = DrillClock(now, perf_counter_ns, lambda: sleep(0.05))
    serving = opened(layout, arm, project.cache, folder, url=url, timeout_s=max(1.0, patience_s))
    with serving as service:
        event = walk(
            folder,
            service,
            asked[:questions],
            by=by(),
            clock=clock,
            patience_ns=int(patience_s * 1e9),
        )
    back, forth = event.back_ns / NS_PER_MS, event.forth_ns / NS_PER_MS
    proven = f"  back in {back:.1f} ms, forth in {forth:.1f} ms, to the first own answer"
    failed = f"  SEARCH_ENGINE={event.old}: {event.step} is taken back"
    if event.passed:
        return said(f"PROVEN {event.said}", proven)
    return Result(said(f"FAILED {event.said}", failed).doc, REFUSED)


@command(migrate)
def interleave(
    arms: options.Arms,
    reason: options.Reason,
    at: options.At = None,
) -> Result:
    """Allow users to see lists mixed from several engines, or end it with --arms none.

    The arm that serves comes first. A service that interleaves reads the ledger at each query. A
    step that is taken or taken back ends it too.

    Example: harness migrate interleave --arms fts5,tantivy --reason "two weeks of clicks"
    """
    from harness.core.names import checked
    from harness.migrate.ledger import interleave as move

    named = tuple(checked("an arm", one) for one in options.listed(arms))
    chosen = () if named == ("none",) else named
    state = move(folder_of(at), chosen, reason=reason.strip() or "by hand", now=now(), by=by())
    if state.interleaved:
        return said(f"on: users see lists of {', '.join(state.interleaved.arms)}")
    return said("off: users see the list of the engine that serves")


NS_PER_MS = 1e6
PREFIX = 12


def _standing(standing: MigrationDay, policy: Policy) -> Iterator[str]:
    """Yield what is in force, what it rests on, and what is to be done."""
    state = standing.state
    yield f"\n{state.policy}"
    step = state.step or "nothing is taken"
    yield _row("in force", f"{step} since {_when(state.since)}; SEARCH_ENGINE={state.switch}")
    if state.taken:
        rests_on, age, said = state.taken[-1].decision, standing.evidence_age, "no decision"
        if rests_on and age is not None:
            said = (
                f"decision {rests_on.sha256[:PREFIX]} of {_when(rests_on.decided_at)};"
                f" evidence {many(age.days, 'day')} old, good for {policy.evidence_days}"
            )
        yield _row("rests on", said)
        drilled = state.taken[-1].drilled_at
        yield _row("drilled", _when(drilled) if drilled else "never since it was taken")
    if state.interleaved:
        since = f"since {_when(state.interleaved.at)}: {state.interleaved.reason}"
        yield _row("interleaved", f"{', '.join(state.interleaved.arms)} {since}")
    if standing.next:
        asked = standing.next.shadow_days
        days = f"; {standing.shadow_days} of {asked} days of shadow" if asked else ""
        arms = f"{standing.next.control} -> {standing.next.candidate}"
        yield _row("next", f"{standing.next.name} ({arms}){days}")
    for line in standing.hindrances:
        yield _row("", f"in its way: {line}")
    for ask in standing.asks:
        yield _row(ask.action.upper(), f"{f'to {ask.to}: ' if ask.to else ''}{ask.why}")
    for one in state.overrides:
        yield _row("OVERRIDDEN", f"{one.step} on {_when(one.at)} by {one.by}: {one.reason}")
        yield from (_row("", f"set aside: {line}") for line in one.overridden)


def _resumed(done: Move) -> Iterator[str]:
    """Yield that a move was completed that had been cut off."""
    if done.resumed:
        step = done.state.step or "no step"
        yield f"completed: a move that was cut off ({done.resumed}); {step} is in force"


def _noted(event: Observed) -> Iterator[str]:
    """Yield what was noted: the decision, and the days on which each pair of arms was compared."""
    decision = event.decision.sha256[:PREFIX] if event.decision else "none that is new"
    yield f"noted: decision {decision}"
    days: dict[str, set[date]] = {}
    for one in event.days:
        days.setdefault(f"{one.control} -> {one.candidate}", set()).add(one.day)
    for pair, on in days.items():
        shown = ", ".join(str(day) for day in sorted(on))
        yield _row("", f"{pair}: {len(on)} day{'s' if len(on) > 1 else ''} of comparison ({shown})")


def status_json(standing: MigrationDay) -> dict[str, Any]:
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


def _row(what: str, text: str) -> str:
    return f"  {what:<10} {text}"


def _when(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M")
