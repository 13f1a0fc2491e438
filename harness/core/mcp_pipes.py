"""MCP over the standard streams of this process: the SDK's, with a bound on lines.

No thread stands in a read, so a signal ends a server at once. Requests before the end of the input
are answered. What engines print goes to the error stream.
"""

import errno
import fcntl
import json
import os
import re
import select
import signal
import sys
from asyncio import get_running_loop
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from stat import S_ISREG
from types import FrameType
from typing import Any, cast

import anyio
from anyio.lowlevel import checkpoint
from mcp.server.stdio import stdio_server
from mcp.types import JSONRPCNotification, JSONRPCRequest, jsonrpc_message_adapter
from pydantic import ValidationError
from pydantic_core import from_json

from harness.core.errors import HarnessError, first_of

MAX_MESSAGE_BYTES = 256 * 1024
"""Of one request; a query and its filters take a few hundred."""
READ_BYTES = 65_536
MAX_UNANSWERED = 256
"""Requests; no line more is read until one of them is answered."""
DRAIN_S = 60.0
"""Seconds for requests before the end of the input."""
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INVALID = -32600
_BEGUN = re.compile(
    rb'\s*+\{\s*+(?:"(?:jsonrpc|method)"\s*+:\s*+"[^"\\]*+"\s*+,\s*+)*+'
    rb'"id"\s*+:\s*+(\d{1,18}(?![\d.eE])|"[^"\\]{1,200}+")'
)
"""How clients begin a request: with its id before its arguments."""
_ENDED = re.compile(
    rb'"id"\s*+:\s*+(\d{1,18}|"[^"\\]{1,200}+")\s*+'
    rb'(?:,\s*+"jsonrpc"\s*+:\s*+"2\.0"\s*+)?\}\s*+\Z'
)
"""How other clients end it: with its id behind its arguments."""
END_BYTES = 512
"""Kept of the end of a line that is too long."""
CANCELLED = "notifications/cancelled"
GONE = (errno.EPIPE, errno.ECONNRESET, errno.EIO)
"""What a pipe, a socket and a terminal say when nothing is at their other end."""


@asynccontextmanager
async def pipes(most: int = MAX_MESSAGE_BYTES) -> AsyncIterator[Any]:
    """Return the two streams that a server of the SDK runs on; a line may have so many bytes."""
    if sys.stdout is not None:
        sys.stdout.flush()
    nothing = os.open(os.devnull, os.O_RDONLY)
    reads, writes = (fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 3) for one in (0, 1))
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    try:
        streams = cast("Any", Streams(reads, writes, most))
        async with stdio_server(streams, streams) as opened:
            yield opened
    finally:
        for one, number in ((reads, 0), (writes, 1)):
            os.dup2(one, number)
            os.close(one)
        os.close(nothing)


