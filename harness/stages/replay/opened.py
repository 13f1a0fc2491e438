"""An arm's index as another process opens it: once, and kept for the batches that follow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import local

from engines import registry
from harness.core.engine import Manifest, Searcher
from harness.stages.custody.proof import check_same
from harness.stages.layout import Layout
from harness.stages.replay.tally import Tally

_kept = local()
"""Of each thread: which index it has open, what closes it, and its searcher."""


@dataclass(frozen=True, slots=True)
class OpenedIndex:
    """Which index, by its folders and its manifest."""

    layout: Layout
    arm: Path
    """The arm's file."""
    cache: Path
    manifest: Manifest

    @classmethod
    def of(cls, layout: Layout, arm: Path, cache: Path, manifest: Manifest) -> OpenedIndex:
        """Name its folders so that a process that works elsewhere finds them."""
        places = (layout.root.absolute(), layout.today.absolute(), layout.cache.absolute())
        return cls(Layout(*places), arm.absolute(), cache.absolute(), manifest)

    @contextmanager
    def __call__(self) -> Iterator[Searcher]:
        """Give the open index.

        Raises:
            InvalidArm: it cannot be opened, or is another one.
        """
        if getattr(_kept, "of", None) != self:
            close()
            with ExitStack() as opened:
                arm = registry.load(str(self.arm), self.cache)
                searcher = opened.enter_context(arm.open(self.layout.index(arm.name)))
                check_same(self.layout, arm.name, self.manifest, searcher.manifest)
                _kept.of, _kept.searcher = self, Tally(searcher)
                _kept.until = opened.pop_all()
        yield _kept.searcher


def close() -> None:
    """Close the index that this thread has open."""
    if hasattr(_kept, "until"):
        _kept.until.close()
    _kept.__dict__.clear()
