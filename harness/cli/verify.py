"""``harness verify``: hold everything that a decision rests on against what it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.markup import escape

from harness.cli.app import out
from harness.cli.places import Dataset, Left, left_by_run, one_of
from harness.cli.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.stages.verify import Verified


def register(app: typer.Typer) -> None:
    """Put ``verify`` on the command line."""
    app.command()(verify)


def verify(dataset: Dataset = "", left: Left = None) -> None:
    """Recompute every digest that a decision rests on, and print what was held.

    Judgements, queries, documents, manifests, runs, scores, comparisons, race times, policy,
    receipts, card and dvc.lock; nothing is written and no index is opened. Exit codes: 0 all is as
    it was decided, 2 a file is gone or was changed, and is named.
    """
    from harness.stages.verify import verify as stage
    from harness.stages.verify import verify_exports, verify_sources

    one_of(dataset, left)
    if left:
        layout = left_by_run(left)
        _show(layout.root.name, (*stage(layout), *verify_exports(left, layout)))
        return
    project = Project.here()
    for name in [dataset] if dataset else project.params.datasets:
        layout = project.layout(name)
        _show(name, (*stage(layout), *verify_sources(project.root, layout)))


def _show(dataset: str, found: Iterable[Verified]) -> None:
    out.print(f"\n[bold]{escape(dataset)}[/bold] is as it was decided")
    for one in found:
        out.print(f"  {escape(one.what):<20} {escape(one.said)}")
