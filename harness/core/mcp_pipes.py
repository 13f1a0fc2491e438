"""MCP over the standard streams of this process, in bounded lines of JSON-RPC."""

from __future__ import annotations

import errno
import fcntl
import json
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
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import from_json

from harness.core.errors import HarnessError

MAX_MESSAGE_BYTES = 256 * 1024
"""Of one request; a query and its filters take a few hundred."""
LONGEST_ID = 18
"""Digits of a number that is given back from a line that cannot be read."""
REQUEST = "JSONRPCRequest"
"""The kind of message, as the SDK calls it, by which a wrong line is told what it lacks."""
ONE_EACH = "a message is a JSON object on a line of its own; send several on as many lines"
WRONG_ID = "the id is neither a whole number nor a text; give one"
TAKEN = "the id is that of a request without an answer; give each its own"


class Lines:
    """Cuts what comes into lines; of one that is too long no more is kept than shows that it is."""

    def __init__(self, most: int) -> None:
        """Take lines of at most so many bytes."""
        self._most, self._begun = most, bytearray()

    def fed(self, data: bytes) -> Iterator[bytes]:
        """Give the lines that end in ``data``, without their ends."""
        *ended, begun = data.split(b"\n")
        for piece in ended:
            self._add(piece)
            yield self.last()
        self._add(begun)

    def last(self) -> bytes:
        """Give the line that has begun, and begin another."""
        line = bytes(self._begun)
        self._begun.clear()
        return line

    def _add(self, piece: bytes) -> None:
        self._begun += piece[: self._most + 1 - len(self._begun)]


class Refused(Exception):
    """A malformed line: its id wherever one can be read, the code of JSON-RPC, and what to do."""

    def __init__(self, given: Any, code: int, said: str) -> None:  # noqa: ANN401  any JSON
        super().__init__(said)
        self.given, self.code, self.said = given, code, said


def message_of(line: bytes, most: int) -> JSONRPCMessage:
    """Read a line as the SDK reads it: it tells by more than its keys what kind of message it is.

    Raises:
        Refused: it is malformed, or longer than ``most`` bytes.
    """
    if len(line) > most:
        raise Refused(None, INVALID_REQUEST, f"the line is longer than {most} bytes; send less")
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as exc:
        said = _read_line(line)
        is_asked = isinstance(said, dict) and not said.keys() & {"result", "error"}
        raise Refused(said.get("id") if is_asked else None, *_fault(exc, said)) from None
    if isinstance(message, JSONRPCNotification) and "id" in _read_line(line):
        raise Refused(None, INVALID_REQUEST, WRONG_ID)
    return message


def _fault(exc: ValidationError, said: Any) -> tuple[int, str]:  # noqa: ANN401  any JSON
    errors = exc.errors(include_url=False, include_input=False)
    if errors[0]["type"] == "json_invalid":
        return PARSE_ERROR, f"the line is not JSON: {errors[0]['ctx']['error']}"
    if not isinstance(said, dict):
        return INVALID_REQUEST, ONE_EACH
    wrong = [one for one in errors if one["loc"][0] == REQUEST] or errors[:1]
    told = "; ".join(f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in wrong)
    return INVALID_REQUEST, told


def _read_line(line: bytes) -> Any:  # noqa: ANN401  any JSON
    """Read what the SDK may refuse, such as half a character or a number of a thousand digits."""
    try:
        return json.loads(line, parse_int=_short)
    except (ValueError, RecursionError):
        return None


def _short(digits: str) -> int | None:
    return int(digits) if len(digits) <= LONGEST_ID else None


def error(given: Any, code: int, message: str) -> str:  # noqa: ANN401  any JSON
    """Write an error; an id of another kind, or with half a character, is null."""
    whole = isinstance(given, str) and not any("\ud800" <= one <= "\udfff" for one in given)
    known = given if whole or type(given) is int else None
    about = {"code": code, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": known, "error": about})


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
            data = _read_pipe(self._number)
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


def _read_pipe(number: int) -> bytes:
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
