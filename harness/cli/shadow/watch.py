"""``harness shadow watch``: how a live comparison stands, on the terminal, while it goes on."""

from __future__ import annotations

from time import sleep
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.shadow.options import (
    BoundsFile,
    Folders,
    RegisterFile,
    bounds_file,
    suppressions_file,
    today,
)

if TYPE_CHECKING:
    from harness.report.shadow.words import Shadowed

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

    from harness.cli.shadow.screen import console, screen
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
