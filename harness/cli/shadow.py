"""``harness shadow``: run, watch, replay and report a live comparison."""

from __future__ import annotations

import shlex
import sys
from datetime import datetime
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.cli.app import out
from harness.cli.exit_codes import aside, called
from harness.cli.project import Project, evidence_at, of_run, own
from harness.cli.shadow_proxy import (
    BoundsFile,
    Folders,
    RegisterFile,
    bounds_file,
    suppressions_file,
    today,
)
from harness.core.printable import counted, printable

if TYPE_CHECKING:
    from harness.report.doc import Table as RowTable
    from harness.report.doc import Value
    from harness.report.shadow_words import Shadowed
    from harness.stages.shadow.log import Replayed


def add_accept(group: typer.Typer) -> None:
    """Put ``accept`` into the group."""
    group.command("accept")(accept)


def accept(
    *,
    reason: Annotated[str, typer.Option(help="Why it may be so.")],
    by: Annotated[str, typer.Option(help="Who says it.")],
    until: Annotated[
        datetime, typer.Option(formats=["%Y-%m-%d"], help="The last day, UTC, on which it counts.")
    ],
    kind: Annotated[str, typer.Option("--class", help="A diverging class, as tie_order.")] = "",
    in_slice: Annotated[
        str, typer.Option("--slice", help="Only in this slice; with --class or --query.")
    ] = "",
    query: Annotated[str, typer.Option(help="Only this query: its key, as watch shows it.")] = "",
    suppressions: RegisterFile = None,
) -> None:
    """Accept a class of divergences, or one query, with a reason and until a day.

    What is accepted is still counted and shown, and blocks nothing until the day has passed. The
    entry is added at the end of the suppression list.

    Example: harness shadow accept --class tie_order --reason "ties are broken by id" --by Ada
    --until 2027-03-31
    """
    from harness.agreement import Class
    from harness.core.errors import UnknownName
    from harness.core.names import labelled
    from harness.shadow.divergences import ACCEPTABLE, Accepted
    from harness.stages.shadow.files import accept as write

    if kind and kind not in ACCEPTABLE:
        raise UnknownName("class that can be accepted", kind, sorted(ACCEPTABLE))
    entry = Accepted(
        reason=labelled("a reason", reason),
        by=labelled("who accepts", by),
        until=until.date(),
        kind=Class(kind) if kind else None,
        slice=in_slice,
        query=query,
    )
    path = suppressions_file(suppressions, writes=True)
    write(path, entry, today=today())
    out.print(f"{path}: {entry.about} is accepted until {entry.until}", markup=False)


REPLAY_HOLD = 1
REPLAY_QUERY = 60


def add_replay(group: typer.Typer) -> None:
    """Put ``replay`` into the group."""
    group.command("replay")(replay)


def replay(
    folders: Folders,
    *,
    dataset: Annotated[
        str, typer.Option(help="The data set whose indexes are queried. [that of --run]")
    ] = "",
    control: Annotated[str, typer.Option(help="The arm that serves.")],
    candidate: Annotated[str, typer.Option(help="The arm that wants to.")],
    ran: Annotated[
        Path | None, typer.Option("--run", help="Folder that harness run wrote, with --out.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="At most so many queries, the most frequent first.")
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="Queries that are shown.")] = 20,
    suppressions: RegisterFile = None,
) -> None:
    """Run diverging queries again on both arms: still diverges, fixed, or changed.

    The arms are those of engines/arms as they are now, over the data set's indexes. Exit code 1
    where something still diverges, in the same class or in another, and is not accepted.

    Example: harness shadow replay out/shadow --dataset python-docs --control fts5 --candidate tantivy
    """  # noqa: E501  the example on one line can be copied
    from harness.stages.shadow.files import read_suppressions
    from harness.stages.shadow.log import shadow_replay

    project = Project.here()
    layout = of_run(ran, dataset) if ran else evidence_at(dataset, None)
    accepted = read_suppressions(suppressions_file(suppressions))
    with aside():
        replayed = shadow_replay(
            folders,
            layout,
            control,
            candidate,
            project.cache,
            suppressions=accepted,
            today=today(),
            time_limit_s=project.params.replay.time_limit_s,
            limit=limit,
        )
    _show(replayed, top)
    raise typer.Exit(REPLAY_HOLD if replayed.blocking else 0)


