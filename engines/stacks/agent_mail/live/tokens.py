"""Late interaction over messages that changed: their tokens are read when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from engines.rerank.late_interaction import Half, LateInteraction
from engines.rerank.token_store import Tokens
from engines.rerank.window import Reranked
from engines.stacks.agent_mail.contract.lifecycle import Message
from engines.stacks.agent_mail.pipeline.reranking import text_of
from engines.stacks.agent_mail.sqlite import journal
from engines.stacks.agent_mail.sqlite.store import MessageStore

MAX_KEPT = 512
"""Messages whose tokens are kept in memory, about 100 MB of them at the most."""
Hydrate = Callable[[Sequence[int]], Mapping[int, Message]]


@dataclass(frozen=True, slots=True)
class _Laid:
    """Tokens of changed messages over those of the file."""

    file: Tokens
    over: Mapping[int, Half]

    def of(self, text_id: int) -> Half:
        found = self.over.get(text_id)
        return self.file.of(text_id) if found is None else found


@dataclass(frozen=True, slots=True)
class LiveTokens:
    """A reranker whose file holds the messages as they were when the index was built."""

    base: LateInteraction
    store: MessageStore
    hydrate: Hydrate
    _kept: dict[tuple[int, int], Half] = field(default_factory=dict)
    """By message and the generation of its last change, the oldest first."""

    @property
    def identity(self) -> str:
        return self.base.identity

    def rerank(self, text: str, ids: Sequence[int], fused: Sequence[float]) -> Sequence[Reranked]:
        """Score a window; see ``LateInteraction``. A message that is gone is like nothing.

        Raises:
            SearchError: a candidate has no token vectors, or its text cannot be read.
        """
        changed = journal.changed_of(self.store, ids)
        if not changed:
            return self.base.rerank(text, ids, fused)
        over = {one: self._tokens(one, at) for one, at in changed.items()}
        return replace(self.base, tokens=_Laid(self.base.tokens, over)).rerank(text, ids, fused)

    def _tokens(self, message_id: int, generation: int) -> Half:
        known = self._kept.get((message_id, generation))
        if known is not None:
            return known
        message = self.hydrate([message_id]).get(message_id)
        if message is None:
            return np.zeros((0, self.base.embedder.dimension), dtype=np.float16)
        (read,) = self.base.embedder.read([text_of(message)]).tokens
        made = read.astype(np.float16)
        self._kept[message_id, generation] = made
        for old in [*self._kept][:-MAX_KEPT]:
            self._kept.pop(old, None)
        return made
