"""``harness traffic``: take the log of a live comparison in as evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.base.app import out
from harness.cli.base.places import OneDataset, evidence_at
from harness.core.printable import counted, many


def register(app: typer.Typer) -> None:
    """Put ``traffic`` on the command line."""
    app.command()(traffic)


def traffic(
    logs: Annotated[list[Path], typer.Argument(help="Folders that the comparison wrote to.")],
    control: Annotated[str, typer.Option(help="The arm that served.")],
    candidate: Annotated[str, typer.Option(help="The arm that ran beside it.")],
    dataset: OneDataset = "",
    left: Annotated[
        Path | None,
        typer.Option("--out", help="What a `harness run` wrote, instead of the project."),
    ] = None,
) -> None:
    """Take what live traffic said of two arms in, for the gates of the policy that ask for it.

    Logs of several processes are put together. An attempt counts where the control answered by the
    index that lies here; gates named anytime_... judge what was counted, and may do so again
    after every further query. Writes perf/DATASET/traffic/, and asks no engine.

    Example: harness traffic logs/today --dataset python-docs --control fts5 --candidate tantivy
    """
    from harness.stages.shadow.traffic import traffic as stage

    found = stage(evidence_at(dataset, left, adds=True), control, candidate, logs)
    out.print(
        f"{many(found.attempted, 'attempt')} from {found.since} to {found.until}:"
        f" {len(found.failed)} count, {int(found.failed.sum())} of them unanswered"
    )
    out.print(f"  {counted(len(found.asked), 'different query')}", markup=False)
    for why, count in found.passed_over.items():
        out.print(f"  {count} {why}", markup=False)
