"""``harness panel``: several people judge one pool."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.base.app import out
from harness.cli.base.project import Project
from harness.core.printable import many

if TYPE_CHECKING:
    from harness.core.scores import Estimate
    from harness.stages.judging.agreement import Agreement

Files = Annotated[
    list[Path], typer.Argument(help="Files of the people, as harness judge POOL --by NAME makes.")
]
FEW = "too few queries were judged twice to say"


def register(app: typer.Typer) -> None:
    """Put the group ``panel`` on the command line."""
    group = typer.Typer(no_args_is_help=True, help="Compare several people who judged one pool.")
    for command in (report, settle):
        group.command()(command)
    app.add_typer(group, name="panel")


def report(files: Files) -> None:
    """Print how far each person is, and how far they agree, with intervals.

    Krippendorff's alpha for ordered grades, Fleiss' kappa, and the weighted kappa of each two.

    Example: harness panel report out/pool.ada.qrels out/pool.ben.qrels
    """
    from harness.stages.judging.agreement import agreement
    from harness.stages.judging.several import read

    confidence = Project.here().params.score.inference(1).confidence
    _show(agreement(read(files), confidence))


def _show(found: Agreement) -> None:
    for one in found.assessors:
        out.print(f"{one.name}: {one.judged} of {one.of} judged", markup=False)
    out.print(
        f"{many(found.twice, 'pair was')} judged twice; {found.differ} differ, {found.far} of them"
        " by two grades or more",
        markup=False,
    )
    out.print(f"Krippendorff's alpha, ordinal: {_said(found.alpha)}", markup=False)
    out.print(f"Fleiss' kappa: {_said(found.fleiss)}", markup=False)
    for first, second, kappa in found.cohen:
        out.print(f"weighted kappa of {first} and {second}: {_said(kappa)}", markup=False)


def _said(found: Estimate | None) -> str:
    if found is None:
        return FEW
    return f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}], n = {many(found.n, 'pair')}"


def settle(
    files: Files,
    *,
    to: Annotated[Path, typer.Option("--out", help="Pool to write, with one grade a pair.")],
) -> None:
    """Write one grade a pair: where all who judged it agree theirs, else that of a second look.

    Pairs that were judged differently come into OUT.disagreements.qrels, the farthest apart
    first. Judge them there, then give the same command. Exit codes: 0 written, 3 disagreements
    are open.

    Example: harness panel settle out/pool.ada.qrels out/pool.ben.qrels --out out/settled.qrels
    """
    from harness.core.durable.owned import check_apart
    from harness.stages.judging.settle import second_look
    from harness.stages.judging.settle import settle as stage
    from harness.stages.judging.several import read

    check_apart(to, Project.here().sources)
    found = stage(read(files), to, files)
    left = f"; {many(found.unjudged, 'pair')} are not judged" if found.unjudged else ""
    if found.open:
        out.print(
            f"{found.open} disagreements are open{left}. Judge them: harness judge"
            f" {second_look(to)}",
            markup=False,
        )
        raise typer.Exit(3)
    if not found.settled:
        out.print(f"nothing is settled yet{left}", markup=False)
        raise typer.Exit(3)
    out.print(f"{many(found.settled, 'pair is')} settled in {to}{left}", markup=False)
    out.print(f"Add them: harness judge {to} --merge DATASET --by WHO", markup=False)
