"""``harness clicks``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.command import Result, command, group, said
from harness.cli.project import Project
from harness.core.printable import counted

if TYPE_CHECKING:
    from harness.clicks.credit import Preferences

clicks = group("clicks", "Which engine users prefer by their clicks on mixed lists.")


@command(clicks)
def report(
    log: Annotated[Path, typer.Argument(help="Folder of the log of an Interleaver.")],
) -> Result:
    """Report which engine users prefer, with an interval that may be read at any time.

    A click counts for the engine that added the document. A user prefers the engine with more
    clicks over all lists, and counts once. Users who click as robots do are left out and counted.
    With several candidates the intervals are corrected. The confidence is that of params.yaml.

    Example: harness clicks report out/clicks
    """
    from harness.clicks.credit import preferences, read

    confidence = Project.here().params.score.confidence
    return said(*_preferred(preferences(read(log), confidence=confidence)))


def _preferred(found: Preferences) -> Iterator[str]:
    yield (
        f"{counted(found.users, 'user')} saw {counted(found.lists, 'mixed list')} and clicked"
        f" {counted(found.clicks, 'document')}"
    )
    for arm, one in found.candidates.items():
        of = one.estimate
        verdict = (
            f"{arm} is preferred" if of.low > 0
            else f"{found.control} is preferred" if of.high < 0
            else "open: the interval holds no preference"
        )  # fmt: skip
        yield (
            f"{arm} against {found.control}: {of.value:+.3f} [{of.low:+.3f}, {of.high:+.3f}]"
            f" of users ({one.wins:,} to {one.losses:,}, {one.ties:,} ties): {verdict}"
        )
    if found.failed:
        yield (
            f"{counted(found.failed, 'list was')} the control's own, because an arm failed: they"
            " count for no arm, and a candidate that fails on hard queries looks better than it"
            " is"
        )
    for count, counts, why in (
        *((many, "user is", f"left out as robots: {why}") for why, many in found.robots.items()),
        (found.anonymous, "list is", "left out: its user is unknown"),
        (found.unmixed, "list was", "shown while mixing was off"),
        (found.strays, "click is", "on no list or document of the log"),
    ):
        if count:
            yield f"{counted(count, counts)} {why}"
