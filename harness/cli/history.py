"""``harness history``: what was decided and measured from release to release."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.base.app import out
from harness.cli.base.places import Dataset, Left, left_by_run, one_of, own
from harness.cli.base.project import Project

if TYPE_CHECKING:
    from harness.stages.layout import Layout

FOLDER = "history"
At = Annotated[
    Path | None, typer.Option("--at", help="Folder of the histories. [default: history]")
]


def register(app: typer.Typer) -> None:
    """Put ``history`` on the command line."""
    group = typer.Typer(
        no_args_is_help=True, help="A rolling history of decisions, and a page of its trends."
    )
    group.command()(add)
    group.command()(page)
    app.add_typer(group, name="history")


def add(dataset: Dataset = "", left: Left = None, at: At = None) -> None:
    """Add the decision that is there to the history of its data set, once.

    It is derived again from its raw evidence first (harness verify). Kept are verdicts, means with
    their intervals, ratios of times, the commit, packages, and digests of data, policy and code;
    one line each in history/NAME.jsonl, which belongs into git. Beside it the log of experiments is
    kept, in history/experiments/NAME.jsonl; it must go on from what was kept before. Exit codes: 0
    added or known, 2 not to be believed.

    Example: harness history add --dataset python-docs
    """
    from harness.core.durable.owned import HISTORY, check_free, set_mark
    from harness.stages.custody.verify import verify_with_files
    from harness.stages.experiments.log import keep, read
    from harness.stages.report import history

    one_of(dataset, left)
    project = Project.own()
    folder = at or project.root / FOLDER
    names = project.datasets(dataset)
    places = [left_by_run(left)] if left else [project.layout(name) for name in names]

    def held(layout: Layout) -> None:
        read(replace(layout, kept_log=_kept(folder, layout)))
        verify_with_files(layout, left, project.root)

    reads = (*(layout.root for layout in places), *project.sources)
    check_free(folder, HISTORY, reads=reads, known=history.is_history)
    commit = history.commit_of(project.root)
    for layout in places:
        new = history.add(layout, folder, commit=commit, held=partial(held, layout))
        set_mark(folder, HISTORY, project.root.name)
        lines = keep(layout, _kept(folder, layout))
        word = "added" if new else "known already"
        out.print(f"{layout.root.name}: {word}, {lines} experiments", markup=False)


def page(
    at: At = None,
    to: Annotated[
        Path | None, typer.Option(help="File to write. [default: reports/trends.html]")
    ] = None,
) -> None:
    """Write the page of trends: one file that loads nothing.

    Measures with their intervals from decision to decision, what was decided, ratios of times,
    and what changed: commit, packages, policy, data.

    Example: harness history page
    """
    from harness.core.durable.owned import REPORT, check_new
    from harness.report.trends.page import is_page
    from harness.stages.report import history

    project = Project.own()
    folder, reports = at or project.root / FOLDER, project.root / "reports"
    if to is None:
        own(reports, REPORT, folder)
    file = to or reports / "trends.html"
    check_new(file, reads=(folder, *project.sources), ours=is_page)
    count = history.page(folder, file)
    out.print(f"{count} decisions: {file}", markup=False)


def _kept(folder: Path, layout: Layout) -> Path:
    """Name the copy of a data set's experiment log that a history keeps."""
    return folder / "experiments" / f"{layout.root.name}.jsonl"
