"""``harness labels``: take the labels of a machine in as evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.base.app import out
from harness.cli.base.places import OneDataset, evidence_at
from harness.core.printable import many


def register(app: typer.Typer) -> None:
    """Put ``labels`` on the command line."""
    app.command()(labels)


def labels(
    file: Annotated[Path, typer.Argument(help="Labels that harness judge --machine wrote.")],
    dataset: OneDataset = "",
    left: Annotated[
        Path | None,
        typer.Option("--out", help="What a `harness run` wrote, instead of the project."),
    ] = None,
) -> None:
    """Take the labels of a machine in, for gates by the rule judge_trusted.

    They are compared with the judgements of the data set and never added to them. Labels that were
    taken in of the same judge are replaced. Runs no engine.

    Example: harness labels out/machine.jsonl --dataset python-docs
    """
    from harness.stages.judging.taken_in import take_in

    found = take_in(evidence_at(dataset, left, adds=True), file)
    out.print(
        f"{found.judge}: took in {many(found.labels, 'label')}; {found.both} of their pairs are"
        " judged by the data set too",
        markup=False,
    )
