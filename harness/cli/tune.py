"""``harness tune``: search an arm's settings on judgements that no decision then rests on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from harness.cli.base.app import out
from harness.cli.base.boundary import aside
from harness.cli.base.imports import Fields, Forms
from harness.cli.base.project import Project
from harness.core.printable import counted, many

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.corpus.prepared import Prepared
    from harness.corpus.tuning import Difference, TuningRecord


def register(app: typer.Typer) -> None:
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
    from harness.core.durable.locks import held
    from harness.core.durable.owned import check_new
    from harness.core.formats import toml_file
    from harness.corpus.tuning import SUFFIX, is_record
    from harness.stages.tune.space import read
    from harness.stages.tune.stage import TuneRequest
    from harness.stages.tune.stage import tune as stage
    from harness.stages.tune.written import check_place, is_ours

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
    _show(found.record)
    out.print(f"\nThe arm: {to}\nWhat it was tuned on: {found.path}", markup=False)


def _prepared(
    project: Project, dataset: str, work: Path, split: str, fields: str, *, forms: bool
) -> Sequence[Prepared]:
    """Prepare each data set; one of the project has the split that its card names."""
    from harness.cli.base.data import prepare
    from harness.cli.base.places import name_of
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


def _show(record: TuningRecord) -> None:
    from harness.stages.tune.stage import said

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
