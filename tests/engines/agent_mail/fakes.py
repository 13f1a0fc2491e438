"""Engines that are simple enough to be believed, and ones that fail as told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from shutil import rmtree

import numpy as np
import tantivy
from numpy.typing import NDArray

from harness.core.records import Document
from harness_engines.rerank.cross_encoder import Reranked, Reranker
from harness_engines.stacks.agent_mail.arm import STORE, TANTIVY, VECTORS
from harness_engines.stacks.agent_mail.contract import (
    CandidateList,
    Event,
    Filters,
    Importance,
    MailEngine,
    Message,
    MessageCandidate,
    Payload,
    RankingMode,
    SearchMode,
)
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from harness_engines.stacks.agent_mail.pipeline.retrievers import MessageVectors, Semantic, Tiers
from harness_engines.stacks.agent_mail.pipeline.scope import Scope, Visibility
from harness_engines.stacks.agent_mail.service import MailSearch
from harness_engines.stacks.agent_mail.views import View
from harness_engines.vector import amvi
from harness_engines.vector.embedder import Embedder, HashEmbedder, ModelFile
from tests.make.damage import cut, flip, overwrite, run_sql


def message(message_id: int, subject: str, *, project: int = 1, sender: str = "Ann") -> Message:
    return Message(
        message_id=message_id,
        project_id=project,
        subject=subject,
        body="",
        sender_name=sender,
        recipients=("Bob",),
        thread_id=f"t{message_id % 3}",
        importance=Importance.NORMAL,
        ack_required=False,
        created_ts=1_000_000 + message_id,
    )


@dataclass(frozen=True)
class Counting:
    """Scores a message by how often the query's words are in its subject."""

    name: str
    messages: Sequence[Message]

    def search(
        self, text: str, filters: Filters, ranking: RankingMode, depth: int
    ) -> CandidateList:
        words = text.lower().split()
        scored = [
            (m, sum(m.subject.lower().split().count(word) for word in words)) for m in self.messages
        ]
        kept = [(m, n) for m, n in scored if (n or not words) and passes(m, filters)]
        if ranking is RankingMode.RECENCY:
            kept.sort(key=lambda row: (-row[0].created_ts, row[0].message_id))
        else:
            kept.sort(key=lambda row: (-row[1], row[0].message_id))
        found = tuple(MessageCandidate(m.message_id, float(n)) for m, n in kept[:depth])
        return CandidateList(found, len(kept) <= depth, self.name, text, sql=f"sql of {self.name}")


@dataclass(frozen=True)
class Failing:
    """Raises what it is told to."""

    name: str
    error: BaseException

    def search(self, *_: object) -> CandidateList:
        raise self.error


def passes(found: Message, filters: Filters) -> bool:
    return (filters.project_id is None or found.project_id == filters.project_id) and (
        filters.sender_name is None or found.sender_name == filters.sender_name
    )


@dataclass
class Log:
    """Remembers events."""

    events: list[tuple[Event, Payload]] = field(default_factory=list)

    def emit(self, event: Event, payload: Payload) -> None:
        self.events.append((event, payload))


def service(
    messages: Sequence[Message],
    *,
    lexical: Mapping[FallbackTier, MailEngine] | None = None,
    semantic: MessageVectors | None = None,
    reranker: Reranker | None = None,
    switch: KillSwitch | None = None,
    log: Log | None = None,
    deleted: frozenset[int] = frozenset(),
    budget_ms: float = 0.0,
) -> MailSearch:
    """Make a service over ``messages``; ``deleted`` ones are still in the indexes."""
    known = {m.message_id: m for m in messages if m.message_id not in deleted}
    engines: Mapping[FallbackTier, MailEngine] = lexical or {
        tier: Counting(tier.value, messages)
        for tier in (FallbackTier.TANTIVY, FallbackTier.FTS5, FallbackTier.LIKE)
    }
    return MailSearch(
        tiers=Tiers(
            engines,
            semantic,
            reranker,
            lambda ids: {i: known[i].created_ts for i in ids if i in known},
        ),
        hydrate=lambda ids: {i: known[i] for i in ids if i in known},
        projects_of=lambda product: frozenset({product * 10, product * 10 + 1}),
        switch=switch,
        emit=(log or Log()).emit,
        budget_ms=budget_ms,
        views=Shown(tuple(known.values())).of,
    )


