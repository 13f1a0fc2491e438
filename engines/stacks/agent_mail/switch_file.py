"""The kill switch in a file: ``SEARCH_ENGINE=value``, read at the start and when it changes."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from pathlib import Path

from engines.stacks.agent_mail.pipeline.plan import KillSwitch
from harness.core.errors import BadFile, UnknownName
from harness.core.reading import Malformed, text_of

LOG = logging.getLogger("engines.mail.switch")
NAME = "SEARCH_ENGINE"
HINT = f"Write one line {NAME}=fts5, tantivy, shadow, hybrid or hybrid_rerank"


def value_in(path: Path) -> str:
    """Read the value of ``SEARCH_ENGINE`` in a file of ``NAME=value`` lines; ``#`` is a comment.

    Raises:
        BadFile: the file cannot be read, or does not set it exactly once.
    """
    try:
        lines = text_of(path).splitlines()
    except (OSError, Malformed) as exc:
        raise BadFile(path, f"cannot be read ({exc})", HINT) from exc
    said = [line.split("=", 1) for line in lines if line.strip() and not line.startswith("#")]
    values = [pair[-1].strip().strip("\"'") for pair in said if pair[0].strip() == NAME]
    if len(values) != 1:
        raise BadFile(path, f"sets {NAME} {len(values)} times", HINT)
    return values[0]


@dataclass(slots=True)
class SwitchFile:
    """The file, and what it said last. A file that is spoilt later changes nothing: it is logged.

    ``read`` costs one ``stat`` where nothing changed.
    """

    path: Path
    _seen: tuple[int, int, int] = field(init=False)
    _value: KillSwitch | None = field(init=False)

    def __post_init__(self) -> None:
        """Read the file.

        Raises:
            BadFile: it cannot be read or does not set the switch once.
            UnknownName: it names no engine; a typing error must not choose one.
        """
        self._seen = self._stamp()
        self._value = KillSwitch.read(value_in(self.path))

    def read(self) -> KillSwitch | None:
        """Give what the file says now, or said when it could last be read."""
        seen = self._stamp()
        if seen != self._seen:
            self._seen = seen
            try:
                self._value = KillSwitch.read(value_in(self.path))
                LOG.warning("%s is now %s", NAME, self._value or "unset")
            except (BadFile, UnknownName) as exc:
                LOG.error("%s stays %s: %s", NAME, self._value or "unset", exc)  # noqa: TRY400  said
        return self._value

    def _stamp(self) -> tuple[int, int, int]:
        """Give what changes when the file is replaced; zeros where it is gone."""
        try:
            found = os.stat(self.path)  # noqa: PTH116  at every question: half of Path.stat
        except OSError:
            return 0, 0, 0
        return found.st_mtime_ns, found.st_ino, found.st_size
