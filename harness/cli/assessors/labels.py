"""``harness labels``: take the labels of a machine, or a judged sample, in as evidence."""

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
    file: Annotated[
        Path, typer.Argument(help="Labels that harness judge --machine wrote, or a sample.")
    ],
    dataset: OneDataset = "",
    left: Annotated[
        Path | None,
        typer.Option("--out", help="What a `harness run` wrote, instead of the project."),
    ] = None,
    by: Annotated[str, typer.Option(help="Of a sample: who judged it.")] = "",
) -> None:
    """Take in the labels of a machine, or the judged sample of harness pool --order sample.

    Labels are for gates by the rule judge_trusted. They are compared with the judgements of the
    data set and never added to them. A sample is evidence for gates on its measure, with --by:
    who judged. What was taken in of the same judge, or of the same arms and measure, is replaced.
    Runs no engine.

    Example: harness labels out/machine.jsonl --dataset python-docs
    """
    from harness.core.names import labelled
    from harness.stages.judging.taken_in import take_in, take_sample

    if by:
        labelled("who judged", by)
        taken = take_sample(evidence_at(dataset, left, adds=True), file, by)
        out.print(
            f"{taken.measure} of {taken.candidate} - {taken.control}: took in"
            f" {many(sum(map(len, taken.grades.values())), 'judgement')} by {by}",
            markup=False,
        )
        return
    found = take_in(evidence_at(dataset, left, adds=True), file)
    out.print(
        f"{found.judge}: took in {many(found.labels, 'label')}; {found.both} of their pairs are"
        " judged by the data set too",
        markup=False,
    )
