"""The application that commands are registered on, and what they print with."""

from __future__ import annotations

from typing import Any

import typer
from rich.console import Console
from typer.core import TyperGroup

INTERRUPTED = 130


class Resumable(TyperGroup):
    """Commands that a person may interrupt and start again; Typer itself would say nothing."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # noqa: ANN401
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            err.print("interrupted; run the same command again to go on")
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="harness",
    cls=Resumable,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help=(
        "Decide, with statistics a referee would accept, whether a search engine may be replaced."
        "\n\nThe pipeline, one command a stage:"
        " [bold]prepare > index > replay > score > compare > race > gate > report[/bold]."
        " [bold]demo[/bold] runs all of it, [bold]run[/bold] does it in one go for arms and data"
        " of yours."
        "\n\nExit codes: 0 done (gate: promote), 1 hold or roll back, 2 bad input or an arm that"
        " did not run, 3 inconclusive."
    ),
)
out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)
