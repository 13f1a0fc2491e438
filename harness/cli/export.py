"""``harness export``: what was measured, as papers and other tools want it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.base.app import out
from harness.cli.base.places import Left, OneDataset, Threads, evidence_at
from harness.cli.base.project import Project


def register(app: typer.Typer) -> None:
    """Put ``export`` on the command line."""
    app.command()(export)


def export(
    control: Annotated[str, typer.Option(help="The arm that every other one is compared with.")],
    to: Annotated[Path, typer.Option(help="Folder for the files; an earlier export in it goes.")],
    dataset: OneDataset = "",
    left: Left = None,
    *,
    arms: Annotated[str, typer.Option(help="Only these, with commas between.")] = "",
    measures: Annotated[
        str, typer.Option(help="With commas between; those of params.yaml where none is named.")
    ] = "",
    figures: Annotated[
        str, typer.Option(help="Formats with commas between: png, svg, pdf. None by default.")
    ] = "",
    threads: Threads = 1,
) -> None:
    """Write runs, values by query, tables with marks of significance and figures.

    In TO: runs/ARM.trec and qrels.trec for any other tool, per_query.csv, the table as table.csv
    (unrounded), table.md and table.tex (booktabs), and with --figures a forest plot and the
    differences by query. Marks are of a paired sign-flip test against the control, corrected
    after Holm over the whole table, which says so below. Nothing is queried or decided. An earlier
    export in TO, which export.json tells, is replaced whole; a folder that holds anything else is
    refused.

    Example: harness export --dataset python-docs --control fts5 --to out/paper --figures pdf
    """
    from harness.api.exporting import ExportRequest
    from harness.api.exporting import export as write

    layout, project = evidence_at(dataset, left), Project.here()
    params = project.params.score
    wanted = ExportRequest(
        control=control,
        arms=_words(arms),
        measures=_words(measures) or params.measures,
        figures=_words(figures),
    )
    reads = (left or layout.root, *project.sources)
    for file in write(
        layout, wanted, params.inference(threads), to, reads=reads, project=project.root.name
    ):
        out.print(str(file), markup=False)


def _words(given: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in given.split(",") if word.strip())
