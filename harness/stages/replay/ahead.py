"""The second replay, asked by a process beside the one that asks the first.

What both ask lasts in parts. So this is only a matter of time: what the other process did not do,
or could not, the first does after it, and what goes wrong goes wrong there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from engines.registry import Arm
from harness.core.batches.mapping import current
from harness.core.errors import HarnessError
from harness.core.progress import progress
from harness.replay.drive import PART
from harness.replay.fresh import Work, started
from harness.replay.machine import usable_cores

WORTH: Final = PART
"""Queries from which on a process pays for its start."""


@contextmanager
def ahead(arm: Arm, queries: int, work: Work) -> Iterator[Callable[[], bool]]:
    """Begin ``work`` in a process of its own, where the arm allows it and a processor is free.

    Where other processes share the queries anyway, there is nothing to begin. The block is given a
    call that waits for the work, shows how far it is, and tells whether it was done.
    """
    free = usable_cores() > 1 and current().folder is None
    if not (arm.shared and queries >= WORTH and free):
        yield lambda: False
        return
    with started(work) as follow:

        def wait() -> bool:
            try:
                with progress(f"asking {arm.name} again", queries) as advance:
                    follow(advance)
            except HarnessError:
                return False
            return True

        yield wait
