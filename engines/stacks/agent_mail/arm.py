"""Message search as a stack under test: a typed text in, what the service shows out."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from engines.contract import errors as search_errors
from engines.contract import manifest
from engines.contract.settings import StackSettings
from engines.rerank.late_interaction import LateInteraction
from engines.stacks.agent_mail import documents as taken
from engines.stacks.agent_mail.contract import events
from engines.stacks.agent_mail.contract import lifecycle as mail
from engines.stacks.agent_mail.contract.directory import Entity
from engines.stacks.agent_mail.contract.query import DocKind, SearchMode
from engines.stacks.agent_mail.live.follow import Follows, Live
from engines.stacks.agent_mail.live.indexes import LiveTokens, LiveVectors, LiveWords, as_it_is
from engines.stacks.agent_mail.pipeline.kinds import Source, entities
from engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from engines.stacks.agent_mail.pipeline.reranking import LATE_INTERACTION, Reranking
from engines.stacks.agent_mail.pipeline.retrievers import Tiers
from engines.stacks.agent_mail.pipeline.semantic import Semantic
from engines.stacks.agent_mail.pipeline.unavailable import or_unavailable
from engines.stacks.agent_mail.searcher import MailSearcher
from engines.stacks.agent_mail.service import MailSearch
from engines.stacks.agent_mail.sqlite import fts5, journal, store
from engines.stacks.agent_mail.sqlite.like import LikeEngine
from engines.stacks.agent_mail.sqlite.matching import matching_ids
from engines.stacks.agent_mail.sqlite.remembered import Remembered
from engines.stacks.agent_mail.sqlite.store import DeadlineStore
from engines.stacks.agent_mail.tantivy import schema as tantivy_schema
from engines.stacks.agent_mail.tantivy.engine import TantivyMailEngine
from engines.stacks.agent_mail.views import StoredViews
from engines.vector.chosen import HASH, embedder_of
from engines.vector.embedder import Embedder
from harness.core.engine import Engine, Manifest, Searcher
from harness.core.errors import IndexNotReady, ModelNotReady
from harness.core.files import write_text
from harness.core.formats import MAX_INDEX_BYTES, json_file
from harness.core.records import Document

ByTier = Mapping[FallbackTier, mail.MailEngine]
STORE, TANTIVY, VECTORS, IDS = "messages.db", "tantivy", "vectors.amvi", "ids.json"


class Settings(StackSettings):
    """How the service is queried, and what it has to answer with."""

    mode: Literal["lexical", "semantic", "hybrid", "hybrid_rerank"]
    search_engine: Literal["", "fts5", "tantivy", "shadow", "hybrid", "hybrid_rerank"]
    """The kill switch SEARCH_ENGINE; empty is unset."""
    subject_weight: int = Field(ge=1)
    identifiers_weight: int = Field(ge=1)
    embedder: str
    """A model of ``engines.vector.models``, ``hash``, or empty for none."""
    max_tokens: int = Field(ge=8, le=512)
    budget_ms: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    """What a query may take before the end of its chain answers; 0 means no budget."""
    reranker: str = ""
    """``late-interaction``, a folder with a cross-encoder, or empty for none."""
    reranker_sha256: str = Field(default="", pattern=r"^([0-9a-fA-F]{64})?$")
    """Of the cross-encoder's weights; empty takes any."""

    @model_validator(mode="after")
    def _late_interaction_needs_tokens(self) -> Self:
        if self.reranker == LATE_INTERACTION and self.embedder in {"", HASH}:
            raise ValueError(f"reranker: {LATE_INTERACTION} needs a model for embedder")
        return self

    @property
    def reranking(self) -> Reranking:
        """The reranker; only the mode that asks for it has one."""
        named = self.reranker if self.mode == "hybrid_rerank" else ""
        return Reranking(named, self.reranker_sha256, self.embedder, self.max_tokens)


