"""``harness labels``: take a judged sample in as evidence."""

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
    file: Annotated[Path, typer.Argument(help="A sample of harness pool --order sample, judged.")],
    by: Annotated[str, typer.Option(help="Who judged it.")],
    dataset: OneDataset = "",
    left: Annotated[
        Path | None,
        typer.Option("--out", help="What a `harness run` wrote, instead of the project."),
    ] = None,
) -> None:
    """Take in the judged sample of harness pool --order sample, as evidence for gates.

    It is evidence for gates on its measure, and never added to the judgements of the data set. What
    was taken in of the same arms and measure is replaced. Runs no engine.

    Example: harness labels out/sample.qrels --by ada --dataset python-docs
    """
    from harness.core.names import labelled
    from harness.stages.judging.taken_in import take_sample

    labelled("who judged", by)
    taken = take_sample(evidence_at(dataset, left, adds=True), file, by)
    out.print(
        f"{taken.measure} of {taken.candidate} - {taken.control}: took in"
        f" {many(sum(map(len, taken.grades.values())), 'judgement')} by {by}",
        markup=False,
    )
