"""The reranker of message search: which one, what it is made of, and what happens without it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engines.contract.errors import FeatureUnavailable, SearchError
from engines.rerank.cross_encoder import CrossEncoder, CrossEncoding
from engines.rerank.late_interaction import FUSED_WEIGHT, LateInteraction
from engines.rerank.token_cache import write_tokens
from engines.rerank.token_store import TokenStore
from engines.rerank.window import Reranker, Unavailable
from engines.stacks.agent_mail.contract.lifecycle import Message
from engines.vector.models import model
from engines.vector.onnx import OnnxEmbedder
from harness.core.errors import ModelNotReady

LATE_INTERACTION = "late-interaction"
FILE = "tokens.bin"


@dataclass(frozen=True, slots=True)
class Reranking:
    """The reranker that settings name."""

    named: str
    """``late-interaction``, a cross-encoder's folder, or empty for none."""
    sha256: str
    """Stated for the cross-encoder's weights; empty takes any."""
    embedder: str
    """A model of ``engines.vector.models``: late interaction compares its token vectors."""
    max_tokens: int

    def identity(self) -> str:
        """Say what reranks; empty for none.

        Raises:
            ModelNotReady: it is absent, broken or not the one that was stated.
        """
        if not self.named:
            return ""
        if self.named == LATE_INTERACTION:
            return LateInteraction.identity_of(self._tokens_of(), FUSED_WEIGHT)
        try:
            return self._cross_encoder().identity
        except SearchError as exc:
            raise ModelNotReady(str(exc)) from exc

    def build(self, index: Path, messages: Sequence[Message], cache: Path) -> None:
        """Write what it reads at query time, where it reads more than the messages."""
        if self.named == LATE_INTERACTION:
            ids = [message.message_id for message in messages]
            texts = [text_of(message) for message in messages]
            write_tokens(index / FILE, ids, texts, self._tokens_of(), cache)

    def open(
        self, index: Path, hydrate: Callable[[Sequence[int]], Mapping[int, Message]]
    ) -> Reranker | None:
        """Open it; one that cannot be opened is absent, and says why when it is queried.

        ``hydrate`` gives messages by id; one that was deleted has nothing to say.
        """
        if not self.named:
            return None
        try:
            if self.named == LATE_INTERACTION:
                return self._late_interaction(index)
            cross_encoder = self._cross_encoder()
        except ModelNotReady as exc:
            return Unavailable(FeatureUnavailable(str(exc)))
        except SearchError as exc:
            return Unavailable(exc)

        def texts(ids: Sequence[int]) -> list[str]:
            known = hydrate(ids)
            return [text_of(known[one]) if one in known else "" for one in ids]

        return CrossEncoding(cross_encoder, texts)

    def _late_interaction(self, index: Path) -> LateInteraction:
        embedder = self._tokens_of()
        tokens = TokenStore.open(index / FILE, embedder.identity, embedder.dimension)
        return LateInteraction(embedder, tokens, FUSED_WEIGHT)

    def _cross_encoder(self) -> CrossEncoder:
        return CrossEncoder.load(Path(self.named), self.max_tokens, self.sha256)

    def _tokens_of(self) -> OnnxEmbedder:
        return OnnxEmbedder.load(model(self.embedder), self.max_tokens)


def text_of(message: Message) -> str:
    """Give what is read of a message: its subject, then its body."""
    return f"{message.subject} {message.body}".strip()
