"""Late interaction over messages that changed since their tokens were written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engines.rerank.tokens import Half, LateInteraction
from engines.stacks.agent_mail.live import LiveTokens
from engines.stacks.agent_mail.sqlite import journal
from engines.vector.embedder import HashEmbedder, Reading
from tests.make.mail.messages import some_mail, stored

MESSAGES = some_mail(7, 12).messages
WORDS = HashEmbedder(32)


@dataclass
class Reader:
    """Reads each word of a text as a token, and counts what it read."""

    read_texts: list[str] = field(default_factory=list)
    identity = "words"
    dimension = 32

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return WORDS.embed(texts)

    def read(self, texts: Sequence[str]) -> Reading:
        self.read_texts += texts
        return Reading(self.embed(texts), tuple(WORDS.embed(text.split()) for text in texts))


@dataclass(frozen=True)
class OldTokens:
    """Tokens of every message as one word that no query has."""

    def of(self, text_id: int) -> Half:
        del text_id
        return WORDS.embed(["old"]).astype(np.float16)


def test_a_changed_message_is_read_once_for_each_change(tmp_path: Path) -> None:
    one, other = (message.message_id for message in MESSAGES[:2])
    with stored(tmp_path / "mail.db", MESSAGES) as store:
        with store.writing() as db:
            journal.settle(db)
        reader = Reader()
        live = LiveTokens(LateInteraction(reader, OldTokens(), 0.0), store, store.hydrate)

        def similar() -> list[float]:
            return [hit.raw_score for hit in live.rerank("zeppelin", [one, other], [0.5, 0.5])]

        assert similar() == [0.0, 0.0]
        store.db.execute("UPDATE messages SET subject = 'zeppelin' WHERE id = ?", (one,))
        for _ in range(2):
            assert similar() == [1.0, 0.0]
        changed = [text for text in reader.read_texts if text != "zeppelin"]
        assert len(changed) == 1
        store.db.execute("UPDATE messages SET subject = 'balloon', body = '' WHERE id = ?", (one,))
        assert similar()[0] < 1.0
        store.db.execute("DELETE FROM messages WHERE id = ?", (one,))
        assert similar() == [0.0, 0.0]
