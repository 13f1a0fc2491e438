"""MCP over the standard streams of this process: the SDK's, with a bound on lines.

No thread stands in a read, so a signal ends a server at once. Requests before the end of the input
are answered. What engines print goes to the error stream.
"""

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
MAX_UNANSWERED = 256
"""Requests; no line more is read until one of them is answered."""
DRAIN_S = 60.0
"""Seconds for requests before the end of the input."""
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INVALID = -32600
_ID = rb'"id"\s*+:\s*+(\d{1,18}(?![\d.eE])|"[^"\\]{1,200}+")'
_BEGUN = re.compile(rb'\s*+\{\s*+(?:"(?:jsonrpc|method)"\s*+:\s*+"[^"\\]*+"\s*+,\s*+)*+' + _ID)
"""How clients begin a request: with its id before its arguments."""
_ENDED = re.compile(_ID + rb'\s*+(?:,\s*+"jsonrpc"\s*+:\s*+"2\.0"\s*+)?\}\s*+\Z')
"""How other clients end it: with its id behind its arguments."""
END_BYTES = 512
"""Kept of the end of a line that is too long."""
CANCELLED = "notifications/cancelled"


@asynccontextmanager
async def pipes(most: int = MAX_MESSAGE_BYTES) -> AsyncIterator[Any]:
    """Return the two streams that a server of the SDK runs on; a line may have so many bytes."""
    if sys.stdout is not None:
        sys.stdout.flush()
    kept = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3) for number in (0, 1)]
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        streams = cast("Any", Streams(kept[0], kept[1], most))
        async with stdio_server(streams, streams) as opened:
            yield opened
    finally:
        for number, one in enumerate(kept):
            os.dup2(one, number)
            os.close(one)


class Streams:
    """Messages in, in lines of at most so many bytes, and answers out."""

    def __init__(self, reads: int, writes: int, most: int) -> None:
        """Read one descriptor, and write the other."""
        self._reads, self._writes, self._most = reads, writes, most
        self._unanswered, self._fewer = set[str](), anyio.Event()
        self._turn = anyio.Lock()

    async def __aiter__(self) -> AsyncIterator[str]:
        """Return each message; end when those before the end of the input are answered."""
        line, data = bytearray(), b" "
        while data:
            await _ready(anyio.wait_readable, self._reads)
            data = os.read(self._reads, 65_536)
            *ended, begun = (data or b"\n").split(b"\n")
            for piece in ended:
                self._add(line, piece)
                if line.strip() and await self._passes(line):
                    yield line.decode()
                line.clear()
            self._add(line, begun)
        with anyio.move_on_after(DRAIN_S):
            await self.fewer_than(1)

    def _add(self, line: bytearray, piece: bytes) -> None:
        """Add to a line; of one that is too long, keep its beginning and its end."""
        line += piece
        if len(line) > self._most + END_BYTES:
            del line[self._most + 1 : -END_BYTES]

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
        except (BrokenPipeError, ConnectionResetError) as exc:
            raise HarnessError("output pipe closed") from exc

    async def _passes(self, line: bytearray) -> bool:
        """Check a line, which the SDK would drop without an answer; note what will be answered."""
        try:
            whole = line if len(line) <= self._most else b""
            message = jsonrpc_message_adapter.validate_json(whole, by_name=False)
        except ValidationError:
            told = f"Send one message of JSON-RPC on a line, of at most {self._most} bytes"
            error = {"code": INVALID, "message": f"the line is not a message. {told}"}
            answer = {"jsonrpc": "2.0", "id": self._id_of(line), "error": error}
            await self.write(json.dumps(answer) + "\n")
            return False
        if isinstance(message, JSONRPCRequest):
            await self.fewer_than(MAX_UNANSWERED)
            self._unanswered.add(str(message.id))  # the SDK takes 1 and "1" for one id
        elif isinstance(message, JSONRPCNotification) and message.method == CANCELLED:
            self._settle((message.params or {}).get("requestId"))
        return True

    def _id_of(self, line: bytearray) -> int | str | None:
        """Return the id of a request that is too long or malformed, unless another has it."""
        found = _BEGUN.match(line) or _ENDED.search(line[-END_BYTES:])
        given: int | str | None = None
        with suppress(ValueError):
            given = json.loads(found[1]) if found else None
        return None if str(given) in self._unanswered else given

    async def fewer_than(self, most: int) -> None:
        """Wait until fewer requests than ``most`` have no answer."""
        while len(self._unanswered) >= most:
            await self._fewer.wait()

    def _settle(self, given: object) -> None:
        self._unanswered.discard(str(given))
        self._fewer.set()
        self._fewer = anyio.Event()


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


async def _ready(waits: Callable[[int], Awaitable[None]], number: int) -> None:
    """Wait until a stream is ready; a file always is, and the system refuses to watch it."""
    try:
        await waits(number)
    except PermissionError:
        await checkpoint()
