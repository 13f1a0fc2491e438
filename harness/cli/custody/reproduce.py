"""``harness reproduce``: compare this machine's results with the recorded ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from harness.cli.base.app import out
from harness.cli.base.places import Dataset
from harness.cli.base.project import Project

if TYPE_CHECKING:
    from harness.stages.custody.reproduce import Reproduced

Record = Annotated[
    bool,
    typer.Option("--record", help="Write the record anew from what is here, for a commit."),
]


def register(app: typer.Typer) -> None:
    """Put ``reproduce`` on the command line."""
    app.command()(reproduce)


def reproduce(dataset: Dataset = "", *, record: Record = False) -> None:
    """Compare what the pipeline made here with the record in the repository.

    For each data set, it says that every output is byte-identical, or which stages differ. For
    those it counts queries with other first ten hits, and gives the largest difference of each
    measure. It says whether a verdict moved, and how this machine differs from the recorded one.
    Reads files only.
    Exit codes: 0 identical, or the same verdicts; 2 a verdict moved, or a file is missing.
    """
    from harness.stages.custody.reproduce import record as write
    from harness.stages.custody.reproduce import reproduce as compare

    project = Project.here()
    moved = False
    for name in project.datasets(dataset):
        if record:
            folder = write(project.root, project.layout(name), tuple(project.params.arms))
            out.print(f"recorded {folder}; commit it with dvc.lock", markup=False)
            continue
        found = compare(project.root, project.layout(name))
        show(found)
        moved = moved or bool(found.decisions)
    if moved:
        raise typer.Exit(2)


def show(found: Reproduced) -> None:
    """Print the comparison of one data set, the answer first."""
    name = escape(found.dataset)
    if found.exact:
        out.print(f"{name}: all {found.compared} recorded outputs are byte-identical")
        return
    verdicts = "a verdict moved" if found.decisions else "every verdict is the same"
    out.print(
        f"{name}: {len(found.differ)} of {found.compared} recorded outputs differ; {verdicts}"
    )
    for line in found.decisions:
        out.print(f"  moved     {line}", markup=False)
    for line in found.differ:
        out.print(f"  differs   {line}", markup=False)
    for arm, (changed, of) in found.first_hits.items():
        if changed:
            text = f"  first ten {arm}: {changed} of {of} queries show other hits"
            out.print(text, markup=False)
    for one in found.moved:
        text = (
            f"  {one.measure:<9} moved most in {one.arm}, query {one.query_id}:"
            f" {one.recorded:.4f} recorded, {one.found:.4f} here ({one.difference:+.4f})"
        )
        out.print(text, markup=False)
    for line in found.environment:
        out.print(f"  machine   {line}", markup=False)
    if not found.environment:
        out.print("  machine   no feature, package or SQLite differs: the cause is elsewhere")
