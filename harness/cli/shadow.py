"""``harness shadow``: a live comparison, and what it wrote down, watched, asked again, reported.

A command of the group is a module with a function ``add(group)``, named in ``application``.
"""

from __future__ import annotations

import typer

HELP = "Compare a candidate beside what serves; watch the log, ask again what diverged, report it."


def register(app: typer.Typer) -> None:
    """Put the group ``shadow`` on the command line."""
    from harness.cli import (
        shadow_accept,
        shadow_http,
        shadow_mcp,
        shadow_replay,
        shadow_report,
        shadow_run,
        shadow_watch,
    )

    group = typer.Typer(no_args_is_help=True, help=HELP)
    for command in (
        shadow_run,
        shadow_http,
        shadow_mcp,
        shadow_watch,
        shadow_replay,
        shadow_report,
        shadow_accept,
    ):
        command.add(group)
    app.add_typer(group, name="shadow")
