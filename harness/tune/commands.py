"""``harness tune``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.command import Result, app, command, shown
from harness.cli.options import Fields, Forms, SetOrFolder, Split, ToFile, listed, prepare
from harness.cli.project import Project, name_of
from harness.core.errors import DatasetError
from harness.core.printable import counted, many

if TYPE_CHECKING:
    from harness.corpus.prepared import Prepared
    from harness.corpus.tuning import TuningRecord
    from harness.report.doc import Block


@command(app)
def tune(
    arm: Annotated[str, typer.Argument(help="Name of an arm, or path to its TOML file.")],
    dataset: SetOrFolder,
    search: Annotated[Path, typer.Option(help="TOML file: the values to try, measure and folds.")],
    to: ToFile,
    split: Split = "train",
    *,
    fields: Fields = "title,text",
    forms: Forms = False,
) -> Result:
    """Search an arm's settings, and estimate what the choice is worth on queries it has not seen.

    Every combination of the values in --search is an engine. The best mean over the data sets (with
    commas between) wins. With `first` in the file, all engines answer a few queries, and those that
    do well answer more. Nested cross-validation repeats the choice without each fold: this is the
    mean to expect. Writes the arm, and beside it the record: space, seed, means and a digest of
    every judged query. A decision about the arm on one of these queries is never PROMOTE, unless
    its policy says why it may be (`tuned_reason`). A killed search resumes. Exit codes: 0 written,
    2 bad input.

    Example: harness tune examples/own_engine/own.toml --dataset mine --split train --search
    examples/own_engine/space.toml --out examples/own_engine/own-tuned.toml
    """
    from harness.core.digest import of_json
    from harness.core.files import held
    from harness.core.folders import check_new
    from harness.core.formats import toml_file
    from harness.corpus.tuning import RECORDS, SUFFIX
    from harness.tune.stage import TuneRequest, check_place, is_ours, read
    from harness.tune.stage import tune as stage
    from harness_engines import registry

    project = Project.here()
    given = registry.load(arm, project.cache)
    folders = [Path(one) for one in listed(dataset) if Path(one).is_dir()]
    check_new(to, reads=(search, given.path, *folders, *project.sources), ours=is_ours)
    beside = to.with_name(to.stem + SUFFIX)
    check_new(beside, ours=RECORDS.holds)
    check_place(to, given.path, toml_file(given.path)["stack"])
    space = read(search)
    work = project.cache / "tune" / of_json([str(given.path.resolve()), split])[:16]
    work.mkdir(parents=True, exist_ok=True)
    with held(work, patience_s=0):
        data = _prepared(project, dataset, work, split, fields, forms=forms)
        record = stage(
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
    return shown(*_tuned(record, to, beside))


def _prepared(
    project: Project, dataset: str, work: Path, split: str, fields: str, *, forms: bool
) -> Sequence[Prepared]:
    """Prepare each data set; one of the project has the split that its card names."""
    from harness.core.names import checked
    from harness.corpus.prepared import Prepared

    checked("a split", split)
    found = []
    for named in dict.fromkeys(listed(dataset)):
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


def _tuned(record: TuningRecord, arm: Path, beside: Path) -> Iterator[Block]:
    from harness.report.doc import Num, Text, table
    from harness.tune.stage import said

    seen = ", ".join(f"{one.dataset}/{one.split}" for one in record.collections)
    yield Text(
        f"{record.arm}: {many(record.candidates, 'setting')} on"
        f" {counted(len(record.words), 'query')} of {seen}"
    )
    yield Text(f"best: {said(record.settings)}\n")
    gain = record.gain
    rows = [
        ("as given", Num(record.given)),
        ("best, on the queries that chose it", Num(record.apparent)),
        ("best, expected on other queries", Num(record.expected)),
        ("optimism of the choice", Num(record.optimism, signed=True)),
        ("expected less as given", Num(gain.value, low=gain.low, high=gain.high, signed=True)),
    ]
    yield table("", ("", record.measure), rows)
    for settings, why in record.failed.items():
        yield Text(f"left out, because it failed: {settings} ({why})")
    yield Text(f"\nThe arm: {arm}")
    yield Text(f"What it was tuned on: {beside}")
