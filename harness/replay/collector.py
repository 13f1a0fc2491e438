"""The garbage collector keeps out of times: what was made before them is set aside for a while."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the collector from running inside somebody's time."""
    was_on = gc.isenabled()
    with setting_aside() as set_aside:
        set_aside()
        gc.disable()
        try:
            yield
        finally:
            if was_on:
                gc.enable()


@contextmanager
def setting_aside() -> Iterator[Callable[[], None]]:
    """Give a call after which the collector does not look at what was made up to it.

    At the end it looks again, but where something was set aside before: a server that froze its
    start before it forked keeps that.
    """
    others = gc.get_freeze_count() > 0
    try:
        yield _set_aside
    finally:
        if not others:
            gc.unfreeze()


def _set_aside() -> None:
    gc.collect()
    gc.freeze()
