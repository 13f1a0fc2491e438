"""What a worker opens: an arm's index, by name, in whatever process it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engines import registry
from harness.core.engine import Searcher
from harness.core.errors import IndexNotReady


@dataclass(frozen=True, slots=True)
class Opener:
    """A value that a new process can be sent."""

    arm: str
    """Name of the arm or path to its TOML file."""
    index: Path
    cache: Path
    fingerprint: str
    """Of the index that the arm was replayed on."""

    @contextmanager
    def __call__(self) -> Iterator[Searcher]:
        """Open the arm.

        Raises:
            IndexNotReady: the index is another than the one that the arm was replayed on.
        """
        arm = registry.load(self.arm, self.cache)
        with arm.open(self.index) as searcher:
            if searcher.manifest.fingerprint != self.fingerprint:
                raise IndexNotReady(
                    f"{self.index}: is not the index that {arm.name} was replayed on. Run: harness"
                    f" index --arm {arm.name}, then: harness replay --arm {arm.name}"
                )
            yield searcher
