"""``harness migrate``: which step is in force, what it rests on, and the way forth and back."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.base.app import out
from harness.cli.base.places import Left, evidence_at, own
from harness.cli.base.project import Project
from harness.cli.migrate.options import by, evidence_of, folder_of, now, policy_of

if TYPE_CHECKING:
    from harness.policy.migration.state import State

At = Annotated[
    Path | None, typer.Option("--at", help="Folder of ledger and switch. [default: migration]")
]
Judged = Annotated[
    Path | None, typer.Option("--policy", help="What it follows. [the policy of params.yaml]")
]
Data = Annotated[
    str, typer.Option("--dataset", help="Whose decision; the one of params.yaml if not named.")
]
Reason = Annotated[str, typer.Option(help="Why; it is kept in the ledger.")]
REFUSED, OPEN = 1, 3


def register(app: typer.Typer) -> None:
    """Put ``migrate`` on the command line."""
    group = typer.Typer(
        no_args_is_help=True,
        help="The state of a migration: a ledger that only grows, and the kill switch of the"
        " service. Steps are taken by decisions; the way back is always open, and is drilled.",
    )
    for command in (begin, observe, status, advance, rollback, drill, mend, interleave):
        group.command()(command)
    app.add_typer(group, name="migrate")


def begin(
    serving: Annotated[str, typer.Option(help="Value of SEARCH_ENGINE for the old engine.")],
    at: At = None,
    policy: Judged = None,
) -> None:
    """Begin a migration: write its ledger, and the switch that leaves the old engine in place.

    Example: harness migrate begin --policy policy/mail.toml --serving fts5
    """
    from harness.cli.migrate import show as migrate_shown
    from harness.core.durable.owned import MIGRATION
    from harness.stages.migrate import ledger, moves
    from harness.stages.migrate.switch import FILE

    folder, (judged_by, file) = folder_of(at), policy_of(policy)
    moves.check_switches(judged_by)
    own(folder, MIGRATION, file, known=ledger.is_ledger)
    told = partial(migrate_shown.begun, folder / FILE)
    moves.begin(folder, judged_by, serving, now=now(), by=by(), told=told)


def observe(
    at: At = None,
    policy: Judged = None,
    dataset: Data = "",
    left: Left = None,
    shadow: Annotated[
        list[Path] | None,
        typer.Option(help="A folder of shadow streams of the next step's arms. May come again."),
    ] = None,
) -> None:
    """Note the decision that is there, and the days on which the next step's arms were compared.

    Run it whenever evidence was made: days of shadow are counted from what was noted.

    Example: harness migrate observe --policy policy/mail.toml --dataset agent-mail --shadow shadow
    """
    from harness.cli.migrate import show as migrate_shown
    from harness.stages.migrate import moves
    from harness.stages.migrate.evidence import live, streamed
    from harness.stages.migrate.ledger import read

    folder, (judged_by, file) = folder_of(at), policy_of(policy)
    step = read(folder).state.next_of(judged_by)
    days = streamed(live(shadow or ()), step) if step else ()
    noted = moves.observe(folder, evidence_of(file, dataset, left), days, now=now(), by=by())
    if noted is None:
        out.print("nothing new")
        return
    migrate_shown.noted(noted)


def status(
    at: At = None,
    policy: Judged = None,
    dataset: Data = "",
    left: Left = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Say which step is in force, since when, what it rests on, and what is to be done.

    Nothing is written. Exit codes: 0 nothing is wrong, 1 a step must be rolled back, 2 bad input,
    3 the switch is not what the ledger says, or evidence expired.

    Example: harness migrate status --policy policy/mail.toml --dataset agent-mail
    """
    from harness.cli.migrate import show as migrate_shown
    from harness.policy.migration.status import Action
    from harness.stages.migrate import moves

    folder, (judged_by, file) = folder_of(at), policy_of(policy)
    found = moves.look(folder, judged_by, evidence_of(file, dataset, left), now=now())
    if as_json:
        out.json(migrate_shown.as_json(found))
    else:
        migrate_shown.show(found, judged_by)
    actions = {ask.action for ask in found.asks}
    if Action.ROLLBACK in actions:
        raise typer.Exit(REFUSED)
    raise typer.Exit(OPEN if actions & {Action.MEND, Action.MEASURE} else 0)


