"""The one seam through which work is shared: every batch once, whoever does it.

A part file appears whole or not at all, under a name that tells all that it depends on. So work
that was killed goes on where it was, and no byte depends on which process did which batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path

from harness.core.batches.batch import Advance, Batch, Executor, Work
from harness.core.batches.inline import Inline

_HERE: Executor = Inline()
_current: ContextVar[Executor] = ContextVar("executor", default=_HERE)


def current() -> Executor:
    """Give the executor of the block: this process, unless ``using`` says otherwise."""
    return _current.get()


@contextmanager
def using(executor: Executor) -> Iterator[None]:
    """Let ``executor`` do the batches of the block."""
    before = _current.set(executor)
    try:
        yield
    finally:
        _current.reset(before)


def map_batches(
    work: Work,
    batches: Sequence[Batch],
    *,
    advance: Advance = lambda _: None,
    whole: Callable[[Path], bool] = Path.is_file,
    threads: int = 1,
) -> None:
    """Do every batch whose part file is not ``whole``; afterwards all are.

    Raises:
        HarnessError: as ``Executor.each``. Parts that are whole stay, and are not made twice.
    """
    missing = []
    for batch in batches:
        if whole(batch.part):
            advance(batch.steps)
        else:
            missing.append(replace(batch, part=batch.part.absolute()))
    current().each(work, missing, advance, threads)
