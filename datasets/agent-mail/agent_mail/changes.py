"""The corpus before its edits and deletions, and the log of them."""

from collections.abc import Iterator
from dataclasses import dataclass

from agent_mail.traffic import traffic
from harness.core.records import Document


@dataclass(frozen=True, slots=True)
class Change:
    """A message that was rewritten, or deleted: then ``document`` is ``None``."""

    doc_id: str
    document: Document | None


def base(seed: int, size: int) -> Iterator[Document]:
    """Yield every message as it was sent, in the order of the numbers."""
    for posted in traffic(seed, size):
        yield posted.first.document()


def changes(seed: int, size: int) -> Iterator[Change]:
    """Yield what happened later; applied to ``base`` it gives the corpus that is judged."""
    for posted in traffic(seed, size):
        if posted.last is None:
            yield Change(str(posted.first.message_id), None)
        elif posted.last is not posted.first:
            yield Change(str(posted.first.message_id), posted.last.document())
