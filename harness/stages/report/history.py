"""The rolling history of a data set's decisions, and the page of its trends."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from harness.core import digest
from harness.core.errors import BadFile, EvidenceError
from harness.core.files import write_text
from harness.core.formats import json_file
from harness.core.names import checked
from harness.report.trends import history
from harness.report.trends.page import to_page
from harness.stages.gate import read_decision
from harness.stages.layout import Layout

SUFFIX = ".jsonl"


def add(layout: Layout, folder: Path, *, commit: str, held: Callable[[], object]) -> bool:
    """Add the decision in ``layout`` to its history below ``folder``; tell whether it was new.

    ``held`` counts every digest below the decision again, and raises where one differs.

    Raises:
        EvidenceError: something below the decision was changed.
        BadFile: the decision is missing, or the history is not one.
    """
    read_decision(layout)
    held()
    (about,) = json_file(layout.decision)["datasets"]
    sha256 = digest.of_file(layout.decision)
    entry = history.entry_of(about, decision_sha256=sha256, commit=commit)
    name = checked("a data set", entry.dataset)
    return history.add(folder / f"{name}{SUFFIX}", entry)


def page(folder: Path, to: Path) -> int:
    """Write the page of all histories below ``folder``, and give how many decisions it shows.

    Raises:
        EvidenceError: no race is there.
        BadFile: a line is not an entry.
    """
    files = sorted(folder.glob(f"*{SUFFIX}"))
    found = {path.stem: history.read(path) for path in files}
    if not found:
        raise EvidenceError(f"{folder}: holds no history. Run: harness history add")
    write_text(to, to_page(found))
    return sum(map(len, found.values()))


def is_history(folder: Path) -> bool:
    """Tell whether all lines of a folder's files, of which there are some, are histories."""
    files = sorted(folder.glob(f"*{SUFFIX}"))
    try:
        return all(map(history.read, files)) and bool(files)
    except BadFile:
        return False


def commit_of(root: Path) -> str:
    """Name the commit of a project, a plus sign after it where files differ; empty without git."""
    head = _git(root, "rev-parse", "--short=12", "HEAD")
    if not head:
        return ""
    return f"{head}+" if _git(root, "status", "--porcelain", "--untracked-files=no") else head


def _git(root: Path, *words: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603  our own words
            ["git", "-C", str(root), *words],  # noqa: S607  the one on the path
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return done.stdout.strip() if not done.returncode else ""
