"""``harness clicks``."""

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.command import Result, command, group, said
from harness.cli.project import Project

clicks = group("clicks", "Which engine users prefer by their clicks on mixed lists.")


@command(clicks)
def report(
    log: Annotated[Path, typer.Argument(help="Folder of the log of an Interleaver.")],
) -> Result:
    """Report which engine users prefer, with an interval that may be read at any time.

    A click counts for the engine that added the document. A user prefers the engine with more
    clicks over all lists, and counts once. Users who click as robots do are left out and counted.
    With several candidates the intervals are corrected. The confidence is that of params.yaml.

    Example: harness clicks report out/clicks
    """
    from harness.clicks.credit import preferences, read

    confidence = Project.here().params.score.confidence
    return said(*preferences(read(log), confidence=confidence).sentences())
