"""``harness clicks``: what a log of interleaved lists says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.base.app import out
from harness.cli.base.project import Project
from harness.core.printable import counted

if TYPE_CHECKING:
    from harness.shadow.clicks.users import Preferences

Log = Annotated[Path, typer.Argument(help="Folder of the log of an Interleaver.")]


def register(app: typer.Typer) -> None:
    """Put the group ``clicks`` on the command line."""
    group = typer.Typer(
        no_args_is_help=True, help="Which engine users prefer by their clicks on mixed lists."
    )
    group.command()(report)
    app.add_typer(group, name="clicks")


def report(log: Log) -> None:
    """Say which engine users prefer, with an interval that may be read at any time.

    A click counts for the engine that added the document. A user prefers the engine with more
    clicks over all lists, and counts once. Users who click as robots do are left out and counted.
    With several candidates the intervals are corrected. The confidence is that of params.yaml.

    Example: harness clicks report out/clicks
    """
    from harness.shadow.clicks.log import read
    from harness.shadow.clicks.users import preferences

    confidence = Project.here().params.score.confidence
    _show(preferences(read(log), confidence=confidence))


def _show(found: Preferences) -> None:
    out.print(
        f"{counted(found.users, 'user')} saw {counted(found.lists, 'mixed list')} and clicked"
        f" {counted(found.clicks, 'document')}",
        markup=False,
    )
    for arm, one in found.candidates.items():
        of = one.estimate
        verdict = (
            f"{arm} is preferred" if of.low > 0
            else f"{found.control} is preferred" if of.high < 0
            else "open: the interval holds no preference"
        )  # fmt: skip
        out.print(
            f"{arm} against {found.control}: {of.value:+.3f} [{of.low:+.3f}, {of.high:+.3f}]"
            f" of users ({one.wins:,} to {one.losses:,}, {one.ties:,} ties): {verdict}",
            markup=False,
        )
    if found.failed:
        out.print(
            f"{counted(found.failed, 'list was')} the control's own, because an arm failed: they"
            " count for no arm, and a candidate that fails on hard queries looks better than it"
            " is",
            markup=False,
        )
    for count, counts, why in (
        *((many, "user is", f"left out as robots: {why}") for why, many in found.robots.items()),
        (found.anonymous, "list is", "left out: its user is unknown"),
        (found.unmixed, "list was", "shown while mixing was off"),
        (found.strays, "click is", "on no list or document of the log"),
    ):
        if count:
            out.print(f"{counted(count, counts)} {why}", markup=False)
