"""Lines of JSON-RPC within a bound, and what a client is told of a malformed one.

The rules are those of JSON-RPC 2.0, section 5, and of MCP's transport over standard input, which
takes no batches. The SDK drops such a line, so that a client would wait for ever.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    JSONRPCMessage,
    JSONRPCNotification,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

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
        said = _read(line)
        is_asked = isinstance(said, dict) and not said.keys() & {"result", "error"}
        raise Refused(said.get("id") if is_asked else None, *_fault(exc, said)) from None
    if isinstance(message, JSONRPCNotification) and "id" in _read(line):
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


def _read(line: bytes) -> Any:  # noqa: ANN401  any JSON
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