class Streams:
    """Messages in, in lines of at most so many bytes, and answers out."""

    def __init__(self, reads: int, writes: int, most: int) -> None:
        """Read one descriptor, and write the other."""
        self._reads, self._writes, self._most = reads, writes, most
        self._unanswered, self._fewer = set[Any](), anyio.Event()
        self._turn = anyio.Lock()

    async def __aiter__(self) -> AsyncIterator[str]:
        """Return each message; end when those before the end of the input are answered."""
        held, end, data = bytearray(), b"", b" "
        while data:
            await _ready(anyio.wait_readable, self._reads)
            data = self._read()
            *ended, begun = (data or b"\n").split(b"\n")
            for piece in ended:
                line = bytes(held + piece)[: self._most + 1]
                end = (end + piece)[-END_BYTES:]
                held.clear()
                if line.strip() and await self._passes(line, end):
                    yield line.decode()
                end = b""
            held += begun[: self._most + 1 - len(held)]
            end = (end + begun)[-END_BYTES:]
        with anyio.move_on_after(DRAIN_S):
            await self.fewer_than(1)

    async def write(self, text: str) -> None:
        """Write a message of the server; an answer settles its request."""
        async with self._turn:
            left = memoryview(text.encode())
            while left:
                await _ready(anyio.wait_writable, self._writes)
                left = left[self._written(left[: select.PIPE_BUF]) :]
        message = from_json(text)
        if "method" not in message:
            self._settle(message["id"])

    async def flush(self) -> None:
        """Do nothing: what is written is on its way."""

    def _written(self, part: memoryview) -> int:
        try:
            return os.write(self._writes, part)
        except OSError as exc:
            if _is_gone(exc, self._writes):
                raise HarnessError("output pipe closed") from exc
            raise

    def _read(self) -> bytes:
        try:
            return os.read(self._reads, READ_BYTES)
        except OSError as exc:
            if _is_gone(exc, self._reads):
                return b""
            raise

    async def _passes(self, line: bytes, end: bytes) -> bool:
        """Check a line, which the SDK would drop without an answer; note what will be answered."""
        try:
            message = jsonrpc_message_adapter.validate_json(line[: self._most], by_name=False)
        except ValidationError:
            told = f"Send one message of JSON-RPC on a line, of at most {self._most} bytes"
            error = {"code": INVALID, "message": f"the line is not a message. {told}"}
            known = self._id_of(line, end)
            await self.write(json.dumps({"jsonrpc": "2.0", "id": known, "error": error}) + "\n")
            return False
        if isinstance(message, JSONRPCRequest):
            await self.fewer_than(MAX_UNANSWERED)
            self._unanswered.add(str(message.id))  # the SDK takes 1 and "1" for one id
        elif isinstance(message, JSONRPCNotification) and message.method == CANCELLED:
            self._settle((message.params or {}).get("requestId"))
        return True

    def _id_of(self, line: bytes, end: bytes) -> int | str | None:
        """Return the id of a request that is too long or malformed, unless another has it."""
        found = _BEGUN.match(line) or _ENDED.search(end)
        given: int | str | None = None
        with suppress(ValueError):
            given = json.loads(found[1]) if found else None
        return None if str(given) in self._unanswered else given

    def _settle(self, given: object) -> None:
        self._unanswered.discard(str(given))
        self._fewer.set()
        self._fewer = anyio.Event()

    async def fewer_than(self, most: int) -> None:
        """Wait until fewer requests than ``most`` have no answer."""
        while len(self._unanswered) >= most:
            await self._fewer.wait()


def run_until_signalled(serve: Callable[[], Awaitable[None]]) -> None:
    """Run a server of this thread; SIGINT, SIGTERM and SIGHUP call it off."""
    before = {one: signal.getsignal(one) for one in ENDING}
    heard = [one for one, handler in before.items() if handler is not signal.SIG_IGN]
    came = False

    async def until_signalled() -> None:
        wake = get_running_loop().call_soon_threadsafe
        with anyio.CancelScope() as scope:

            def hear(_: int, __: FrameType | None) -> None:
                nonlocal came
                came = True
                with suppress(RuntimeError):  # the loop has closed: the server is at its end
                    wake(scope.cancel)

            for one in heard:
                signal.signal(one, hear)
            await serve()

    try:
        anyio.run(until_signalled)
    except BaseException as exc:  # noqa: BLE001  what was called off may break in any way
        if not came:
            raise first_of(exc) from None
    finally:
        for one in () if came else heard:
            signal.signal(one, before[one])
    if came:
        raise KeyboardInterrupt


def _is_gone(exc: OSError, number: int) -> bool:
    """Check whether the other end is gone; an error of a file is of its disk."""
    return exc.errno in GONE and not S_ISREG(os.fstat(number).st_mode)


async def _ready(waits: Callable[[int], Awaitable[None]], number: int) -> None:
    """Wait until a stream is ready; a file always is, and the system refuses to watch it."""
    try:
        await waits(number)
    except PermissionError:
        await checkpoint()
