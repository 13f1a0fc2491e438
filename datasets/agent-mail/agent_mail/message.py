"""One message with what it says, so that judgements need no guess."""

import re
from dataclasses import dataclass
from typing import NamedTuple

from harness.core.records import Document

TICKET = re.compile(r"[a-z]{2}-[a-z0-9]{4}(?:\.\d+)?")
JOINED = re.compile(r"(?<![\w./-])[a-z0-9]+(?:[-_./][a-z0-9]+)+")
HASH = re.compile(r"(?<![\w./-])(?=[0-9a-f]*[0-9])[0-9a-f]{7}(?![\w/-])")


class Fact(NamedTuple):
    """A concept and the component that it happens to, by name."""

    concept: str
    component: str


@dataclass(frozen=True, slots=True)
class Message:
    """A message; ``states`` are facts that it says itself, ``follows`` those of its thread."""

    message_id: int
    project_id: int
    product_id: int
    thread_id: str
    sender: str
    recipients: tuple[str, ...]
    importance: str
    ack_required: bool
    created_ts: int
    """Microseconds since 1970 UTC."""
    language: str
    subject: str
    body: str
    states: tuple[Fact, ...]
    follows: tuple[Fact, ...]

    @property
    def text(self) -> str:
        """Subject and body."""
        return f"{self.subject}\n{self.body}"

    def identifiers(self) -> set[str]:
        """Tickets, paths, names of functions and commits that the text holds, in lower case."""
        text = self.text.lower()
        return {*JOINED.findall(text), *HASH.findall(text)}

    def document(self) -> Document:
        """Give the message as what is searched."""
        return Document(
            str(self.message_id),
            self.subject,
            self.body,
            {
                "ack_required": self.ack_required,
                "created_ts": self.created_ts,
                "importance": self.importance,
                "language": self.language,
                "product_id": self.product_id,
                "project_id": self.project_id,
                "recipients": ",".join(self.recipients),
                "sender": self.sender,
                "thread_id": self.thread_id,
            },
        )


@dataclass(frozen=True, slots=True)
class Posted:
    """A message as it was sent, and its outcome; ``last`` is ``None`` where it was deleted."""

    first: Message
    last: Message | None