def _show(replayed: Replayed, top: int) -> None:
    from harness.core.printable import one_line
    from harness.shadow import divergences
    from harness.shadow.divergences import Now

    counts = divergences.counted(one for one, _ in replayed.found)
    said = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    out.print(f"{counted(len(replayed.found), 'query')} diverged: {said}.", markup=False)
    moved = sum(one.control_moved for one, _ in replayed.found)
    if moved:
        out.print(
            f"On {moved:,} of them the control itself shows something else than it did: its index"
            " or its settings are not those of the live comparison.",
            markup=False,
        )
    rest = [(one, standing) for one, standing in replayed.found if one.now is not Now.FIXED]
    rest.sort(key=lambda pair: pair[0] not in replayed.blocking)
    table = Table("query", "times", "was", "is", "register", box=None, padding=(0, 2, 0, 0))
    for one, standing in rest[:top]:
        latest = one.question.latest
        cells = (one_line(latest.text, REPLAY_QUERY), f"{one.question.times:,}", latest.outcome)
        table.add_row(*map(escape, cells), one.outcome, standing or "")
    if rest[:top]:
        out.print(table)
    out.print(f"{len(replayed.blocking):,} block the next step.", markup=False)


def add_report(group: typer.Typer) -> None:
    """Put ``report`` into the group."""
    group.command("report")(report)


def report(
    folders: Folders,
    *,
    to: Annotated[Path, typer.Option("--out", help="Folder for index.html and shadow.json.")],
    top: Annotated[int, typer.Option(min=0, help="Queries that are shown side by side.")] = 20,
    bounds: BoundsFile = None,
    suppressions: RegisterFile = None,
) -> None:
    """Write what a live comparison says so far: a page that loads nothing, and JSON.

    Example: harness shadow report out/shadow --out out/shadow-report
    """
    from harness.core.folders import SHADOW_REPORT
    from harness.report.shadow_words import headline
    from harness.stages.shadow.log import shadow_report

    watched, accepted = bounds_file(bounds), suppressions_file(suppressions)
    own(to, SHADOW_REPORT, *folders, watched, accepted)
    written = shadow_report(
        folders,
        to,
        bounds=watched,
        suppressions=accepted,
        today=today(),
        top=top,
        commands=(f"{called()} {shlex.join(sys.argv[1:])}",),
    )
    out.print(headline(written.found), markup=False)
    out.print(f"The page: {written.page}", markup=False)


WATCH_QUERY = 50
"""Characters of a query."""
STYLES = {
    "RAISED": "bold red",
    "open": "yellow",
    "expired": "yellow",
    "accepted": "green",
    "quiet": "green",
    "early": "dim",
    "failed": "red",
}
PLAIN_WIDTH = 120
"""Columns of an output that is not a terminal."""
WATCH_HOLD, INCONCLUSIVE = 1, 3


def add_watch(group: typer.Typer) -> None:
    """Put ``watch`` into the group."""
    group.command("watch")(watch)


