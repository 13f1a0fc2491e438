"""``harness tune`` and ``harness regress``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from harness.cli.app import Fields, Forms, out
from harness.cli.exit_codes import aside
from harness.cli.project import Dataset, Left, Project, left_by_run, one_of
from harness.core.files import scratch
from harness.core.printable import counted, many

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.corpus.prepared import Prepared
    from harness.corpus.tuning import Difference, TuningRecord
    from harness.stages.regress import Regression


def register_tune(app: typer.Typer) -> None:
    """Put ``tune`` on the command line."""
    app.command()(tune)


def tune(
    arm: Annotated[str, typer.Argument(help="Name of an arm, or path to its TOML file.")],
    dataset: Annotated[
        str, typer.Option(help="Names of data sets or BEIR folders, with commas between.")
    ],
    search: Annotated[Path, typer.Option(help="TOML file: the values to try, measure and folds.")],
    to: Annotated[Path, typer.Option("--out", help="TOML file of the tuned arm.")],
    split: Annotated[str, typer.Option(help="Which judgements of a BEIR folder.")] = "train",
    *,
    fields: Fields = "title,text",
    forms: Forms = False,
) -> None:
    """Search an arm's settings, and say what the choice is worth on queries it has not seen.

    Every combination of the values in --search is an engine. The best mean over the data sets wins.
    With `first` in the file, all engines answer a few queries, and those that do well answer more.
    Nested cross-validation repeats the choice without each fold: this is the mean to expect. With
    several data sets the choice is also made without each of them. Writes the arm, and beside it
    the record: space, seed, means and a digest of every judged query. A decision about the arm on
    one of these queries is never PROMOTE, unless its policy says why it may be (`tuned_reason`). A
    killed search goes on where it was. Exit codes: 0 written, 2 bad input.

    Example: harness tune examples/own_engine/own.toml --dataset mine --split train --search
    examples/own_engine/space.toml --out examples/own_engine/own-tuned.toml
    """
    from engines import registry
    from harness.core.digest import of_json
    from harness.core.files import held
    from harness.core.folders import check_new
    from harness.core.formats import toml_file
    from harness.corpus.tuning import SUFFIX, is_record
    from harness.stages.tune import TuneRequest
    from harness.stages.tune import tune as stage
    from harness.stages.tune_files import check_place, is_ours, read

    project = Project.here()
    with aside():
        given = registry.load(arm, project.cache)
    folders = [Path(one) for one in dataset.split(",") if Path(one).is_dir()]
    check_new(to, reads=(search, given.path, *folders, *project.sources), ours=is_ours)
    check_new(to.with_name(to.stem + SUFFIX), ours=is_record)
    check_place(to, given.path, toml_file(given.path)["stack"])
    space = read(search)
    work = project.cache / "tune" / of_json([str(given.path.resolve()), split])[:16]
    work.mkdir(parents=True, exist_ok=True)
    with held(work, patience_s=0), aside():
        data = _prepared(project, dataset, work, split, fields, forms=forms)
        found = stage(
            TuneRequest(
                arm=arm,
                space=space,
                space_file=search,
                data=data,
                replay=project.params.replay,
                to=to,
                folder=work,
                cache=project.cache,
            )
        )
    _show_tune(found.record)
    out.print(f"\nThe arm: {to}\nWhat it was tuned on: {found.path}", markup=False)


def _prepared(
    project: Project, dataset: str, work: Path, split: str, fields: str, *, forms: bool
) -> Sequence[Prepared]:
    """Prepare each data set; one of the project has the split that its card names."""
    from harness.cli.app import prepare
    from harness.cli.project import name_of
    from harness.core.errors import DatasetError
    from harness.core.names import checked
    from harness.corpus.prepared import Prepared

    checked("a split", split)
    found = []
    for named in dict.fromkeys(filter(None, (one.strip() for one in dataset.split(",")))):
        place = work / "data" / name_of(named)
        prepare(project, named, place, split, fields, forms=forms)
        data = Prepared.open(place)
        if data.manifest.split != split:
            raise DatasetError(
                f"{named}: has the split {data.manifest.split}, not {split}; name it with --split"
            )
        found.append(data)
    if not found:
        raise DatasetError("no data set is named; give --dataset")
    return found


def _show_tune(record: TuningRecord) -> None:
    from harness.stages.tune import said

    seen = ", ".join(f"{one.dataset}/{one.split}" for one in record.collections)
    out.print(
        f"\n{record.arm}: {many(record.candidates, 'setting')} on"
        f" {counted(len(record.words), 'query')} of {seen}",
        markup=False,
    )
    out.print(f"best: {said(record.settings)}\n", markup=False)
    table = Table("", record.measure, box=None, padding=(0, 2, 0, 0))
    table.add_row("as given", f"{record.given:.4f}")
    table.add_row("best, on the queries that chose it", f"{record.apparent:.4f}")
    table.add_row("best, expected on other queries", f"{record.expected:.4f}")
    table.add_row("optimism of the choice", f"{record.optimism:+.4f}")
    table.add_row("expected less as given", escape(_interval(record.gain)))
    for one in record.collections:
        if one.left_out:
            label = f"chosen without {one.dataset}, less as given there"
            table.add_row(escape(label), escape(_interval(one.left_out.gain)))
    out.print(table)
    for settings, told in record.failed.items():
        out.print(f"left out, because it failed: {settings} ({told})", markup=False)


def _interval(of: Difference) -> str:
    return f"{of.value:+.4f} [{of.low:+.4f}, {of.high:+.4f}]"


LONGEST = 100
WORDS = {
    "pass": "[green]no worse[/]",
    "fail": "[red]WORSE[/]   ",
    "inconclusive": "[yellow]not sure[/]",
}


def register_regress(app: typer.Typer) -> None:
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
    from harness.policy.decision import exit_code
    from harness.policy.decision import worst as worst_code
    from harness.policy.load import load_policy
    from harness.stages.regress import of_folder, of_revision
    from harness.stages.regress import regress as stage

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
        _show_regress(found, baseline, worst)
        codes.append(exit_code(found.decisions))
    raise typer.Exit(worst_code(codes))


def _show_regress(regression: Regression, baseline: str, worst: int) -> None:
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
    from harness.cli.verdicts import blocking_lines

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