@dataclass(frozen=True, slots=True)
class Mail:
    settings: Settings
    cache: Path

    def embedder(self) -> Embedder | None:
        """Open the embedder that the settings name; None where they name none."""
        named = self.settings.embedder
        return embedder_of(named, self.settings.max_tokens) if named else None

    @property
    def version(self) -> str:
        """What answers depend on beside settings and messages.

        Raises:
            ModelNotReady: the embedder or the reranker is not there.
        """
        embedder = self.embedder()
        vectors = embedder.identity if embedder else "no vectors"
        parts = f"sqlite {sqlite3.sqlite_version}", f"tantivy {version('tantivy')}", vectors
        return ", ".join(filter(None, (*parts, self.settings.reranking.identity())))

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        def fill(passing: Iterable[Document]) -> None:
            in_order = sorted(passing, key=lambda document: document.doc_id)
            numbered = dict(enumerate(in_order, start=1))
            messages = [taken.message(number, d) for number, d in numbered.items()]
            with store.create(index / STORE) as made:
                for project in sorted({m.project_id for m in messages}):
                    made.add_project(project, f"project-{project}")
                for product, projects in sorted(taken.products(numbered).items()):
                    made.add_product(product, f"product-{product}", sorted(projects))
                made.insert_all((message, {}) for message in messages)
                with made.writing() as db:
                    journal.settle(db)
                LiveWords(self._tantivy(index, made)).reindex(0)
            self.settings.reranking.build(index, messages, self.cache)
            if (embedder := self.embedder()) is not None:
                LiveVectors(index / VECTORS, embedder, self.cache).write(messages, 0)
            write_text(index / IDS, json.dumps([document.doc_id for document in in_order]))

        return manifest.record(
            index,
            documents,
            fill,
            engine="agent-mail",
            version=self.version,
            settings=self.settings.model_dump(),
        )

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        made = manifest.read(index)
        manifest.check_made_by(
            index,
            made,
            engine="agent-mail",
            version=self._opens(made),
            settings=self.settings.model_dump(),
        )
        with ExitStack() as until_closed:
            try:
                doc_ids = tuple(json_file(index / IDS, most=MAX_INDEX_BYTES))
                watched, opened = (
                    until_closed.enter_context(store.opened(index / STORE)) for _ in range(2)
                )
                manifest.check_count(index, made, len(doc_ids))
                made = as_it_is(index, made, opened)
                service = self._service(index, opened, watched)
            except (search_errors.SearchError, OSError, ValueError) as exc:
                raise IndexNotReady(f"{index}: {exc}. Build it again: harness index") from exc
            mode = SearchMode(self.settings.mode)
            yield MailSearcher(service, doc_ids, made, mode, watched)

    def _opens(self, made: Manifest) -> str:
        """Give the version that this stack reads.

        Without its model it compares no vector, so it takes the index's word.
        """
        try:
            return self.version
        except ModelNotReady:
            return made.version

    def _service(
        self, index: Path, opened: store.MessageStore, watched: store.MessageStore
    ) -> MailSearch:
        """Put the service together over one index; a part that is broken is one that is absent.

        ``watched`` has connections of its own, so that no query waits to learn what changed.
        """
        bounded = DeadlineStore.of(opened)

        def semantic() -> Semantic | None:
            embedder = self.embedder()
            if embedder is None:
                return None
            vectors = LiveVectors(index / VECTORS, embedder, self.cache, watched)
            vectors.now()
            follows["vectors"] = vectors
            return Semantic(embedder, vectors, lambda wanted: matching_ids(bounded, wanted))

        tantivy = self._tantivy(index, opened)
        follows: dict[str, Follows] = {"tantivy": LiveWords(self._tantivy(index, watched))}
        nearest = or_unavailable(semantic)
        reranker = self.settings.reranking.open(index, opened.hydrate)
        if isinstance(reranker, LateInteraction):
            reranker = LiveTokens(reranker, watched, opened.hydrate)
        return MailSearch(
            Tiers(self._lexical(opened, tantivy), nearest, reranker, opened.sent),
            Remembered(opened).hydrate,
            opened.projects_of_product,
            KillSwitch.read(self.settings.search_engine),
            events.to_log,
            self.settings.budget_ms,
            self._entities(opened),
            views=StoredViews(opened, self._rebuilt, self._entities),
            fresh=Live(watched, follows, index / "live"),
        )

    def _lexical(self, opened: store.MessageStore, tantivy: TantivyMailEngine) -> ByTier:
        return {
            FallbackTier.FTS5: fts5.Fts5Engine(DeadlineStore.of(opened), self._weights()),
            FallbackTier.TANTIVY: tantivy,
            FallbackTier.LIKE: LikeEngine(opened),
        }

    def _rebuilt(self, opened: store.MessageStore, index: Path) -> ByTier:
        """Make the engines of a viewer's own store."""
        tantivy = self._tantivy(index, opened)
        tantivy.rebuild()
        return self._lexical(opened, tantivy)

    def _entities(self, opened: store.MessageStore) -> Mapping[DocKind, Source[Entity]]:
        return entities(DeadlineStore.of(opened), self._weights())

    def _weights(self) -> fts5.Weights:
        given = self.settings
        return fts5.Weights(given.subject_weight, 1, given.identifiers_weight)

    def _tantivy(self, index: Path, source: mail.DocumentSource) -> TantivyMailEngine:
        given = self.settings
        weights = tantivy_schema.Weights(given.subject_weight, given.identifiers_weight)
        return TantivyMailEngine(index / TANTIVY, source, events.to_log, weights)


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:
    """Make the engine from an arm's settings; vectors are kept below ``cache``."""
    return Mail(Settings.model_validate(settings), cache)
