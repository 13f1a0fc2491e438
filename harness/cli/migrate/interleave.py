"""``harness migrate interleave``: users see mixed lists, or no longer do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.base.app import out
from harness.cli.migrate.options import by, folder_of, now


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
