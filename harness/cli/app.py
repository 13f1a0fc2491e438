"""The application that commands are registered on, and what they print with."""

from __future__ import annotations

import typer
from rich.console import Console

app = typer.Typer(
    name="harness",
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
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)
