"""Servers that signals call off, whatever runs just then."""

from __future__ import annotations

import signal
import threading
from asyncio import get_running_loop
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import FrameType

import anyio
from anyio import CancelScope, Event

from harness.core.errors import HarnessError, first_of

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Serve = Callable[[], Awaitable[None]]


def run_until_signalled(serve: Serve) -> None:
    """Run a server; SIGINT, SIGTERM and SIGHUP call it off, and more of them change nothing.

    Python would raise an interrupt in whichever task runs just then. What ``nohup`` has made deaf
    stays so.

    Raises:
        KeyboardInterrupt: a signal came, whatever broke because of it.
        HarnessError: what serves called ``exit``, whose code is a verdict's.
        Exception: the first of the failures that ended the server.
    """
    if threading.current_thread() is not threading.main_thread():
        anyio.run(serve)
        return
    ending = _Ending()
    try:
        anyio.run(ending.heard_by, serve)
    except BaseException as exc:  # noqa: BLE001  what was called off may break in any way
        if not ending.came:
            raise _told(exc) from None
    finally:
        ending.settle()
    if ending.came:
        raise KeyboardInterrupt


class _Ending:
    """Hears signals from the start of a server on; those after the first are the same one."""

    def __init__(self) -> None:
        self.came = False
        self._before = {one: signal.getsignal(one) for one in ENDING}

    async def heard_by(self, serve: Serve) -> None:
        """Run ``serve``, and call it off when a signal comes."""
        wake, called_off = get_running_loop().call_soon_threadsafe, Event()

        def hear(_: int, __: FrameType | None) -> None:
            if not self.came:
                self.came = True
                with suppress(RuntimeError):  # the loop has closed: the server is at its end
                    wake(called_off.set)

        for one, handler in self._before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(one, hear)
        async with anyio.create_task_group() as group:
            group.start_soon(_ends, called_off, group.cancel_scope)
            await serve()
            group.cancel_scope.cancel()

    def settle(self) -> None:
        """Give signals back to whoever had them; where one came, the program is about to end."""
        if not self.came:
            for one, handler in self._before.items():
                signal.signal(one, handler)


async def _ends(called_off: Event, scope: CancelScope) -> None:
    await called_off.wait()
    scope.cancel()


def _told(exc: BaseException) -> BaseException:
    """Give the first failure; its own traceback says where it came from."""
    first = first_of(exc)
    if isinstance(first, SystemExit):
        return HarnessError(f"what serves called exit({first.code!r}). Correct it, and start again")
    return first
