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
    from harness.stages.judging.panel.agreement import Agreement

Folder = Annotated[Path, typer.Argument(help="Folder that harness panel begin made.")]
FEW = "too few queries were judged twice to say"


def register(app: typer.Typer) -> None:
    """Put the group ``panel`` on the command line."""
    group = typer.Typer(
        no_args_is_help=True, help="Let several people judge one pool, and compare them."
    )
    for command in (begin, report, settle, export):
        group.command()(command)
    group.command("import")(import_)
    app.add_typer(group, name="panel")


def begin(
    pool: Annotated[Path, typer.Argument(help="The pool, as harness pool wrote it.")],
    *,
    assessors: Annotated[str, typer.Option(help="Their names: ada,ben,cyd.")],
    double: Annotated[float, typer.Option(min=0, max=1, help="Share of the pairs that two judge.")],
    seed: Annotated[int, typer.Option(min=0, help="Seed of who judges what, in which order.")],
    guidelines: Annotated[
        Path | None, typer.Option(help="Text with what a grade means, shown beside each pair.")
    ] = None,
    to: Annotated[Path, typer.Option("--out", help="Folder to make, with a pool for each.")],
) -> None:
    """Deal a pool out to several people, each with a part in an order of its own.

    Each judges their part by harness serve or harness judge, at the same time. A part does not say
    which pairs another person judges too, or which arm showed a document.

    Example: harness panel begin out/pool.qrels --assessors ada,ben --double 0.3 --seed 1 --out
    out/panel
    """
    from harness.core.durable.owned import check_apart
    from harness.stages.judging.panel.panel import begin as deal

    check_apart(to, Project.here().sources)
    made = deal(pool, assessors.split(","), double, seed, guidelines, to)
    for name in made.assessors:
        out.print(
            f"{name}: {many(len(made.parts[name].pairs), 'pair')} in {made.path(name)}",
            markup=False,
        )
    out.print(f"In a browser: harness serve {to}", markup=False)


def report(folder: Folder) -> None:
    """Say how far a panel is, and how far its people agree, with intervals.

    Krippendorff's alpha for ordered grades, Fleiss' kappa, and the weighted kappa of each two.
    Of each person the median time of a pair, and the drift: the mean grade of the second half of
    the work less that of the first.

    Example: harness panel report out/panel
    """
    from harness.stages.judging.panel import panel as panels
    from harness.stages.judging.panel.agreement import agreement

    confidence = Project.here().params.score.inference(1).confidence
    _show(agreement(panels.read(folder), confidence))


def _show(found: Agreement) -> None:
    for one in found.assessors:
        pace = "" if one.median_s is None else f", {one.median_s:.0f} s a pair"
        drift = "" if one.drift is None else f", drift {_signed(one.drift)}"
        out.print(f"{one.name}: {one.judged} of {one.of} judged{pace}{drift}", markup=False)
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


def _signed(found: Estimate) -> str:
    return f"{found.value:+.2f} [{found.low:+.2f}, {found.high:+.2f}]"


def settle(
    folder: Folder,
    *,
    to: Annotated[Path, typer.Option("--out", help="Pool to write, with one grade a pair.")],
) -> None:
    """Write one grade a pair: where all agree theirs, else that of a second look.

    Pairs that were judged differently come into FOLDER/disagreements.qrels, the farthest apart
    first. Judge them there, then give the same command. Exit codes: 0 written, 3 disagreements
    are open.

    Example: harness panel settle out/panel --out out/settled.qrels
    """
    from harness.core.durable.owned import check_apart
    from harness.stages.judging.panel import panel as panels
    from harness.stages.judging.panel.settle import settle as stage

    check_apart(to, Project.here().sources)
    panel = panels.read(folder)
    found = stage(panel, to)
    left = f"; {found.unjudged} are not judged by all who have them" if found.unjudged else ""
    if found.open:
        out.print(
            f"{found.open} disagreements are open{left}. Judge them: harness judge"
            f" {panel.disagreements}",
            markup=False,
        )
        raise typer.Exit(3)
    if not found.settled:
        out.print(f"nothing is settled yet{left}", markup=False)
        raise typer.Exit(3)
    out.print(f"{many(found.settled, 'pair is')} settled in {to}{left}", markup=False)
    out.print(f"Add them: harness judge {to} --merge DATASET --by WHO", markup=False)


def export(
    folder: Folder,
    *,
    to: Annotated[Path, typer.Option(help="File of labels to write: a row says who judged.")],
) -> None:
    """Write every judgement of every person, a line each, with who gave it.

    Example: harness panel export out/panel --to out/people.jsonl
    """
    from harness.core.durable.owned import check_apart
    from harness.stages.judging.panel import panel as panels
    from harness.stages.judging.panel.exchange import export as stage

    check_apart(to, Project.here().sources)
    out.print(f"{many(stage(panels.read(folder), to), 'label')} in {to}", markup=False)


def import_(
    folder: Folder,
    file: Annotated[Path, typer.Argument(help="TREC judgements, or labels of one person.")],
    *,
    assessor: Annotated[str, typer.Option(help="Whose judgements these are.")],
) -> None:
    """Take judgements that one person made elsewhere into their part.

    Each must be a pair of the part, on the scale, and not judged otherwise there. Otherwise
    nothing is taken in.

    Example: harness panel import out/panel ada.qrels --assessor ada
    """
    from harness.stages.judging.panel import panel as panels
    from harness.stages.judging.panel.exchange import take

    found = take(panels.read(folder), file, assessor)
    out.print(f"{assessor}: {many(found, 'judgement')} taken in", markup=False)
