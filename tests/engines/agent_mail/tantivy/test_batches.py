"""Reading a source in batches."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from engines.contract import EngineError
from engines.stacks.agent_mail.contract import Message
from engines.stacks.agent_mail.tantivy.index import BATCH, batches
from tests.make.mail.messages import one
from tests.make.mail.tantivy import Source


def test_every_message_after_the_mark_once_and_in_order() -> None:
    source = Source({at: one(at) for at in range(1, 2 * BATCH + 8)})
    read = [[message.message_id for message in batch] for batch in batches(source, 5)]
    assert [len(batch) for batch in read] == [BATCH, BATCH, 2]
    assert [at for batch in read for at in batch] == list(range(6, 2 * BATCH + 8))


@pytest.mark.parametrize("ids", [(2, 1), (1, 1), (0,)])
def test_a_source_out_of_order_is_refused(ids: Sequence[int]) -> None:
    class Odd(Source):
        def fetch_batch(self, since_id: int, limit: int) -> Sequence[Message]:
            del since_id, limit
            return [one(at) for at in ids]

    with pytest.raises(EngineError, match="out of order after id 0"):
        list(batches(Odd(), 0))