def advance(
    at: At = None,
    policy: Judged = None,
    dataset: Data = "",
    left: Left = None,
    *,
    override: Annotated[
        bool, typer.Option("--override", help="Take the step against the rules; for ever shown.")
    ] = False,
    reason: Reason = "",
) -> None:
    """Take the next step, if a decision that is fresh, right and whole says PROMOTE.

    The decision is derived again from its raw evidence (harness verify); the days of shadow must
    be there, and the rollback of the step in force be drilled. Exit codes: 0 taken, 1 refused,
    2 bad input.

    Example: harness migrate advance --policy policy/mail.toml --dataset agent-mail
    """
    from harness.cli.migrate import show as migrate_shown
    from harness.core.errors import HarnessError
    from harness.policy.migration.status import standing
    from harness.stages.migrate import moves

    if override != bool(reason.strip()):
        raise HarnessError("--override asks for --reason, and --reason is only for --override")
    folder, (judged_by, file) = folder_of(at), policy_of(policy)
    found = evidence_of(file, dataset, left)
    before = moves.look(folder, judged_by, found, now=now())

    def told(resumed: str, state: State) -> None:
        migrate_shown.resumed(resumed, state)
        migrate_shown.show(standing(state, judged_by, found, now=now()), judged_by)

    stands = moves.advance(
        folder, judged_by, found, now=now(), by=by(), reason=reason.strip(), told=told
    )
    if stands:
        migrate_shown.refused(stands, before.next.name if before.next else "")
        raise typer.Exit(REFUSED)


def rollback(
    at: At = None,
    to: Annotated[str, typer.Option(help="Step to go back to, or start. [one back]")] = "",
    reason: Reason = "by hand",
    without_ledger: Annotated[
        str, typer.Option(help="Only set the switch to this value: where the ledger is torn.")
    ] = "",
) -> None:
    """Go back one step, or to a named one, at once, without evidence.

    Example: harness migrate rollback --reason "names are not found"
    """
    from harness.cli.migrate import show as migrate_shown
    from harness.stages.migrate import moves

    folder = folder_of(at)
    if without_ledger:
        moves.rollback_without_ledger(folder, without_ledger)
        out.print(f"SEARCH_ENGINE={without_ledger}; the ledger must be fixed", markup=False)
        return
    told = migrate_shown.rolled_back
    moves.rollback(folder, to=to, reason=reason, now=now(), by=by(), told=told)


def mend(at: At = None) -> None:
    """Write into the switch what the ledger says, where the two differ."""
    from harness.stages.migrate import moves

    value = moves.set_again(folder_of(at))
    out.print(f"SEARCH_ENGINE={value}", markup=False)


def drill(
    arm: Annotated[str, typer.Option(help="The arm of message search that serves.")],
    at: At = None,
    dataset: Data = "",
    left: Left = None,
    url: Annotated[
        str, typer.Option(help="A running mail-server that reads the switch; else one in here.")
    ] = "",
    *,
    questions: Annotated[int, typer.Option(min=1, help="Queries a side.")] = 50,
    patience_s: Annotated[
        float, typer.Option(min=0, help="How long the service may take to follow the switch.")
    ] = 10.0,
) -> None:
    """Switch back, prove that the old engine answers, switch forth, prove it again.

    Each answer must carry the fingerprint of who is meant to answer. A drill that fails leaves the
    old engine in place. Exit codes: 0 proven, 1 failed, 2 bad input.

    Example: harness migrate drill --dataset agent-mail --arm mail-tantivy
    """
    from time import perf_counter_ns, sleep

    from harness.cli.migrate import show as migrate_shown
    from harness.corpus.prepared import Prepared
    from harness.stages.migrate.drill import Clock
    from harness.stages.migrate.drill import drill as walk
    from harness.stages.migrate.service import opened

    project = Project.here()
    folder = folder_of(at)
    layout = evidence_at(dataset, left)
    asked = [query.text for query in Prepared.open(layout.data).queries() if query.text.strip()]
    clock = Clock(now, perf_counter_ns, lambda: sleep(0.05))
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
    migrate_shown.drilled(event)
    raise typer.Exit(0 if event.passed else REFUSED)


def interleave(
    arms: Annotated[
        str, typer.Option(help="Arms with commas between, the one that serves first; none ends it.")
    ],
    reason: Annotated[str, typer.Option(help="Why; it is kept in the ledger.")],
    at: Annotated[
        Path | None, typer.Option("--at", help="Folder of the ledger. [default: migration]")
    ] = None,
) -> None:
    """Let users see lists that are mixed from several engines, or end it with --arms none.

    A service that interleaves reads the ledger at each query. A step that is taken or taken back
    ends it too.

    Example: harness migrate interleave --arms fts5,tantivy --reason "two weeks of clicks"
    """
    from harness.core.names import checked
    from harness.stages.migrate.interleave import interleave as move

    named = tuple(checked("an arm", one.strip()) for one in arms.split(","))
    chosen = () if named == ("none",) else named
    state = move(folder_of(at), chosen, reason=reason.strip() or "by hand", now=now(), by=by())
    if state.interleaved:
        out.print(f"on: users see lists of {', '.join(state.interleaved.arms)}", markup=False)
    else:
        out.print("off: users see the list of the engine that serves", markup=False)
