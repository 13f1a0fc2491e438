"""Differences that ``harness decompose`` took apart, kept for the explorer."""

from __future__ import annotations

from harness.core.errors import BadFile
from harness.core.files import write_json
from harness.core.formats import json_file
from harness.report.explore.stages import HINT, from_json
from harness.report.explore.stages_table import Decomposed, to_json
from harness.report.inputs import Apart
from harness.stages.layout import Layout

FOLDER = "apart"


def keep(layout: Layout, decomposed: Decomposed) -> None:
    """Write it where the next report finds it; an earlier one of the same arms goes."""
    write_json(layout.today / FOLDER / f"{'~'.join(decomposed.names)}.json", to_json(decomposed))


def kept(layout: Layout) -> tuple[Apart, ...]:
    """Read all that is kept, by name.

    Raises:
        BadFile: one of the files is not what was kept.
    """
    found = []
    for path in sorted((layout.today / FOLDER).glob("*.json")):
        try:
            written = json_file(path)
        except ValueError as exc:
            raise BadFile(path, f"not JSON ({exc})", HINT) from exc
        found.append(from_json(written, path))
    return tuple(found)
