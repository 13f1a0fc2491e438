"""Work done in a process that has done nothing else, and ends with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection

from harness.core.errors import HarnessError, InvalidArm

Advance = Callable[[int], object]
Work = Callable[[Advance], None]
"""Does something, leaves it in a file, and tells how far it is; sent to a process, so a value."""
STOPPED_S = 5.0


def in_fresh_process(work: Work, advance: Advance) -> None:
    """Start Python anew (spawn), do ``work`` there, and wait.

    Raises:
        HarnessError: ``work`` raised one.
        InvalidArm: it raised something else, or its process died.
    """
    with started(work) as follow:
        follow(advance)


@contextmanager
def started(work: Work) -> Iterator[Callable[[Advance], None]]:
    """Start Python anew (spawn) and do ``work`` there; give a call that waits for its end.

    The call is told to whom ``work`` reports, and raises as ``in_fresh_process`` does. Without it,
    the process ends where the block ends.
    """
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_process, args=(work, theirs), daemon=True)
    child.start()
    theirs.close()

    def follow(advance: Advance) -> None:
        try:
            _follow(ours, advance)
            child.join(STOPPED_S)
        except EOFError:
            child.join(STOPPED_S)
            raise InvalidArm(
                f"its process died with exit code {child.exitcode} before it was done. What was"
                " done before is kept: run the same command again, or look for what killed it"
            ) from None

    try:
        yield follow
    finally:
        if child.is_alive():
            child.terminate()
        child.join(STOPPED_S)
        ours.close()


def _follow(ours: Connection, advance: Advance) -> None:
    """Hand on how far the work is, until it is done or has failed."""
    while (told := ours.recv()) is not None:
        if isinstance(told, int):
            advance(told)
            continue
        raised, said = told
        raise raised(said)


def _process(work: Work, theirs: Connection) -> None:
    """Be the process."""
    try:
        work(theirs.send)
    except KeyboardInterrupt:
        return
    except HarnessError as exc:
        theirs.send((HarnessError, str(exc)))
    except BaseException as exc:  # noqa: BLE001  a panic of a Rust engine is no Exception
        theirs.send((InvalidArm, f"{type(exc).__name__}: {exc}"))
    else:
        theirs.send(None)
