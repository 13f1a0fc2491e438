"""MCP over the standard streams of this process: bounded, interruptible, and answered to the end.

The streams are waited for, and no thread stands in a read of them: an interrupt ends a server as
soon as the calls that run have ended. What engines print goes to the error stream meanwhile, as
with the SDK's own streams.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from stat import S_ISREG
from typing import Any, cast

import anyio
from anyio.lowlevel import checkpoint
from mcp.server.stdio import stdio_server
from mcp.types import INVALID_REQUEST, JSONRPCNotification, JSONRPCRequest
from pydantic_core import from_json

from harness.core.errors import HarnessError
from harness.core.serving.lines import (
    MAX_MESSAGE_BYTES,
    TAKEN,
    Lines,
    Refused,
    error,
    message_of,
)

READ_BYTES = 65_536
MAX_UNANSWERED = 256
"""Requests; no line more is read until one of them is answered."""
CANCELLED = "notifications/cancelled"
GONE = (errno.EPIPE, errno.ECONNRESET, errno.EIO)
"""What a pipe, a socket and a terminal say when nothing is at their other end."""


@asynccontextmanager
async def pipes(most: int = MAX_MESSAGE_BYTES) -> AsyncIterator[Any]:
    """Give the two streams that a server of the SDK runs on; a line may have so many bytes.

    They end when the input has ended and each of its requests has an answer.

    Raises:
        ExceptionGroup: of a HarnessError where the reader of the output is gone, or of a
            StreamFailed.
    """
    if sys.stdout is not None:
        sys.stdout.flush()
    nothing, errors = os.open(os.devnull, os.O_RDONLY), os.dup(2)
    with _elsewhere(0, nothing) as reads, _elsewhere(1, errors) as writes:
        output = Output(writes)
        given = Input(reads, output, most)
        async with stdio_server(cast("Any", given), cast("Any", output)) as streams:
            yield streams


class StreamFailed(OSError):
    """The system refused a standard stream of this process."""


class Output:
    """Writes answers, and knows which requests have none yet."""

    def __init__(self, number: int) -> None:
        """Write to the descriptor ``number``."""
        self._number, self._waiting, self._fewer = number, set[Hashable](), anyio.Event()
        self._lock = anyio.Lock()

    async def write(self, text: str) -> None:
        """Write a message of the server; an answer settles its request.

        Raises:
            HarnessError: whoever reads them is gone.
            StreamFailed: the system refused it.
        """
        await self._send(text)
        message = from_json(text)
        if "method" not in message:
            self.settled(message["id"])

    async def refuse(self, given: Any, code: int, said: str) -> None:  # noqa: ANN401  any JSON
        """Answer a line that the server does not see; an id is not used that awaits its answer.

        Raises:
            HarnessError: whoever reads them is gone.
            StreamFailed: the system refused it.
        """
        taken = isinstance(given, int | str) and self.awaits(given)
        await self._send(f"{error(None if taken else given, code, said)}\n")

    async def _send(self, text: str) -> None:
        async with self._lock:
            left = memoryview(text.encode())
            while left:
                await _ready(anyio.wait_writable, self._number)
                left = left[_written(self._number, left[: select.PIPE_BUF]) :]

    async def flush(self) -> None:
        """Do nothing: what is written is on its way."""

    def begun(self, given: Hashable) -> None:
        """Note a request that is to be answered."""
        self._waiting.add(key_of(given))

    def settled(self, given: Hashable) -> None:
        """Note that a request has its answer, or will have none."""
        self._waiting.discard(key_of(given))
        self._fewer.set()
        self._fewer = anyio.Event()

    def awaits(self, given: Hashable) -> bool:
        """Tell whether a request of that id has no answer yet."""
        return key_of(given) in self._waiting

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
            data = _read(self._number)
            for line in lines.fed(data) if data else [lines.last()]:
                if line.strip() and await self._passes(line):
                    yield line.decode()
        await self._output.fewer_than(1)

    async def _passes(self, line: bytes) -> bool:
        """Tell whether the server is to see a line, and note what it will answer.

        The SDK holds 1 and "1" for one id, answers no request that is called off, and forgets one
        whose id comes twice. So it is called off only where it has no answer, and an id is its own.
        """
        try:
            message = message_of(line, self._most)
        except Refused as exc:
            await self._output.refuse(exc.given, exc.code, exc.said)
            return False
        if isinstance(message, JSONRPCRequest):
            if self._output.awaits(message.id):
                await self._output.refuse(None, INVALID_REQUEST, TAKEN)
                return False
            await self._output.fewer_than(MAX_UNANSWERED)
            self._output.begun(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == CANCELLED:
            given = _called_off(message.params)
            if not self._output.awaits(given):
                return False
            self._output.settled(given)
        return True


def key_of(given: Hashable) -> Hashable:
    """Give the number that a text writes, and any other id as it is."""
    if isinstance(given, str):
        with suppress(ValueError):
            return int(given)
    return given


def _called_off(params: Any) -> Hashable:  # noqa: ANN401  any JSON
    """Read the id of the request that is called off; None where the message is malformed."""
    match params:
        case {"requestId": int() | str() as given} if not isinstance(given, bool):
            return given if isinstance(params.get("reason", ""), str | None) else None
    return None


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


def _read(number: int) -> bytes:
    """Read what is there; nothing where the input has ended or its writer is gone."""
    try:
        return os.read(number, READ_BYTES)
    except OSError as exc:
        if not _is_gone(exc, number):
            raise StreamFailed(*exc.args) from exc
        return b""


def _written(number: int, part: memoryview) -> int:
    try:
        return os.write(number, part)
    except OSError as exc:
        if not _is_gone(exc, number):
            raise StreamFailed(*exc.args) from exc
        raise HarnessError("the reader of the output is gone") from exc


def _is_gone(exc: OSError, number: int) -> bool:
    """Tell whether an error says that the other end is gone; that of a file is of its disk."""
    return exc.errno in GONE and not S_ISREG(os.fstat(number).st_mode)
