"""``harness shadow watch``: how a live comparison stands, on the terminal, while it goes on."""

from __future__ import annotations

from time import sleep
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table as Drawn
from rich.text import Text

from harness.cli.shadow.options import (
    BoundsFile,
    Folders,
    RegisterFile,
    bounds_file,
    suppressions_file,
    today,
)
from harness.core.printable import printable

if TYPE_CHECKING:
    from harness.report.rows import Cell, Table
    from harness.report.shadow.words import Shadowed

QUERY = 50
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
HOLD, INCONCLUSIVE = 1, 3


def add(group: typer.Typer) -> None:
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

    from harness.stages.shadow.look import Look

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
        return HOLD
    return INCONCLUSIVE if shadowed.early else 0


def console() -> Console:
    """Give a console as wide as the terminal, or of ``PLAIN_WIDTH`` without one."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=PLAIN_WIDTH)


def screen(shadowed: Shadowed, *, top: int) -> RenderableType:
    """Draw how things stand; ``top`` is the number of diverging queries shown."""
    from harness.report.shadow import words
    from harness.report.shadow.troubles import troubles

    summary = shadowed.summary
    bad = shadowed.raised or shadowed.judged.blocking
    first = Text(words.headline(shadowed), style="bold yellow" if bad else "bold green")
    if shadowed.raised:
        first.stylize("bold red")
    tables = [
        (words.tally(summary), True),
        (words.estimates(summary), True),
        (words.alarms(shadowed), False),
        (words.classes(summary, by_slice=False), True),
        (words.divergences(shadowed, top, text=QUERY), True),
    ]
    if (wrong := troubles(summary)).rows:
        tables.append((wrong, True))
    parts: list[RenderableType] = [first, Text(words.span(summary), style="dim")]
    parts += [Padding(_drawn(table, notes=notes), (1, 0, 0, 0)) for table, notes in tables]
    return Group(*parts)


def _drawn(table: Table, *, notes: bool) -> Drawn:
    """Draw a table; where ``notes`` is set, what stands beside a row's name gets its own line."""
    drawn = Drawn(
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


def _name(cell: Cell, *, notes: bool) -> Text:
    text = Text(printable(cell.text))
    return text.append(f"\n{printable(cell.note)}", style="dim") if cell.note and notes else text


def _cell(cell: Cell) -> Text:
    text = Text(printable(cell.text), style=STYLES.get(cell.text, ""))
    return text.append(f"  {printable(cell.note)}", style="dim") if cell.note else text