def watch(
    folders: Folders,
    *,
    once: Annotated[bool, typer.Option("--once", help="Print it once, and stop.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between looks.")] = 2.0,
    top: Annotated[int, typer.Option(min=0, help="Diverging queries that are shown.")] = 10,
    bounds: BoundsFile = None,
    suppressions: RegisterFile = None,
    exit_code: Annotated[
        bool,
        typer.Option(help="With --once: exit 1 by an alarm or what is not accepted, 3 if early."),
    ] = False,
) -> None:
    """Show what a live comparison says so far: estimates, alarms, and the queries that diverge.

    It may be looked at as often as one likes: every interval is a confidence sequence. Where the
    output is not a terminal, it is printed once. Only what is new in the log is read at each look.

    Example: harness shadow watch out/shadow --once
    """
    from rich.live import Live

    from harness.stages.shadow.log import Look

    look = Look(folders, bounds_file(bounds), suppressions_file(suppressions))
    shown = console()
    if once or not shown.is_terminal:
        found = look.now(today())
        shown.print(screen(found, top=top))
        raise typer.Exit(code(found) if exit_code else 0)
    try:
        with Live(console=shown, auto_refresh=False, vertical_overflow="crop") as live:
            while True:
                live.update(screen(look.now(today()), top=top), refresh=True)
                sleep(every)
    except KeyboardInterrupt:
        raise typer.Exit from None


def code(shadowed: Shadowed) -> int:
    """Say by which code a look ends."""
    if shadowed.raised or shadowed.judged.blocking:
        return WATCH_HOLD
    return INCONCLUSIVE if shadowed.early else 0


def console() -> Console:
    """Give a console as wide as the terminal, or of ``PLAIN_WIDTH`` without one."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=PLAIN_WIDTH)


def screen(shadowed: Shadowed, *, top: int) -> RenderableType:
    """Draw how things stand; ``top`` is the number of diverging queries shown."""
    from harness.report import shadow_words
    from harness.report.shadow_words import troubles

    summary = shadowed.summary
    bad = shadowed.raised or shadowed.judged.blocking
    first = Text(shadow_words.headline(shadowed), style="bold yellow" if bad else "bold green")
    if shadowed.raised:
        first.stylize("bold red")
    tables = [
        (shadow_words.tally(summary), True),
        (shadow_words.estimates(summary), True),
        (shadow_words.alarms(shadowed), False),
        (shadow_words.classes(summary, by_slice=False), True),
        (shadow_words.divergences(shadowed, top, text=WATCH_QUERY), True),
    ]
    if (wrong := troubles(summary)).rows:
        tables.append((wrong, True))
    parts: list[RenderableType] = [first, Text(shadow_words.span(summary), style="dim")]
    parts += [Padding(_drawn(table, notes=notes), (1, 0, 0, 0)) for table, notes in tables]
    return Group(*parts)


def _drawn(table: RowTable, *, notes: bool) -> Table:
    """Draw a table; where ``notes`` is set, what stands beside a row's name gets its own line."""
    drawn = Table(
        *(escape(name) for name in table.header),
        title=escape(table.caption),
        title_style="bold",
        title_justify="left",
        header_style="dim",
        box=None,
        padding=(0, 2, 0, 0),
    )
    for row in table.rows:
        drawn.add_row(_name(row[0], notes=notes), *map(_cell, row[1:]))
    if not table.rows:
        drawn.add_row(Text("none", style="dim"))
    return drawn


def _name(cell: Value, *, notes: bool) -> Text:
    text = Text(printable(cell.text))
    return text.append(f"\n{printable(cell.note)}", style="dim") if cell.note and notes else text


def _cell(cell: Value) -> Text:
    text = Text(printable(cell.text), style=STYLES.get(cell.text, ""))
    return text.append(f"  {printable(cell.note)}", style="dim") if cell.note else text


HELP = "Mirror queries to a candidate; watch the log, replay divergences, report and accept them."


def register(app: typer.Typer) -> None:
    """Put the group ``shadow`` on the command line."""
    from harness.cli.shadow_proxy import add_mcp, add_receive, add_run

    group = typer.Typer(no_args_is_help=True, help=HELP)
    for add in (
        add_run,
        add_receive,
        add_mcp,
        add_watch,
        add_replay,
        add_report,
        add_accept,
    ):
        add(group)
    app.add_typer(group, name="shadow")
