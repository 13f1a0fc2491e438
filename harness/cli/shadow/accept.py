"""``harness shadow accept``: somebody has looked at a divergence and takes it, until a day."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from harness.cli.base.app import out
from harness.cli.shadow.options import RegisterFile, suppressions_file, today


def add(group: typer.Typer) -> None:
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
    from harness.agreement.classes import Class
    from harness.core.errors import UnknownName
    from harness.core.names import labelled
    from harness.shadow.watch.suppressions import ACCEPTABLE, Accepted
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
