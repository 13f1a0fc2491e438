"""MCP over the standard streams of this process: bounded, interruptible, and answered to the end.

The streams are waited for, and no thread stands in a read of them: an interrupt ends a server at
once. What engines print goes to the error stream meanwhile, as with the SDK's own streams.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

import anyio
from anyio.lowlevel import checkpoint
from mcp.server.stdio import stdio_server
from pydantic_core import from_json

from harness.core.errors import HarnessError
from harness.core.serving.lines import MAX_MESSAGE_BYTES, Lines, refusal

READ_BYTES = 65_536
MAX_UNANSWERED = 256
"""Requests; no line more is read until one of them is answered."""
CANCELLED = "notifications/cancelled"


@asynccontextmanager
async def pipes(most: int = MAX_MESSAGE_BYTES) -> AsyncIterator[Any]:
    """Give the two streams that a server of the SDK runs on; a line may have so many bytes.

    They end when the input has ended and each of its requests has an answer.

    Raises:
        ExceptionGroup: of a HarnessError where the reader of the output is gone, or of an OSError.
    """
    if sys.stdout is not None:
        sys.stdout.flush()
    nothing, errors = os.open(os.devnull, os.O_RDONLY), os.dup(2)
    with _elsewhere(0, nothing) as reads, _elsewhere(1, errors) as writes:
        output = Output(writes)
        given = Input(reads, output, most)
        async with stdio_server(cast("Any", given), cast("Any", output)) as streams:
            yield streams


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP do to ``anyio.run`` what an interrupt does: it is called off.

    An exception that a handler raises would be that of whichever task runs just then. What
    ``nohup`` has made deaf stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {one: signal.getsignal(one) for one in numbers}
    for one, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(one, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def first_of(exc: BaseException) -> BaseException:
    """Give the first failure of a group."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc


class Output:
    """Writes answers, and knows which requests have none yet."""

    def __init__(self, number: int) -> None:
        """Write to the descriptor ``number``."""
        self._number, self._waiting, self._fewer = number, set[Hashable](), anyio.Event()
        self._lock = anyio.Lock()

    async def write(self, text: str) -> None:
        """Write a message.

        Raises:
            HarnessError: whoever reads them is gone.
        """
        async with self._lock:
            left = memoryview(text.encode())
            while left:
                await _ready(anyio.wait_writable, self._number)
                left = left[_written(self._number, left[: select.PIPE_BUF]) :]
        message = from_json(text)
        if "method" not in message:
            self.settled(message["id"])

    async def flush(self) -> None:
        """Do nothing: what is written is on its way."""

    def begun(self, given: Hashable) -> None:
        """Note a request that is to be answered."""
        self._waiting.add(given)

    def settled(self, given: Hashable) -> None:
        """Note that a request has its answer, or will have none."""
        self._waiting.discard(given)
        self._fewer.set()
        self._fewer = anyio.Event()

    async def fewer_than(self, most: int) -> None:
        """Wait until fewer requests than ``most`` have no answer."""
        while len(self._waiting) >= most:
            await self._fewer.wait()


class Input:
    """Reads messages, and answers malformed lines."""

    def __init__(self, number: int, output: Output, most: int) -> None:
        """Read the descriptor ``number`` in lines of at most so many bytes."""
        self._number, self._output, self._most = number, output, most

    async def __aiter__(self) -> AsyncIterator[str]:
        """Give each message; end when the requests among them are answered."""
        lines, data = Lines(self._most), b" "
        while data:
            await _ready(anyio.wait_readable, self._number)
            data = os.read(self._number, READ_BYTES)
            for line in lines.fed(data) if data else [lines.last()]:
                if not line.strip():
                    continue
                if refused := refusal(line, self._most):
                    await self._output.write(f"{refused}\n")
                    continue
                await self._output.fewer_than(MAX_UNANSWERED)
                self._note(from_json(line))
                yield line.decode()
        await self._output.fewer_than(1)

    def _note(self, message: Any) -> None:  # noqa: ANN401  any JSON-RPC
        """Note a request as one to be answered, and one that is called off as settled."""
        if "method" not in message:
            return
        if "id" in message:
            self._output.begun(message["id"])
        elif message["method"] == CANCELLED:
            called_off = (message.get("params") or {}).get("requestId")
            self._output.settled(called_off if isinstance(called_off, int | str) else None)


@contextmanager
def _elsewhere(number: int, instead: int) -> Iterator[int]:
    """Move a standard stream to a descriptor of its own, with ``instead`` in its place."""
    moved = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3)
    os.dup2(instead, number)
    os.close(instead)
    try:
        yield moved
    finally:
        os.dup2(moved, number)
        os.close(moved)


async def _ready(waits: Callable[[int], Awaitable[None]], number: int) -> None:
    """Wait until a stream is ready; a file always is, and the system refuses to watch it."""
    try:
        await waits(number)
    except PermissionError:
        await checkpoint()


def _written(number: int, part: memoryview) -> int:
    try:
        return os.write(number, part)
    except OSError as exc:
        if exc.errno != errno.EPIPE:
            raise
        raise HarnessError("the reader of the output is gone") from exc
