"""What one request and its answer were, as far as a comparison needs it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self


@dataclass(slots=True)
class Parts:
    """A body in the parts that came: one array that grew would leave holes in the memory."""

    parts: list[bytes] = field(default_factory=list)
    size: int = 0

    def __iadd__(self, more: bytes | bytearray) -> Self:
        self.parts.append(bytes(more))
        self.size += len(more)
        return self

    def __len__(self) -> int:
        return self.size

    def __bytes__(self) -> bytes:
        return b"".join(self.parts)

    def clear(self) -> None:
        """Let go of all parts."""
        self.parts, self.size = [], 0


@dataclass(slots=True)
class Exchange:
    """One request and the outcome of it; of each body no more than is compared."""

    method: str
    target: bytes
    """The path and the query; a byte that is not printable ASCII stands as ``%XX``."""
    headers: tuple[tuple[bytes, bytes], ...]
    """Names in lower case."""
    body: bytearray = field(default_factory=bytearray)
    passed_ns: int = 0
    """When the whole request had been passed on, by its ``Clock``; 0 before."""
    status: int = 0
    """Of the answer; 0 before its head."""
    encoding: str = ""
    """How the answer's body is packed."""
    answer: Parts = field(default_factory=Parts)
    whole: bool = False
    """Whether the answer came to its end."""
    timed: bool = True
    """Whether the control's time can be known."""
    waited_ns: int | None = None
    """What the control took, from the whole request, or from the end of the answer before it, to
    the last byte of its answer; None where that is not known."""
    error: str = ""
    """How the control failed; empty where it did not."""
    unread: str = ""
    """Why it cannot be compared; empty where it can."""

    @property
    def kept(self) -> int:
        """Bytes that are held of it."""
        return len(self.target) + len(self.body) + len(self.answer)

    @property
    def switches(self) -> bool:
        """Whether the request asks to go on in another protocol (RFC 9110, 7.8 and 9.3.6)."""
        return self.method == "CONNECT" or bool(self.header(b"upgrade"))

    def header(self, name: bytes) -> str:
        """Give a header of the request, empty where it has none."""
        return next((value.decode("latin-1") for key, value in self.headers if key == name), "")

    def ended(self, at: int, before: int) -> None:
        """Note that the answer ended ``at``, and the one before it ``before``."""
        self.whole = True
        if not self.passed_ns:
            self.unread = "the control answered before its request was whole"
        taken = at - max(self.passed_ns, before)
        if self.timed and self.passed_ns and taken > 0:
            self.waited_ns = taken
