"""``harness reproduce``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.cli.command import Result, app, command, said
from harness.cli.options import Dataset, Record
from harness.cli.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.trust.reproduce import Reproduced


@command(app)
def reproduce(dataset: Dataset = "", *, record: Record = False) -> Result:
    """Compare what the pipeline made here with the record in the repository.

    For each data set: whether every output is byte-identical, or which stages differ; whether a
    verdict moved, and how this machine differs from the recorded one. Reads files only.
    Exit codes: 0 identical, or the same verdicts; 2 a verdict moved, or a file is missing.
    """
    from harness.trust.reproduce import record as write
    from harness.trust.reproduce import reproduce

    project, lines, moved = Project.here(), [], False
    for name in project.datasets(dataset):
        if record:
            folder = write(project.root, project.layout(name))
            lines.append(f"recorded {folder}; commit it with dvc.lock")
            continue
        found = reproduce(project.root, project.layout(name))
        lines += reproduced(found)
        moved = moved or bool(found.decisions)
    return Result(said(*lines).doc, 2 if moved else 0)


def reproduced(found: Reproduced) -> Iterator[str]:
    """Yield the comparison of one data set, the answer first."""
    if found.exact:
        yield f"{found.dataset}: all {found.compared} recorded outputs are byte-identical"
        return
    verdicts = "a verdict moved" if found.decisions else "every verdict is the same"
    differ = len(found.differ)
    yield f"{found.dataset}: {differ} of {found.compared} recorded outputs differ; {verdicts}"
    yield from (f"  moved     {line}" for line in found.decisions)
    yield from (f"  differs   {line}" for line in found.differ)
    yield from (f"  machine   {line}" for line in found.environment)
    if not found.environment:
        yield "  machine   no feature, package or SQLite differs: the cause is elsewhere"
