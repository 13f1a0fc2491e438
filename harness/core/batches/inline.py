"""Batches done in this process, by one thread or several."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event

from harness.core.batches.batch import Advance, Batch, Work, written


class Inline:
    """Does batches in their order. After an error or an interrupt no other step is begun."""

    folder = None

    def each(self, work: Work, batches: Sequence[Batch], advance: Advance, threads: int) -> None:
        stop = Event()

        def do(batch: Batch) -> None:
            if stop.is_set():
                return
            with closing(written(work, batch)) as steps:
                for done in steps:
                    advance(done)
                    if stop.is_set():
                        break

        if threads == 1:
            for batch in batches:
                do(batch)
            return
        with ThreadPoolExecutor(threads) as pool:
            try:
                for _ in pool.map(do, batches):
                    pass
            finally:
                stop.set()
