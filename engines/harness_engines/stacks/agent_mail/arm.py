"""Message search as a stack under test: a typed text in, what the service shows out."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from harness.core.digest import of_json
from harness.core.engine import Answer, Engine, Explained, Hit, Manifest, Stage
from harness.core.errors import ModelNotReady
from harness.core.records import Document, Scalar
from harness_engines import contract as kit
from harness_engines import rerank
from harness_engines.lexical.terms import FORM
from harness_engines.stacks.agent_mail import contract, live
from harness_engines.stacks.agent_mail.contract import Importance, Message, SearchMode, SearchQuery
from harness_engines.stacks.agent_mail.pipeline import pages
from harness_engines.stacks.agent_mail.pipeline.pages import text_of
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from harness_engines.stacks.agent_mail.service import MailSearch
from harness_engines.stacks.agent_mail.sqlite import store
from harness_engines.stacks.agent_mail.sqlite.search import Fts5Engine, LikeEngine, matching_ids
from harness_engines.stacks.agent_mail.sqlite.store import MessageStore, Remembered
from harness_engines.stacks.agent_mail.tantivy.engine import TantivyMailEngine
from harness_engines.stacks.agent_mail.views import StoredViews
from harness_engines.vector.embedder import HASH, Embedder, OnnxEmbedder, embedder_of, model


def message(message_id: int, document: Document) -> Message:
    """Take a document for a message: title the subject, text the body, the rest from metadata."""
    about = document.metadata
    recipients = str(about.get("recipients") or "")
    return Message(
        message_id=message_id,
        project_id=_whole(about, "project_id", 1),
        subject=document.title,
        body=document.text,
        sender_name=str(about.get("sender") or ""),
        recipients=tuple(name for name in recipients.split(",") if name),
        thread_id=str(about.get("thread_id") or ""),
        importance=Importance(str(about.get("importance") or Importance.NORMAL)),
        ack_required=bool(about.get("ack_required")),
        created_ts=_whole(about, "created_ts", message_id),
    )


KNOWN: Mapping[str, Callable[[Any], Any]] = {
    "project_id": int,
    "product_id": int,
    "importance": lambda said: tuple(map(Importance, filter(None, str(said).split(",")))),
    "direction": contract.Direction,
    "agent_name": str,
    "thread_id": str,
    "ack_required": bool,
    "min_ts": int,
    "max_ts": int,
    "sender_name": str,
    "recipient_name": str,
    "ranking": contract.RankingMode,
    "min_score": float,
}
"""Reads each parameter of a query."""
TIMES = ("min_ts", "max_ts")


def question(text: str, mode: SearchMode, limit: int, params: Mapping[str, Scalar]) -> SearchQuery:
    """Write a query with its filters."""
    strange = sorted(set(params) - set(KNOWN))
    if strange:
        raise kit.InvalidQuery(f"no parameter {strange[0]}; there is {', '.join(sorted(KNOWN))}")
    given = {name: said for name, said in params.items() if said is not None}
    for name in ("direction", "ranking"):
        if given.get(name) == "":
            del given[name]
    try:
        read = {name: KNOWN[name](said) for name, said in given.items()}
    except ValueError as exc:
        raise kit.InvalidQuery(str(exc)) from exc
    times = contract.TimeRange(*(read.pop(name, None) for name in TIMES))
    return SearchQuery(text, mode=mode, limit=limit, time_range=times, **read)


def params_of(query: SearchQuery) -> Mapping[str, Scalar]:
    """Write the filters of a query, those that are set, as ``question`` reads them."""
    times = query.time_range
    given = {name: getattr(times if name in TIMES else query, name) for name in KNOWN}
    given["importance"] = ",".join(query.importance) or None
    given["min_score"] = query.effective_min_score
    if query.ranking is contract.RankingMode.RELEVANCE:
        given["ranking"] = None
    return {
        name: said.value if isinstance(said, StrEnum) else said
        for name, said in given.items()
        if said is not None
    }


def _whole(about: Mapping[str, Scalar], key: str, absent: int) -> int:
    found = about.get(key)
    return absent if found is None else int(found)


PARTS = (SearchMode.LEXICAL, SearchMode.SEMANTIC, SearchMode.HYBRID, SearchMode.HYBRID_RERANK)
MADE_OF = {
    SearchMode.LEXICAL: PARTS[:1],
    SearchMode.SEMANTIC: PARTS[1:2],
    SearchMode.HYBRID: PARTS[:3],
    SearchMode.HYBRID_RERANK: PARTS,
}
"""Modes whose answers lead to that of a mode, itself the last."""
NAMES = dict(zip(PARTS, ("lexical", "semantic", "fused", "reranked"), strict=True))


@dataclass(frozen=True, slots=True)
class MailSearcher:
    """The service, open over one index and asked in one mode."""

    service: MailSearch
    doc_ids: tuple[str, ...]
    """Document of each message, by message id less one."""
    manifest: Manifest
    mode: SearchMode
    watched: MessageStore
    """The message table, by connections of its own."""

    @property
    def generation(self) -> int | str | None:
        """How often the messages have changed since the index was built."""
        try:
            return self.watched.generation()
        except kit.SearchError:
            return ""

    def search(self, text: str, k: int) -> Answer:
        """Ask without filters."""
        return self.search_with(text, k, {})

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        """Ask with the filters that ``params`` name."""
        shown = self._asked(text, k, params, self.mode)
        who, explain = self.manifest.fingerprint, shown.explain
        if shown.degraded:  # not the first tier of its chain answered
            who = of_json([who, shown.served_by, explain.method, shown.stale])
        return Answer(self.hits_of(shown), who, explain.note)

    def stages(self, text: str, k: int, params: Mapping[str, Scalar]) -> tuple[Stage, ...]:
        """Ask in each mode that leads to the one that answers."""
        shown = self._asked(text, k, params, self.mode)
        answering = SearchMode(shown.explain.actual_mode)
        found = []
        for mode in MADE_OF[answering][:-1]:
            part = self._asked(text, k, params, mode)
            if not part.degraded and part.explain.actual_mode == mode:
                beside = mode is SearchMode.SEMANTIC
                found.append(Stage(NAMES[mode], self.hits_of(part), beside))
        return (*found, Stage(NAMES[answering], self.hits_of(shown)))

    def explain(self, text: str, k: int, params: Mapping[str, Scalar]) -> Explained:
        """Return the service's own explanation."""
        return Explained(asdict(self._asked(text, k, params, self.mode).explain), {})

    def _asked(
        self, text: str, k: int, params: Mapping[str, Scalar], mode: SearchMode
    ) -> contract.SearchResponse:
        return self.service.search(question(text, mode, k, params))

    def hits_of(self, search_response: contract.SearchResponse) -> tuple[Hit, ...]:
        """Name the documents of the messages of a page."""
        known = self.doc_ids

        def named(message_id: int) -> str:
            is_one = 0 < message_id <= len(known)
            return known[message_id - 1] if is_one else f"message {message_id}"

        return tuple(
            Hit(named(hit.message_id), hit.score, hit.raw_score) for hit in search_response.hits
        )


