"""``harness shadow replay``: repeat diverging queries on the arms as they are now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from harness.cli.base.app import out
from harness.cli.base.boundary import aside
from harness.cli.base.places import evidence_at, of_run
from harness.cli.base.project import Project
from harness.cli.shadow.options import Folders, RegisterFile, suppressions_file, today
from harness.core.printable import counted

if TYPE_CHECKING:
    from harness.stages.shadow.replay import Replayed

HOLD = 1
QUERY = 60


def add(group: typer.Typer) -> None:
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
    from harness.stages.shadow.replay import shadow_replay

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
    raise typer.Exit(HOLD if replayed.blocking else 0)


def _show(replayed: Replayed, top: int) -> None:
    from harness.core.printable import one_line
    from harness.shadow.watch import again
    from harness.shadow.watch.again import Now

    counts = again.counted(one for one, _ in replayed.found)
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
        cells = (one_line(latest.text, QUERY), f"{one.question.times:,}", latest.outcome)
        table.add_row(*map(escape, cells), one.outcome, standing or "")
    if rest[:top]:
        out.print(table)
    out.print(f"{len(replayed.blocking):,} block the next step.", markup=False)
