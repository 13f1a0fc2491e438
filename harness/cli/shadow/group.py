"""``harness shadow``: run a live comparison; watch, replay and report its log.

A command of the group is a module with a function ``add(group)``, named below.
"""

from __future__ import annotations

import typer

HELP = "Mirror queries to a candidate; watch the log, replay divergences, report and accept them."


def register(app: typer.Typer) -> None:
    """Put the group ``shadow`` on the command line."""
    from harness.cli.shadow import accept, mcp, receive, replay, report, run, watch

    group = typer.Typer(no_args_is_help=True, help=HELP)
    for add in (
        run.add,
        receive.add,
        mcp.add,
        watch.add,
        replay.add,
        report.add,
        accept.add,
    ):
        add(group)
    app.add_typer(group, name="shadow")
