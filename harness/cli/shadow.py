"""``harness shadow``: what a live comparison wrote down, watched, asked again and reported.

A command of the group is a module with a function ``add(group)``, named in ``application``.
"""

from __future__ import annotations

import typer

HELP = "Read what a live comparison wrote down: watch it, ask its divergences again, report it."


def register(app: typer.Typer) -> None:
    """Put the group ``shadow`` on the command line."""
    from harness.cli import shadow_accept, shadow_replay, shadow_report, shadow_watch

    group = typer.Typer(no_args_is_help=True, help=HELP)
    for command in (shadow_watch, shadow_replay, shadow_report, shadow_accept):
        command.add(group)
    app.add_typer(group, name="shadow")
