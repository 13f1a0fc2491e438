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
    least_kappa: Annotated[
        float,
        typer.Option(min=-1, max=1, help="Agreement below which the machine is not used."),
    ],
    margin: Annotated[float, typer.Option(min=0, max=1, help="Allowed loss of the measure.")],
    sampled: Annotated[
        str, typer.Option(help="What was drawn for people: queries, judged whole, or pairs.")
    ] = "queries",
) -> None:
    """Judge a difference by few human judgements and many machine ones.

    The interval is valid whatever the machine errs, if what people judged was drawn at random:
    whole queries, or pairs by harness pool --order random (prediction-powered inference). The
    machine is used only where its agreement with people surely reaches --least-kappa; otherwise
    the human judgements stand alone. The two files are never mixed. Exit codes: 0 the loss is below
    the margin, 1 it is not, 3 inconclusive.

    Example: harness assisted --run out/mine --control fts5 --candidate tantivy --measure P@10
    --human human.qrels --machine machine.qrels --least-kappa 0.4 --margin 0.02
    """
    from harness.core.errors import UnknownName
    from harness.core.gate import Verdict
    from harness.stages.judging.assisted import Judging, Sampled, difference

    if sampled not in set(Sampled):
        raise UnknownName("kind of what was drawn", sampled, Sampled)
    layout = of_run(ran, dataset) if ran else evidence_at(dataset, None)
    judging = Judging(
        control, candidate, measure, human, machine, least_kappa, margin, Sampled(sampled)
    )
    found = difference(layout, judging, Project.here().params.score.inference(1))
    _show(found, judging)
    codes = {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.INCONCLUSIVE: 3}
    raise typer.Exit(codes[found.verdict])


def _show(found: AssistedDifference, judging: Judging) -> None:
    from harness.gates.base.rules import signed

    alike = found.agreement
    word = "used" if found.trusted else "not used: its agreement is not surely above the bound"
    out.print(
        f"kappa of people and machine {alike.value:.2f} [{alike.low:.2f}, {alike.high:.2f}]"
        f" over {many(alike.n, 'document')}, bound {judging.least_kappa:g}: the machine is {word}",
        markup=False,
    )
    for grade, share in zip(found.grades, found.found.calibration, strict=False):
        name = "no grade" if grade is None else f"grade {grade}"
        said = "none judged by people" if share is None else f"{share:.0%} relevant to people"
        out.print(f"  {name} of the machine: {said}", markup=False)
    measure = judging.measure
    out.print(
        f"{measure}, people alone: {signed(found.found.human)}, n = {found.judged}"
        f" {judging.sampled}\n"
        f"{measure}, with the machine: {signed(found.found.assisted)},"
        f" n = {many(found.queries, 'query')}; it saves {found.found.saved:.0%} of the human"
        " judgements",
        markup=False,
    )
    out.print(
        f"{found.verdict.name}: {signed(found.used)}, allowed loss {judging.margin:g}", markup=False
    )
