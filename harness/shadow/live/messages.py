"""What a process and its candidate say to each other: JSON in frames, each with its length.

The candidate may be anything, so nothing that it says is run, and no more of it is kept than the
longest answer takes. A frame is four bytes of length, as ``multiprocessing`` writes them, and JSON.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from harness.core.formats import checked
from harness.core.reading import Malformed
from harness.shadow.live.worker import Question
from harness.shadow.log.record import LoggedAnswer

MAX_ANSWER_BYTES = 16 << 20
CHUNK_BYTES = 1 << 16
_LENGTH = struct.Struct("!i")
_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class Garbage(Exception):
    """A candidate said what is not a message."""


@dataclass(frozen=True, slots=True, config=_STRICT)
class Opened:
    """The first thing that a candidate says: why it did not open, or nothing."""

    problem: str


@dataclass(frozen=True, slots=True, config=_STRICT)
class Answered:
    """The answer to one query."""

    number: Annotated[int, Field(ge=1)]
    """Of the query, so that an answer is taken for no other one's."""
    side: LoggedAnswer


Said = TypeAdapter[Opened | Answered](Opened | Answered)


def asking(number: int, question: Question, late_ns: int) -> bytes:
    """Write a query; halves of surrogate pairs in it get through."""
    text, k, params = question
    return json.dumps([number, text, k, dict(params), late_ns]).encode()


def said(message: Opened | Answered) -> bytes:
    """Write what a candidate says."""
    return Said.dump_json(message)


def heard(frame: bytes) -> Opened | Answered:
    """Read what a candidate said.

    Raises:
        Garbage: it is not a message.
    """
    try:
        return Said.validate_json(checked(frame.decode("utf-8")))
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        raise Garbage(f"{first['loc']}: {first['msg']}") from exc
    except (UnicodeDecodeError, Malformed) as exc:
        raise Garbage(f"{type(exc).__name__}: {exc}") from exc


def frame_of(pipe: int, ready: Callable[[], object]) -> bytes:
    """Read one frame of the file ``pipe``; before each read ``ready`` waits, and may raise.

    Raises:
        EOFError: the other side has ended.
        OSError: the pipe is broken.
        Garbage: the frame is longer than any answer, or something follows it.
    """
    found = bytearray()
    while len(found) < _LENGTH.size or len(found) < _LENGTH.size + _size(found):
        ready()
        more = os.read(pipe, CHUNK_BYTES)
        if not more:
            raise EOFError
        found += more
    if len(found) > _LENGTH.size + _size(found):
        raise Garbage("it said more than was requested")
    return bytes(found[_LENGTH.size :])


def _size(found: bytearray) -> int:
    (size,) = _LENGTH.unpack_from(found)
    if not 0 <= size <= MAX_ANSWER_BYTES:
        raise Garbage(f"a message of {size} bytes; at most {MAX_ANSWER_BYTES} are read")
    return int(size)