ByTier = Mapping[FallbackTier, contract.MailEngine]
STORE, TANTIVY, VECTORS, IDS = "messages.db", "tantivy", "vectors.amvi", "ids.json"
LATE_INTERACTION, TOKENS = "late-interaction", "tokens.bin"


class MailSettings(kit.StackSettings):
    """How the service is queried, and what it has to answer with."""

    mode: Literal["lexical", "semantic", "hybrid", "hybrid_rerank"]
    search_engine: Literal["", "fts5", "tantivy", "shadow", "hybrid", "hybrid_rerank"]
    """The kill switch SEARCH_ENGINE; empty is unset."""
    subject_weight: int = Field(ge=1)
    identifiers_weight: int = Field(ge=1)
    embedder: str
    """A model of ``harness_engines.vector.embedder``, ``hash``, or empty for none."""
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
    def weights(self) -> contract.Weights:
        """What a word counts by where it stands."""
        return contract.Weights(self.subject_weight, self.identifiers_weight)

    @property
    def reranks_by(self) -> str:
        """The reranker; only the mode that asks for it has one."""
        return self.reranker if self.mode == "hybrid_rerank" else ""


@dataclass(frozen=True)
class Mail(kit.FileEngine[MailSearcher]):
    ENGINE = "agent-mail"
    settings: MailSettings
    cache: Path

    def embedder(self) -> Embedder | None:
        """Open the embedder that the settings name; None where they name none."""
        named = self.settings.embedder
        return embedder_of(named, self.settings.max_tokens) if named else None

    def _tokens_of(self) -> OnnxEmbedder:
        """Open the same model to compare token vectors."""
        return OnnxEmbedder.load(model(self.settings.embedder), self.settings.max_tokens)

    def _cross_encoder(self) -> rerank.CrossEncoder:
        given = self.settings
        return rerank.CrossEncoder.load(
            Path(given.reranker), given.max_tokens, given.reranker_sha256
        )

    def version(self, made: Manifest | None = None) -> str:
        """Return what answers depend on beside settings and messages; without a model, as made."""
        reranks_by = self.settings.reranks_by
        try:
            embedder = self.embedder()
            vectors = embedder.identity if embedder else "no vectors"
            by = [
                FORM,
                f"sqlite {sqlite3.sqlite_version}",
                f"tantivy {version('tantivy')}",
                vectors,
            ]
            if reranks_by == LATE_INTERACTION:
                by.append(
                    rerank.LateInteraction.identity_of(self._tokens_of(), rerank.FUSED_WEIGHT)
                )
            elif reranks_by:
                by.append(self._cross_encoder().identity)
            return ", ".join(by)
        except (ModelNotReady, kit.SearchError) as exc:
            if made is None:
                raise ModelNotReady(str(exc)) from exc
            return made.version

    def fill(self, documents: Iterable[Document], index: Path) -> None:
        in_order = sorted(documents, key=lambda document: document.doc_id)
        messages = [message(number, d) for number, d in enumerate(in_order, start=1)]
        with store.create(index / STORE) as made:
            slugs: dict[int, str] = {}
            linked: dict[int, set[int]] = {}
            for sent, document in zip(messages, in_order, strict=True):
                about, project = document.metadata, sent.project_id
                slugs[project] = str(about.get("project_slug") or f"project-{project}")
                if (product := about.get("product_id")) is not None:
                    linked.setdefault(int(product), set()).add(project)
            for project, slug in sorted(slugs.items()):
                made.add_project(project, slug)
            for product, within in sorted(linked.items()):
                made.add_product(product, f"product-{product}", sorted(within))
            made.insert_all((message, {}) for message in messages)
            made.settle_journal()
            live.LiveWords(self._tantivy(index, made)).reindex(0)
        if self.settings.reranks_by == LATE_INTERACTION:
            ids, texts = [one.message_id for one in messages], [text_of(one) for one in messages]
            rerank.write_tokens(index / TOKENS, ids, texts, self._tokens_of(), self.cache)
        if (embedder := self.embedder()) is not None:
            live.LiveVectors(index / VECTORS, embedder, self.cache, made).write(messages, 0)
        kit.write_ids(index / IDS, [document.doc_id for document in in_order])

    @contextmanager
    def load(self, index: Path, made: Manifest) -> Iterator[MailSearcher]:
        with ExitStack() as until_closed:
            with kit.reading(index, kit.SearchError, OSError, ValueError):
                doc_ids = kit.read_ids(index / IDS)
                watched, opened = (
                    until_closed.enter_context(store.opened(index / STORE)) for _ in range(2)
                )
                kit.check_count(index, made, len(doc_ids))
                generation, total = opened.generation(), opened.total_count()
                if generation:  # what the table holds is what was indexed until it changes
                    moved = of_json([made.corpus_sha256, generation])
                    made = replace(made, documents=total, corpus_sha256=moved)
                kit.check_count(index, made, total)
                service = self._service(index, opened, watched)
            mode = SearchMode(self.settings.mode)
            yield MailSearcher(service, doc_ids, made, mode, watched)

    def _service(self, index: Path, opened: MessageStore, watched: MessageStore) -> MailSearch:
        """Build the service over one index; a part that is broken is one that is absent."""
        follows: dict[str, live.LiveWords | live.LiveVectors] = {
            "tantivy": live.LiveWords(self._tantivy(index, watched))
        }

        def semantic() -> pages.Semantic | None:
            embedder = self.embedder()
            if embedder is None:
                return None
            vectors = live.LiveVectors(index / VECTORS, embedder, self.cache, watched)
            vectors.now()
            follows["vectors"] = vectors
            return pages.Semantic(
                embedder,
                lambda *asked: vectors.now().search(*asked),
                lambda wanted: matching_ids(opened, wanted),
            )

        entities = partial(pages.entities, weights=self.settings.weights)
        tiers = pages.Tiers(
            self._lexical(opened, index),
            pages.or_error(semantic),
            pages.or_error(lambda: self._reranker(index, opened, watched)),
            opened.sent,
        )
        return MailSearch(
            tiers,
            Remembered(opened).hydrate,
            opened.projects_of_product,
            KillSwitch.read(self.settings.search_engine),
            contract.to_log,
            self.settings.budget_ms,
            entities(opened),
            views=StoredViews(opened, self._rebuilt, entities).of,
            fresh=live.LiveIndexes(watched, follows, index / "live"),
        )

    def _reranker(
        self, index: Path, opened: MessageStore, watched: MessageStore
    ) -> rerank.Reranker | None:
        reranks_by = self.settings.reranks_by
        if not reranks_by:
            return None
        if reranks_by == LATE_INTERACTION:
            embedder = self._tokens_of()
            tokens = rerank.TokenStore.open(index / TOKENS, embedder.identity, embedder.dimension)
            late = rerank.LateInteraction(embedder, tokens.of, rerank.FUSED_WEIGHT)
            return live.LiveTokens(late, watched, opened.hydrate).rerank
        encoder = self._cross_encoder()

        def judge(text: str, ids: Sequence[int], _: Sequence[float]) -> Sequence[rerank.Reranked]:
            known = opened.hydrate(ids)
            texts = [text_of(known[one]) if one in known else "" for one in ids]
            return encoder.judge(text, texts)

        return judge

    def _lexical(self, opened: MessageStore, index: Path) -> ByTier:
        return {
            FallbackTier.FTS5: Fts5Engine(opened, self.settings.weights),
            FallbackTier.TANTIVY: self._tantivy(index, opened),
            FallbackTier.LIKE: LikeEngine(opened),
        }

    def _rebuilt(self, opened: MessageStore, index: Path) -> ByTier:
        """Make the engines of a viewer's own store."""
        self._tantivy(index, opened).rebuild()
        return self._lexical(opened, index)

    def _tantivy(self, index: Path, source: contract.DocumentSource) -> TantivyMailEngine:
        return TantivyMailEngine(index / TANTIVY, source, contract.to_log, self.settings.weights)


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:
    """Make the engine from an arm's settings; vectors are kept below ``cache``."""
    return Mail(MailSettings.model_validate(settings), cache)
