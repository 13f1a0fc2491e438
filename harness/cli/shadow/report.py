"""``harness shadow report``: a live comparison as a page, and as JSON."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.base.app import out
from harness.cli.base.called import called
from harness.cli.base.places import own
from harness.cli.shadow.options import (
    BoundsFile,
    Folders,
    RegisterFile,
    bounds_file,
    suppressions_file,
    today,
)


def add(group: typer.Typer) -> None:
    """Put ``report`` into the group."""
    group.command("report")(report)


def report(
    folders: Folders,
    *,
    to: Annotated[Path, typer.Option("--out", help="Folder for index.html and shadow.json.")],
    top: Annotated[int, typer.Option(min=0, help="Queries that are shown side by side.")] = 20,
    bounds: BoundsFile = None,
    suppressions: RegisterFile = None,
) -> None:
    """Write what a live comparison says so far: a page that loads nothing, and JSON.

    Example: harness shadow report out/shadow --out out/shadow-report
    """
    from harness.core.durable.owned import SHADOW_REPORT
    from harness.report.shadow.words import headline
    from harness.stages.shadow.report import shadow_report

    watched, accepted = bounds_file(bounds), suppressions_file(suppressions)
    own(to, SHADOW_REPORT, *folders, watched, accepted)
    written = shadow_report(
        folders,
        to,
        bounds=watched,
        suppressions=accepted,
        today=today(),
        top=top,
        commands=(f"{called()} {shlex.join(sys.argv[1:])}",),
    )
    out.print(headline(written.found), markup=False)
    out.print(f"The page: {written.page}", markup=False)
