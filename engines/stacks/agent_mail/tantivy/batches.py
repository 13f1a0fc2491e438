"""Messages of a source, read a thousand at a time and held to the order of their ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from engines.contract.errors import EngineError
from engines.stacks.agent_mail.contract.lifecycle import DocumentSource, Message

BATCH = 1_000


def batches(source: DocumentSource, since_id: int) -> Iterator[Sequence[Message]]:
    """Read all messages of higher id than ``since_id``.

    Raises:
        EngineError: the source gives one twice or out of order, so that some would be missed.
    """
    while batch := source.fetch_batch(since_id, BATCH):
        ids = [since_id, *(message.message_id for message in batch)]
        if any(after <= before for before, after in pairwise(ids)):
            raise EngineError(f"the source gave messages out of order after id {since_id}")
        yield batch
        since_id = ids[-1]