@dataclass(frozen=True)
class Shown:
    """Gives views of messages, with engines that count."""

    messages: Sequence[Message]

    def of(self, scope: Scope) -> View:
        seen = {m: scope.sees(m) for m in self.messages}
        kept = {m.message_id: m for m, said in seen.items() if said is not Visibility.DENY}
        text = [m for m in kept.values() if seen[m] is Visibility.ALLOW]
        blank = [replace(m, subject="") for m in kept.values() if seen[m] is Visibility.REDACT]
        engines = {
            tier: Counting(tier.value, [*text, *blank])
            for tier in (FallbackTier.TANTIVY, FallbackTier.FTS5, FallbackTier.LIKE)
        }
        sent = {at: m.created_ts for at, m in kept.items()}
        return View(
            scope,
            lambda _: Tiers(engines, None, None, lambda ids: {at: sent[at] for at in ids}),
            lambda ids: {at: kept[at] for at in ids if at in kept},
            lambda product: frozenset({product * 10}),
            {},
            Everywhere(),
            len(kept),
            str(sorted(kept)),
        )


class Everywhere:
    """Knows every project that has a number for its name."""

    def project_called(self, slug: str) -> int | None:
        return int(slug) if slug.isdigit() else None

    def product_called(self, name: str) -> int | None:
        return self.project_called(name)

    def projects_of_product(self, product_id: int) -> frozenset[int]:
        return frozenset({product_id})


LEXICAL = (FallbackTier.TANTIVY, FallbackTier.FTS5, FallbackTier.LIKE)
CHAINS = {
    SearchMode.LEXICAL: LEXICAL,
    SearchMode.SEMANTIC: (FallbackTier.SEMANTIC, *LEXICAL),
    SearchMode.HYBRID: (FallbackTier.HYBRID, *LEXICAL),
    SearchMode.HYBRID_RERANK: (FallbackTier.RERANK, FallbackTier.HYBRID, *LEXICAL),
}
"""Section 1.2, written down once more."""
NEEDS: Mapping[FallbackTier, frozenset[str]] = {
    FallbackTier.RERANK: frozenset({"reranker", "vectors", "tantivy"}),
    FallbackTier.HYBRID: frozenset({"vectors", "tantivy"}),
    FallbackTier.SEMANTIC: frozenset({"vectors"}),
    FallbackTier.TANTIVY: frozenset({"tantivy"}),
    FallbackTier.FTS5: frozenset({"fts5"}),
    FallbackTier.LIKE: frozenset(),
}
"""The parts that a tier is made of."""
TEXT = "lantern quarry"
LONG = 40
"""A message whose body fills pages of its own."""
DOCUMENTS = [
    Document(
        f"m{at:02}",
        f"{'lantern' if at % 5 == 0 else 'meadow'} report",
        f"{'quarry' if at % 7 == 0 else 'harbour'} {' filler' * (4_000 if at == LONG else 3)}",
        {"created_ts": at, "product_id": 5, "project_id": 1},
    )
    for at in range(1, 41)
]
EITHER = {at for at in range(1, 41) if at % 5 == 0 or at % 7 == 0}
BOTH = {35}
"""Ids of the messages that hold one word of ``TEXT``, and both."""


@dataclass(frozen=True)
class Fault:
    """What is done to an index before it is opened, or to a service that is open."""

    breaks: frozenset[str]
    because: str
    """What explain must say, as a regular expression."""
    spoil: Callable[[Path], object] = lambda _: None
    swap: Callable[[MailSearch], MailSearch] = lambda service: service


class Panic(BaseException):
    """Like a panic of a Rust engine: no Exception."""


