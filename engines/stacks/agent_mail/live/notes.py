"""What an index has reached: a small file beside it, written after the index itself.

A process that is killed in between leaves an index that holds more than its note says. What is
applied again then is the same, so nothing is in an index twice.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from harness.core.files import write_json
from harness.core.formats import json_file

FILE = "generation.json"


@dataclass(slots=True)
class Note:
    """The note of one index; it is read again when its file has changed."""

    path: Path
    _seen: tuple[int, int, int] | None = field(default=None, init=False)
    _said: tuple[int, str] | None = field(default=None, init=False)

    def write(self, generation: int, of: str = "") -> None:
        """Note that an index has reached ``generation``; ``of`` tells the index from another one.

        Raises:
            OSError: the file cannot be written.
        """
        write_json(self.path, {"generation": generation, "of": of})

    def read(self, of: str = "") -> int | None:
        """Read what the index ``of`` has reached; None where that is not known."""
        seen = self._stamp()
        if seen is None or seen != self._seen:
            self._said = self._read()
            self._seen = seen
        return self._said[0] if self._said is not None and self._said[1] == of else None

    def _read(self) -> tuple[int, str] | None:
        try:
            found = json_file(self.path)
            generation, of = found["generation"], found["of"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return (generation, of) if type(generation) is int and type(of) is str else None

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self.path)  # noqa: PTH116  at every query: half of Path.stat
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size
