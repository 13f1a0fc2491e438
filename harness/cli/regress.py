"""``harness regress``: this release against an earlier one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from harness.cli.base.app import out
from harness.cli.base.places import Dataset, Left, left_by_run, one_of
from harness.cli.base.project import Project
from harness.core.durable.scratch import scratch
from harness.core.printable import many

if TYPE_CHECKING:
    from harness.stages.regress.stage import Regression


LONGEST = 100
WORDS = {
    "pass": "[green]no worse[/]",
    "fail": "[red]WORSE[/]   ",
    "inconclusive": "[yellow]not sure[/]",
}


def register(app: typer.Typer) -> None:
    """Put ``regress`` on the command line."""
    app.command()(regress)


def regress(
    baseline: Annotated[
        str,
        typer.Option(
            help="A git revision whose outputs DVC's cache holds, or a folder: a project, its"
            " build folder, or the --out of a harness run."
        ),
    ],
    dataset: Dataset = "",
    left: Left = None,
    policy: Annotated[
        Path | None, typer.Option(help="Its one step's gates. [policy/regress.toml]")
    ] = None,
    *,
    arms: Annotated[str, typer.Option(help="Only these, with commas between.")] = "",
    worst: Annotated[int, typer.Option(min=0, help="How many lost queries are shown.")] = 10,
) -> None:
    """Compare every arm with an earlier release of itself, and exit by it.

    Paired by query, by the statistics and gates of every comparison. It runs no query and
    writes nothing. Evidence on other documents, queries or judgements is refused. Times are
    not compared: a clock of another day says nothing. Exit codes: 0 no worse, 1 a gate fails, 2 bad
    input or not comparable, 3 inconclusive.

    Example: harness regress --baseline HEAD~1 --dataset python-docs
    """
    from harness.policy.decide import exit_code
    from harness.policy.decide import worst as worst_code
    from harness.policy.load import load_policy
    from harness.stages.regress.baseline import of_folder, of_revision
    from harness.stages.regress.stage import regress as stage

    one_of(dataset, left)
    project = Project.here()
    judged_by = load_policy(policy or project.root / "policy" / "regress.toml")
    if left:
        places = [left_by_run(left)]
    else:
        names = project.datasets(dataset)
        places = [project.layout(name) for name in names]
    wanted = tuple(name.strip() for name in arms.split(",") if name.strip())
    codes = []
    for layout in places:
        with scratch() as brought:
            if Path(baseline).is_dir():
                then = of_folder(Path(baseline), layout.root.name)
            else:
                then = of_revision(project.root, baseline, layout.root.name, brought)
            found = stage(layout, then, judged_by, project.params.compare, arms=wanted)
        _show(found, baseline, worst)
        codes.append(exit_code(found.decisions))
    raise typer.Exit(worst_code(codes))


def _show(regression: Regression, baseline: str, worst: int) -> None:
    name = f"[bold]{escape(regression.dataset)}[/bold]"
    out.print(f"\n{name}, each arm compared with itself in {escape(baseline)}")
    _judged(regression)
    for word, arms in (("only then", regression.gone), ("only now", regression.new)):
        if arms:
            out.print(f"  {word}: {', '.join(arms)}", markup=False)
    for one in regression.verdicts:
        out.print(f"  step {one.step} was {one.then} without times, and is {one.now}", markup=False)
    _means(regression)
    _lost(regression, worst)


def _judged(regression: Regression) -> None:
    from harness.cli.base.verdicts import blocking_lines

    for decision in regression.decisions:
        out.print(f"  {WORDS[decision.verdict.value]}  {escape(decision.step)}")
        for line in blocking_lines(decision.blocking):
            out.print(f"            {escape(line)}")


def _means(regression: Regression) -> None:
    table = Table("arm", "measure", "then", "now", "now - then", box=None, padding=(0, 2, 0, 0))
    for row in regression.moved:
        if row.arm not in regression.same:
            apart = row.difference
            said = f"{apart.value:+.4f} [{apart.low:+.4f}, {apart.high:+.4f}]"
            table.add_row(
                escape(row.arm), row.measure, f"{row.then:.4f}", f"{row.now:.4f}", escape(said)
            )
    if table.row_count:
        out.print(table)
    if regression.same:
        out.print(
            f"the same answers, hit for hit: {', '.join(sorted(regression.same))}", markup=False
        )


def _lost(regression: Regression, worst: int) -> None:
    from harness.core.printable import one_line

    if regression.worse:
        out.print(f"\n{many(len(regression.worse), 'answer')} got worse; the worst of them:")
    for lost in regression.worse[:worst]:
        about = f"{lost.arm}  {lost.query_id}: {one_line(lost.text, LONGEST)}"
        out.print(f"  {lost.then:.3f} -> {lost.now:.3f}  {about}", markup=False)
