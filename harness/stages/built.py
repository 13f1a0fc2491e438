"""Indexes that a killed run had finished, so that the same command does not build them again.

A run notes each index that it built, with all that the index depends on, and forgets the notes when
it is done. A run that ended builds anew, so that an engine elsewhere says what it holds today.
"""

from __future__ import annotations

import platform
import sqlite3
from functools import cached_property
from pathlib import Path

from engines.contract import manifest
from engines.registry import Arm
from harness.core.batches.source import code_sha256
from harness.core.digest import of_files, of_json
from harness.core.durable.leftovers import sweep
from harness.core.errors import HarnessError
from harness.core.files import write_json
from harness.core.formats import json_file
from harness.corpus.prepared import Prepared
from harness.stages.custody.proof import read_manifest
from harness.stages.custody.provenance import versions
from harness.stages.index import check_index, sources
from harness.stages.layout import Layout

FILE = "built.json"


class Built:
    """What this run, or one that was killed before it, has built in ``layout``."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._path = layout.cache / FILE
        self._known = _read(self._path)

    def has(self, arm: Arm) -> bool:
        """Whether the arm's index is there, whole, and would be built the same again."""
        if self._known.get(arm.name) != self._key(arm):
            return False
        try:
            check_index(self._layout, arm)
            noted = read_manifest(self._layout, arm.name)
            return manifest.read(self._layout.index(arm.name)) == noted
        except HarnessError:
            return False

    def note(self, arm: Arm) -> None:
        """Note that the arm's index was built."""
        self._known[arm.name] = self._key(arm)
        write_json(self._path, self._known)

    def forget(self) -> None:
        """Note that the run is done; what a killed one was writing beside its notes goes too."""
        self._path.unlink(missing_ok=True)
        if self._path.parent.is_dir():
            sweep(self._path.parent)

    def _key(self, arm: Arm) -> str:
        """Digest of what an index depends on: code, packages, the arm and the documents."""
        documents = Prepared.open(self._layout.data).manifest.corpus_sha256
        return of_json([self._code, of_files(sources(arm)), documents])

    @cached_property
    def _code(self) -> str:
        """Digest of code and packages, which are those of this process for all arms of a run."""
        here = [platform.python_version(), sqlite3.sqlite_version, *versions().values()]
        return of_json([code_sha256(), here])


def _read(path: Path) -> dict[str, str]:
    """Read the notes of a run that was killed; what is none is as good as nothing."""
    try:
        found = json_file(path)
        return {str(arm): str(key) for arm, key in found.items()}
    except (OSError, ValueError, AttributeError):
        return {}
