"""The whole service over real engines: store, FTS5, Tantivy, LIKE, vectors and a reranker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from harness_engines.rerank.cross_encoder import Reranked
from harness_engines.stacks.agent_mail.contract import (
    MailEngine,
    Message,
    SearchQuery,
    SearchResponse,
)
from harness_engines.stacks.agent_mail.pipeline.pages import entities
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from harness_engines.stacks.agent_mail.pipeline.retrievers import Semantic, Tiers
from harness_engines.stacks.agent_mail.pipeline.scope import Scope
from harness_engines.stacks.agent_mail.service import MailSearch
from harness_engines.stacks.agent_mail.sqlite.search import (
    ColumnWeights,
    Fts5Engine,
    LikeEngine,
    matching_ids,
)
from harness_engines.stacks.agent_mail.sqlite.store import MessageStore, opened
from harness_engines.stacks.agent_mail.tantivy.engine import TantivyMailEngine
from harness_engines.stacks.agent_mail.tantivy.index import FieldCopies as TantivyWeights
from harness_engines.stacks.agent_mail.views import StoredViews
from harness_engines.vector import amvi
from harness_engines.vector.embedder import HashEmbedder
from tests.engines.agent_mail.fakes import Log
from tests.make.mail.messages import stored

EMBEDDER = HashEmbedder(64)


@dataclass(frozen=True)
class ByLength:
    """Gives each message a score in (0, 1) that no other has: the sigmoid of its id."""

    identity = "by length"

    def rerank(self, text: str, ids: Sequence[int], fused: Sequence[float]) -> Sequence[Reranked]:
        del text, fused
        logits = [float(at % 17 - 8) for at in ids]
        return [Reranked(float(1 / (1 + np.exp(-logit))), logit) for logit in logits]


@dataclass(frozen=True)
class Whole:
    """A service, what it stands on, and what it told."""

    service: MailSearch
    store: MessageStore
    tantivy: TantivyMailEngine
    log: Log

    def under(self, switch: KillSwitch | None) -> Whole:
        """Give the same under another value of SEARCH_ENGINE."""
        return replace(self, service=replace(self.service, switch=switch))

    def without(self, *tiers: FallbackTier) -> Whole:
        """Give the same with some tiers taken away."""
        kept = self.service.tiers
        lexical: Mapping[FallbackTier, MailEngine] = {
            tier: engine for tier, engine in kept.lexical.items() if tier not in tiers
        }
        semantic = (
            None if {FallbackTier.SEMANTIC, FallbackTier.HYBRID} & set(tiers) else kept.semantic
        )
        reranker = None if FallbackTier.RERANK in tiers else kept.reranker
        fewer = Tiers(lexical, semantic, reranker, kept.sent)
        return replace(self, service=replace(self.service, tiers=fewer))

    def ask(self, query: SearchQuery, scope: Scope | None = None) -> SearchResponse:
        return self.service.search(query, scope)

    def ids(self, query: SearchQuery, scope: Scope | None = None) -> list[int]:
        return [hit.message_id for hit in self.ask(query, scope).hits]


def build(folder: Path, messages: Sequence[Message]) -> None:
    """Write the store and all indexes into ``folder``."""
    with stored(folder / "mail.db", messages) as store:
        index(folder, store, messages)


def index(folder: Path, store: MessageStore, messages: Sequence[Message]) -> None:
    """Write the indexes of a store beside it."""
    _tantivy(folder, store, Log()).rebuild()
    ids = np.array([m.message_id for m in messages], dtype=np.int64)
    texts = [f"{m.subject} {m.body}" for m in messages]
    vectors = EMBEDDER.embed(texts).astype(np.float16)
    amvi.write_amvi(folder / "vectors.amvi", EMBEDDER.identity, ids, vectors)


@contextmanager
def whole(folder: Path) -> Iterator[Whole]:
    """Open what ``build`` wrote, as after a restart."""
    log = Log()
    with opened(folder / "mail.db", write=True) as store:
        tantivy = _tantivy(folder, store, log)
        vectors = amvi.AmviIndex.open(
            folder / "vectors.amvi", EMBEDDER.identity, EMBEDDER.dimension
        )
        lexical = _lexical(store, tantivy)
        semantic = Semantic(EMBEDDER, vectors.search, lambda wanted: matching_ids(store, wanted))
        of_entities = partial(entities, weights=ColumnWeights(2.0, 1.0, 4.0))
        service = MailSearch(
            Tiers(lexical, semantic, ByLength(), store.sent),
            store.hydrate,
            store.projects_of_product,
            None,
            log.emit,
            entities=of_entities(store),
            views=StoredViews(
                store, _rebuilt, lambda made: entities(made, ColumnWeights(2.0, 1.0, 4.0))
            ).of,
        )
        yield Whole(service, store, tantivy, log)


def _lexical(store: MessageStore, tantivy: TantivyMailEngine) -> Mapping[FallbackTier, MailEngine]:
    return {
        FallbackTier.TANTIVY: tantivy,
        FallbackTier.FTS5: Fts5Engine(store, ColumnWeights(2.0, 1.0, 4.0)),
        FallbackTier.LIKE: LikeEngine(store),
    }


def _rebuilt(store: MessageStore, folder: Path) -> Mapping[FallbackTier, MailEngine]:
    """Make the engines of a viewer's own store."""
    tantivy = _tantivy(folder, store, Log())
    tantivy.rebuild()
    return _lexical(store, tantivy)


def _tantivy(folder: Path, store: MessageStore, log: Log) -> TantivyMailEngine:
    weights = TantivyWeights(subject=2, identifiers=4)
    return TantivyMailEngine(folder / "tantivy", store, log.emit, weights)
