"""The whole service over real engines: store, FTS5, Tantivy, LIKE, vectors and a reranker."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from random import Random

import numpy as np

from harness.core.engine import Manifest
from harness_engines.rerank import Reranked
from harness_engines.stacks.agent_mail.contract import (
    MailEngine,
    Message,
    SearchQuery,
    SearchResponse,
)
from harness_engines.stacks.agent_mail.mcp_tools.search import ServedIndex
from harness_engines.stacks.agent_mail.pipeline.pages import entities
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from harness_engines.stacks.agent_mail.pipeline.retrievers import Semantic, Tiers
from harness_engines.stacks.agent_mail.pipeline.scope import Scope, Visibility, viewer
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
from tests.make.mail_changing import Directory
from tests.make.mail_messages import AGENTS, PROJECTS, some_mail, some_message, stored

EMBEDDER = HashEmbedder(64)
MAIL = some_mail(57, 250)
"""What the fixture ``post`` serves."""
WEIGHTS = ColumnWeights(2.0, 1.0, 4.0)


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
        of_entities = partial(entities, weights=WEIGHTS)
        service = MailSearch(
            Tiers(lexical, semantic, ByLength(), store.sent),
            store.hydrate,
            store.projects_of_product,
            None,
            log.emit,
            entities=of_entities(store),
            views=StoredViews(store, _rebuilt, of_entities).of,
        )
        yield Whole(service, store, tantivy, log)


def _lexical(store: MessageStore, tantivy: TantivyMailEngine) -> Mapping[FallbackTier, MailEngine]:
    return {
        FallbackTier.TANTIVY: tantivy,
        FallbackTier.FTS5: Fts5Engine(store, WEIGHTS),
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


EYE = viewer("AmberFox", frozenset({1}), frozenset({"TealOtter"}))
FIRST_HIDDEN, STEP = 2, 7
"""Hidden messages lie between visible ones, whose ids are 1, 8, 15 ..."""


@dataclass(frozen=True)
class World:
    """A service over visible and hidden messages."""

    mail: Whole
    identity: ServedIndex

    def answer(self, query: SearchQuery, switch: KillSwitch | None = None) -> bytes:
        """Search as the viewer; give every byte of the answer but its times."""
        found = asdict(self.mail.under(switch).ask(query, EYE))
        del found["explain"]["timing"]
        return json.dumps(found, sort_keys=True).encode()


def messages(seed: int, hidden: int, visible: int = 40) -> tuple[Message, ...]:
    """Make the messages of a world: the visible ones depend on ``seed`` alone."""
    shown = _some(Random(seed), visible, 1, denied=False)
    secret = _some(Random(f"{seed} {hidden}"), hidden, FIRST_HIDDEN, denied=True)
    told = (replace(one, body=f"{one.body} merger deployment") for one in secret)
    return tuple(sorted((*shown, *told), key=lambda one: one.message_id))


def _some(rng: Random, count: int, first: int, *, denied: bool) -> list[Message]:
    made: list[Message] = []
    while len(made) < count:
        one = some_message(rng, first + STEP * len(made))
        if (EYE.sees(one) is Visibility.DENY) == denied:
            made.append(one)
    return made


@contextmanager
def world(folder: Path, seed: int, hidden: int) -> Iterator[World]:
    """Open a world in a new folder. All agents are registered, alike in every world."""
    folder.mkdir()
    mail = messages(seed, hidden)
    with stored(folder / "mail.db", ()) as store:
        for project in PROJECTS:
            for name in AGENTS:
                Directory(store).register(project, name, task_description="a secret task")
        store.insert_all((message, {}) for message in mail)
        index(folder, store, mail)
    made = Manifest("agent-mail", "1", len(mail), f"{hidden:064}", "s" * 64)
    with whole(folder) as opened:
        yield World(opened, ServedIndex("mail", made))