@dataclass(frozen=True)
class Panics:
    """Asks Tantivy what makes it panic."""

    name: str = "tantivy"

    def search(self, *_: object) -> CandidateList:
        index = tantivy.Index(tantivy.SchemaBuilder().build())
        index.searcher().search(tantivy.Query.all_query(), 0)
        raise AssertionError("Tantivy did not panic")


@dataclass(frozen=True)
class Raises:
    """An engine, an embedder or a reranker that raises whatever it is asked."""

    error: BaseException
    name: str = "broken"
    identity: str = "broken"
    dimension: int = HashEmbedder().dimension

    def search(self, *_: object) -> CandidateList:
        raise self.error

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        del texts
        raise self.error

    def rerank(self, *_: object) -> Sequence[Reranked]:
        raise self.error


@dataclass(frozen=True)
class NoNumber:
    """An embedder whose model gives NaN."""

    identity: str = "nan"
    dimension: int = HashEmbedder().dimension

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.full((len(texts), self.dimension), np.nan, dtype=np.float32)


@dataclass(frozen=True)
class Scores:
    """A reranker that keeps the order it is given, unless it is told what to say."""

    says: tuple[Reranked, ...] | None = None
    identity: str = "keeps the order"

    def rerank(self, text: str, ids: Sequence[int], fused: Sequence[float]) -> Sequence[Reranked]:
        del text, ids
        return self.says or [Reranked(score, score) for score in fused]


def sql(folder: Path, *statements: str) -> None:
    """Do something to the message store behind its back."""
    run_sql(folder / STORE, *statements)


def without_words(folder: Path, statement: str, *, vectors: bool = True) -> None:
    """Take Tantivy away and do something to FTS5; without ``vectors`` take those too."""
    rmtree(folder / TANTIVY)
    sql(folder, statement)
    if not vectors:
        (folder / VECTORS).unlink()


def segment(folder: Path, suffix: str) -> Path:
    """Find a file of the Tantivy index."""
    return next((folder / TANTIVY / "index").glob(f"*.{suffix}"))


def lose_a_page(folder: Path) -> None:
    """Make the body of the message ``LONG`` unreadable: its pages lead to one that is not there."""
    path = folder / STORE
    raw = bytearray(path.read_bytes())
    page_bytes = int.from_bytes(raw[16:18], "big")
    full = next(
        at
        for at in range(0, len(raw), page_bytes)
        if raw[at + 4 : at + page_bytes].count(b"filler") > page_bytes // 8
        and 0 < int.from_bytes(raw[at : at + 4], "big") <= len(raw) // page_bytes
    )
    raw[full : full + 4] = (0x7FFFFFFE).to_bytes(4, "big")
    overwrite(path, raw)


def other_vectors(folder: Path, embedder: str, dimension: int) -> None:
    """Write a vector file of another embedder, or of another dimension."""
    ids = np.arange(1, 41, dtype=np.int64)
    vectors = np.zeros((40, dimension), dtype=np.float16)
    amvi.write_amvi(folder / VECTORS, embedder, ids, vectors)


def no_such_model(*_: object) -> Embedder:
    """Fail as a model does whose package is not installed."""
    ModelFile("no_such_carrier", "model.onnx", "0" * 64).path()
    raise AssertionError("there is such a package")


def other_model(*_: object) -> Embedder:
    """Fail as a model does whose file is another one."""
    ModelFile("numpy", "version.py", "0" * 64).path()
    raise AssertionError("its SHA-256 is pinned")


def _lexical(tier: FallbackTier, engine: Raises | Panics, service: MailSearch) -> MailSearch:
    tiers = service.tiers
    return replace(service, tiers=replace(tiers, lexical={**tiers.lexical, tier: engine}))


def _embedding(embedder: Embedder, service: MailSearch) -> MailSearch:
    semantic = service.tiers.semantic
    assert isinstance(semantic, Semantic)
    broken = replace(semantic, embedder=embedder)
    return replace(service, tiers=replace(service.tiers, semantic=broken))


def _reranking(reranker: Scores | Raises | None, service: MailSearch) -> MailSearch:
    tiers: Tiers = replace(service.tiers, reranker=reranker)
    return replace(service, tiers=tiers)


