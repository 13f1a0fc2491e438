"""Stages read a model once, and write pages whose pictures are empty."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError, local

import pytest

A_MOMENT_S = 0.2
AtOnce = Callable[[Sequence[Callable[[], object]]], list[object]]


@pytest.fixture(autouse=True, scope="module")
def quick(read_once: None, none_drawn: None) -> None:
    """Read a model once for all stages, and write empty pictures on pages."""


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> AtOnce:
    """Run functions at once; each waits a moment for the others before its first rename.

    Without a lock around reading, changing and writing, one then overwrites another.
    """

    def run(writers: Sequence[Callable[[], object]]) -> list[object]:
        met, mine, renamed = Barrier(len(writers)), local(), Path.replace

        def replace_late(self: Path, target: Path) -> Path:
            if not getattr(mine, "met", False):
                mine.met = True
                with suppress(BrokenBarrierError):
                    met.wait(A_MOMENT_S)
            return renamed(self, target)

        with monkeypatch.context() as patched, ThreadPoolExecutor(len(writers)) as threads:
            patched.setattr(Path, "replace", replace_late)
            return [found.result() for found in [threads.submit(one) for one in writers]]

    return run
