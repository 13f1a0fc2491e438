"""``harness assisted``: a difference from few human judgements and many machine ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.base.app import out
from harness.cli.base.places import evidence_at, of_run
from harness.cli.base.project import Project
from harness.core.printable import many

if TYPE_CHECKING:
    from harness.stages.judging.assisted import AssistedDifference, Judging


def register(app: typer.Typer) -> None:
    """Put ``assisted`` on the command line."""
    app.command()(assisted)


def assisted(
    *,
    dataset: Annotated[
        str, typer.Option(help="A folder of datasets/; of --run, that of the run if not named.")
    ] = "",
    ran: Annotated[
        Path | None, typer.Option("--run", help="Folder that harness run wrote, with --out.")
    ] = None,
    control: Annotated[str, typer.Option(help="The arm that serves today.")],
    candidate: Annotated[str, typer.Option(help="The arm that may replace it.")],
    measure: Annotated[str, typer.Option(help="A precision: P@5, P@10, P(rel=2)@10.")],
    human: Annotated[Path, typer.Option(help="Judgements by people: QUERY 0 DOCUMENT GRADE.")],
    machine: Annotated[Path, typer.Option(help="Judgements by a machine, in the same form.")],
    margin: Annotated[float, typer.Option(min=0, max=1, help="Allowed loss of the measure.")],
) -> None:
    """Judge a difference by few human judgements, and show what many machine ones suggest.

    People judge whole queries that were drawn at random; they alone decide, by a finite-sample
    interval. The machine's judgements, corrected by people's, give an estimate that describes: it
    misses rare losses that the machine does not see. The two files are never mixed. Exit codes: 0
    the loss is below the margin, 1 it is not, 3 inconclusive.

    Example: harness assisted --run out/mine --control fts5 --candidate tantivy --measure P@10
    --human human.qrels --machine machine.qrels --margin 0.02
    """
    from harness.core.gate import Verdict
    from harness.stages.judging.assisted import Judging, difference

    layout = of_run(ran, dataset) if ran else evidence_at(dataset, None)
    judging = Judging(control, candidate, measure, human, machine, margin)
    found = difference(layout, judging, Project.here().params.score.inference(1))
    _show(found, judging)
    codes = {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.INCONCLUSIVE: 3}
    raise typer.Exit(codes[found.verdict])


def _show(found: AssistedDifference, judging: Judging) -> None:
    from harness.gates.base.rules import signed

    alike = found.agreement
    out.print(
        f"kappa of people and machine {alike.value:.2f} [{alike.low:.2f}, {alike.high:.2f}]"
        f" over {many(alike.n, 'document')}",
        markup=False,
    )
    for grade, share in zip(found.grades, found.found.calibration, strict=False):
        name = "no grade" if grade is None else f"grade {grade}"
        said = "none judged by people" if share is None else f"{share:.0%} relevant to people"
        out.print(f"  {name} of the machine: {said}", markup=False)
    measure = judging.measure
    out.print(
        f"{measure}, with the machine: {signed(found.found.assisted)},"
        f" n = {many(found.queries, 'query')}; it describes and decides nothing\n"
        f"{measure}, people alone: {signed(found.found.human)}, n = {many(found.judged, 'query')}\n"
        f"{found.verdict.name}: {signed(found.found.human)}, allowed loss {judging.margin:g}",
        markup=False,
    )
