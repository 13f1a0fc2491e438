"""``harness decompose``: which stage of a candidate wins or loses what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from harness.cli.base.app import out
from harness.cli.base.boundary import aside
from harness.cli.base.places import OneDataset, evidence_at
from harness.cli.base.project import Project
from harness.core.printable import many

if TYPE_CHECKING:
    from harness.report.explore.stages_table import Decomposed

LONGEST = 100
"""Characters of a query that a line shows."""


def register(app: typer.Typer) -> None:
    """Put ``decompose`` on the command line."""
    app.command()(decompose)


def decompose(
    control: Annotated[
        str, typer.Option(help="The arm that serves today: its name, or its TOML file.")
    ],
    candidate: Annotated[
        str, typer.Option(help="The arm whose stages are compared: its name, or its TOML file.")
    ],
    dataset: OneDataset = "",
    left: Annotated[
        Path | None,
        typer.Option("--out", help="What a `harness run` wrote, instead of the project."),
    ] = None,
    *,
    measure: Annotated[
        str, typer.Option(help="As ir-measures writes it; its cut-off is what is taken apart.")
    ] = "nDCG@10",
    top: Annotated[int, typer.Option(min=0, help="How many of the largest losses are shown.")] = 20,
    to: Annotated[
        Path | None, typer.Option(help="Write every query to this .csv or .json as well.")
    ] = None,
) -> None:
    """Take the difference of two arms apart by the stages of the candidate, query by query.

    Steps lead from the control to the candidate's first stage, and on to what it shows. Each has
    two parts: documents that entered or left, and the order of those that stayed. All parts of
    a query sum to its difference. The candidate's index is opened, and no clock runs. The next
    `harness report` shows the steps of each query in explore.html.

    Example: harness decompose --dataset python-docs --control fts5 --candidate hybrid
    """
    from harness.core.durable.owned import check_new
    from harness.stages.compare.decompose import DecomposeRequest, check_ending, write
    from harness.stages.compare.decompose import decompose as stage
    from harness.stages.compare.decomposition import keep

    layout, project = evidence_at(dataset, left, adds=True), Project.here()
    if to:
        check_new(to, reads=(left or layout.root, *project.sources))
        check_ending(to)
    wanted = DecomposeRequest(control, candidate, measure, project.params.replay.k)
    with aside():
        found = stage(layout, wanted, project.policy().rules, project.cache)
    keep(layout, found)
    if to:
        write(found, to)
    _show(found, top)


def _show(found: Decomposed, top: int) -> None:
    """Print means by step, slices that moved, and the largest losses."""
    from harness.core.printable import one_line
    from harness.report.explore.stages_table import blamed, losers, means
    from harness.report.rounding import p_value, signed

    control, candidate = found.names
    count = len(found.queries)
    out.print(
        f"\n[bold]{escape(found.dataset)}[/bold]: {escape(found.measure)},"
        f" {escape(candidate)} - {escape(control)}, mean of {count} queries"
    )
    table = Table("to the stage", "by what is shown", "by its order", "both", box=None)
    for step in means(found):
        table.add_row(escape(step.name), signed(step.shown), signed(step.order), signed(step.both))
    out.print(table)
    if found.lost:
        why = next(iter(found.lost.values()))
        out.print(f"{many(len(found.lost), 'query is')} not taken apart: {escape(why)}, ...")
    out.print(
        f"\nSlices that moved; at most {found.level:.0%} of those listed for a step are expected to"
        " be chance (Benjamini and Hochberg)"
    )
    table = Table("slice", "to the stage", "mean", "queries", "p, adjusted", box=None)
    listed = [one for one in found.moved if one.p_value <= found.level]
    for one in listed:
        row = (escape(one.slice), escape(one.step), signed(one.mean), str(one.queries))
        table.add_row(*row, p_value(one.p_value))
    out.print(table if listed else "  none")
    worst = losers(found, top)
    if not worst:
        return
    out.print(f"\nThe {len(worst)} largest losses, the part that lost most, and each step")
    for at in worst:
        query, by = found.queries[at], blamed(found, at)
        each = ", ".join(f"{name} {signed(float(p.total[at]))}" for name, p in found.steps.items())
        line = f"{query.query_id}: {by.step}, {by.part} {signed(by.value)} ({each})"
        out.print(f"  {signed(float(found.difference[at])):<8} {escape(line)}")
        out.print(f"           {escape(one_line(query.text, LONGEST))}")
