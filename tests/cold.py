"""In tests what was written is read from its file, as another process reads it.

A process that goes from stage to stage hands values on (``harness.core.store``). A test that writes
and reads would then try neither half.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from harness.core.store import Artifact

T = TypeVar("T")
handing_on = Artifact.write
"""As the product has it; for tests of just that."""


def forget() -> None:
    """Make each write forget what the process knows of such files."""
    Artifact.write = _forgetting  # type: ignore[method-assign]


def _forgetting(self: Artifact[T], path: Path, value: T, *, durable: bool = False) -> None:
    handing_on(self, path, value, durable=durable)
    self._known.clear()
