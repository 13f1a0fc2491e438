"""An index that is built anew while it is opened: no searcher has the files of two.

``harness index`` lets a new folder take the place of the old one in one step, but an engine opens
several files one after the other. What was opened in between is closed and opened again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic

from harness.core.engine import Engine, Searcher
from harness.core.errors import IndexNotReady

PATIENCE_S = 30.0
"""How long an index is opened again and again."""


@contextmanager
def opened_whole(engine: Engine, index: Path) -> Iterator[Searcher]:
    """Open an index; whatever its engine raises, it raises of one index.

    Raises:
        IndexNotReady: it never stays the same for as long as it takes to open it.
    """
    until = monotonic() + PATIENCE_S
    with ExitStack() as until_closed:
        while (searcher := _tried(engine, index, until_closed)) is None:
            if monotonic() >= until:
                raise IndexNotReady(f"{index}: is built anew all the time. Open it after that")
        yield searcher


def _tried(engine: Engine, index: Path, until_closed: ExitStack) -> Searcher | None:
    """Open an index; None, and nothing open, where it was replaced meanwhile."""
    with _stays(index) as stays, ExitStack() as attempt:
        try:
            searcher = attempt.enter_context(engine.open(index))
        except Exception:
            if stays():
                raise
            return None
        if not stays():
            return None
        until_closed.push(attempt.pop_all())
        return searcher


@contextmanager
def _stays(index: Path) -> Iterator[Callable[[], bool]]:
    """Give what tells whether the folder is still the one that it was, or still not there.

    The folder is kept open, so that no other one gets its number.
    """
    try:
        folder = os.open(index, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield lambda: not index.exists()
        return
    try:
        yield lambda: index.exists() and os.path.samestat(os.fstat(folder), index.stat())
    finally:
        os.close(folder)
