"""``harness variance``: what corpora and assessors add to how unsure a difference is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from harness.cli.base.app import out
from harness.cli.base.places import evidence_at, left_by_run
from harness.cli.base.project import Project
from harness.core.printable import counted

if TYPE_CHECKING:
    from harness.stages.compare.variance import Compared, Varied


def register(app: typer.Typer) -> None:
    """Put ``variance`` on the command line."""
    app.command()(variance)


def variance(
    control: Annotated[str, typer.Option(help="The arm that serves today.")],
    candidate: Annotated[str, typer.Option(help="The arm that is compared with it.")],
    dataset: Annotated[
        list[str] | None, typer.Option(help="A folder of datasets/. May come again.")
    ] = None,
    left: Annotated[
        list[Path] | None,
        typer.Option("--out", help="What a `harness run` wrote. May come again."),
    ] = None,
    assessor: Annotated[
        list[Path] | None,
        typer.Option(help="Judgements of one assessor, as TREC has them. Comes twice or more."),
    ] = None,
    *,
    measure: Annotated[str, typer.Option(help="As ir-measures writes it.")] = "nDCG@10",
) -> None:
    """Show what corpora, or assessors, add to the variance of a difference.

    With several data sets the corpus is a random factor: how much the difference changes from one
    to another, and the interval of its mean over other corpora. With several files of judgements
    for one data set the assessor is one, crossed with the queries that all of them judged. Each
    component is estimated from mean squares (analysis of variance, method of moments). Reads scores
    and runs that are there; asks no engine and decides nothing. Exit codes: 0 shown, 2 bad input.

    Example: harness variance --out out/a --out out/b --control fts5 --candidate tantivy
    """
    from harness.core.errors import HarnessError
    from harness.stages.compare.variance import Compared, over_assessors, over_corpora

    project, asked = Project.here(), Compared(control, candidate, measure)
    sure = project.params.score.confidence
    layouts = [*map(project.layout, dataset or []), *map(left_by_run, left or [])]
    if assessor:
        if len(layouts) > 1:
            raise HarnessError("--assessor compares judgements of one data set: name one")
        place = layouts[0] if layouts else evidence_at("", None)
        _show(over_assessors(place, assessor, asked, confidence=sure), asked, "assessor")
    else:
        _show(over_corpora(layouts, asked, confidence=sure), asked, "corpus")


def _show(varied: Varied, asked: Compared, factor: str) -> None:
    from harness.gates.base import rules
    from harness.report.rounding import signed
    from harness.stats.components import assessor_deviation

    of = varied.components
    out.print(f"\n{asked.measure}, {asked.candidate} - {asked.control}, by {factor}", markup=False)
    for name, mean in varied.means.items():
        out.print(
            f"  {name}: {signed(mean)} over {counted(varied.queries[name], 'query')}", markup=False
        )
    table = Table("component", "deviation", "variance", "share", "df", box=None)
    for part in of.parts:
        share = f"{part.variance / of.total:.0%}" if of.total else "none"
        zero = " (estimated below 0)" if part.below_zero else ""
        row = (f"{part.variance**0.5:.4f}", f"{part.variance:.2e}", share + zero, str(part.df))
        table.add_row(escape(part.source), *row)
    out.print(table)
    plural = "corpora" if factor == "corpus" else "assessors"
    out.print(
        f"  mean, other queries of these {plural}: {rules.signed(of.queries_alone)}", markup=False
    )
    out.print(f"  mean, other queries and other {plural}: {rules.signed(of.anew)}", markup=False)
    if factor == "assessor":
        apart = assessor_deviation(of, min(varied.queries.values()))
        out.print(
            f"  from one assessor to another the mean differs with a deviation of {apart:.4f}:"
            " a margin below twice that is one that assessors do not agree on",
            markup=False,
        )