_T, _V, _R = (frozenset({part}) for part in ("tantivy", "vectors", "reranker"))


def meta(folder: Path) -> Path:
    """Name the list of segments of the Tantivy index."""
    return folder / TANTIVY / "index" / "meta.json"


def _model(embedder: Embedder) -> Callable[[MailSearch], MailSearch]:
    return partial(_embedding, embedder)


def _judge(reranker: Scores | Raises | None) -> Callable[[MailSearch], MailSearch]:
    return partial(_reranking, reranker)


FAULTS: Mapping[str, Fault] = {
    "none": Fault(frozenset(), "^$"),
    "tantivy missing": Fault(_T, "tantivy: .*no index here", lambda at: rmtree(at / TANTIVY)),
    "tantivy without its list": Fault(_T, "no index here", lambda at: meta(at).unlink()),
    "tantivy's list garbled": Fault(
        _T, "tantivy: .*broken", lambda at: overwrite(meta(at), b'{"segments": 7}')
    ),
    "tantivy flipped": Fault(_T, "its bytes were altered", lambda at: flip(segment(at, "idx"), 3)),
    "tantivy cut": Fault(_T, "cut short", lambda at: cut(segment(at, "store"))),
    "tantivy panics": Fault(
        _T, "PanicException", swap=partial(_lexical, FallbackTier.TANTIVY, Panics())
    ),
    "vectors missing": Fault(
        _V, r"vectors\.amvi: .*No such file", lambda at: (at / VECTORS).unlink()
    ),
    "vectors cut": Fault(_V, "its header says", lambda at: cut(at / VECTORS)),
    "vectors cut to nothing": Fault(
        _V, "invalid AMVI file", lambda at: overwrite(at / VECTORS, b"AM")
    ),
    "vectors flipped": Fault(_V, "its CRC-32 is", lambda at: flip(at / VECTORS)),
    "vectors of another dimension": Fault(
        _V,
        "its vectors have the dimension 64",
        lambda at: other_vectors(at, HashEmbedder().identity, 64),
    ),
    "vectors of another model": Fault(
        _V, "its embedder is 'other'", lambda at: other_vectors(at, "other", 384)
    ),
    "model breaks": Fault(
        _V,
        "semantic: .*out of memory|RuntimeError: out of memory",
        swap=_model(Raises(RuntimeError("out of memory"))),
    ),
    "model panics": Fault(_V, "Panic: poisoned", swap=_model(Raises(Panic("poisoned")))),
    "model gives no numbers": Fault(_V, "not finite", swap=_model(NoNumber())),
    "reranker absent": Fault(_R, "rerank: no model for reranking", swap=_judge(None)),
    "reranker breaks": Fault(
        _R,
        "rerank: RuntimeError: bad allocation",
        swap=_judge(Raises(RuntimeError("bad allocation"))),
    ),
    "reranker panics": Fault(_R, "rerank: Panic: gone", swap=_judge(Raises(Panic("gone")))),
    "reranker gives no number": Fault(
        _R,
        "rerank: the reranker scored nan",
        swap=_judge(Scores((Reranked(float("nan"), 0.0),) * 1_000)),
    ),
    "reranker loses one": Fault(_R, "rerank: ", swap=_judge(Scores((Reranked(0.5, 0.0),)))),
    "fts5 dropped, tantivy missing": Fault(
        _T | {"fts5"},
        "no index here.*fts5: .*no such table",
        lambda at: without_words(at, "DROP TABLE messages_fts"),
    ),
    "fts5 garbled, tantivy missing": Fault(
        _T | {"fts5"},
        "no index here.*fts5: FTS5 index: ",
        lambda at: without_words(at, "UPDATE messages_fts_data SET block = x'00ff' WHERE id > 10"),
    ),
    "all but the messages": Fault(
        _T | _V | {"fts5"},
        "no index here.*fts5: .*no such table",
        lambda at: without_words(at, "DROP TABLE messages_fts", vectors=False),
    ),
}
