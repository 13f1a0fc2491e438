"""Faults of message search, planted in an index or in a part, and what each of them takes away."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import tantivy
from numpy.typing import NDArray

from harness.core.records import Document
from harness_engines.rerank.cross_encoder import Reranked
from harness_engines.stacks.agent_mail.arm import STORE, TANTIVY, VECTORS
from harness_engines.stacks.agent_mail.contract import CandidateList, SearchMode
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier
from harness_engines.stacks.agent_mail.pipeline.retrievers import Semantic, Tiers
from harness_engines.stacks.agent_mail.service import MailSearch
from harness_engines.vector import amvi
from harness_engines.vector.embedder import Embedder, HashEmbedder, ModelFile
from tests.make.damage import cut, flip, overwrite, run_sql

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
    shutil.rmtree(folder / TANTIVY)
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


_TANTIVY, _VECTORS = frozenset({"tantivy"}), frozenset({"vectors"})
_RERANKER = frozenset({"reranker"})
FAULTS: Mapping[str, Fault] = {
    "none": Fault(frozenset(), "^$"),
    "tantivy missing": Fault(
        _TANTIVY, "tantivy: .*no index here", lambda at: shutil.rmtree(at / TANTIVY)
    ),
    "tantivy without its list": Fault(
        _TANTIVY, "no index here", lambda at: (at / TANTIVY / "index" / "meta.json").unlink()
    ),
    "tantivy's list garbled": Fault(
        _TANTIVY,
        "tantivy: .*broken",
        lambda at: overwrite(at / TANTIVY / "index" / "meta.json", b'{"segments": 7}'),
    ),
    "tantivy flipped": Fault(
        _TANTIVY, "its bytes were altered", lambda at: flip(segment(at, "idx"), 3)
    ),
    "tantivy cut": Fault(_TANTIVY, "cut short", lambda at: cut(segment(at, "store"))),
    "tantivy panics": Fault(
        _TANTIVY, "PanicException", swap=partial(_lexical, FallbackTier.TANTIVY, Panics())
    ),
    "vectors missing": Fault(
        _VECTORS, r"vectors\.amvi: .*No such file", lambda at: (at / VECTORS).unlink()
    ),
    "vectors cut": Fault(_VECTORS, "its header says", lambda at: cut(at / VECTORS)),
    "vectors cut to nothing": Fault(
        _VECTORS, "invalid AMVI file", lambda at: overwrite(at / VECTORS, b"AM")
    ),
    "vectors flipped": Fault(_VECTORS, "its CRC-32 is", lambda at: flip(at / VECTORS)),
    "vectors of another dimension": Fault(
        _VECTORS,
        "its vectors have the dimension 64",
        lambda at: other_vectors(at, HashEmbedder().identity, 64),
    ),
    "vectors of another model": Fault(
        _VECTORS, "its embedder is 'other'", lambda at: other_vectors(at, "other", 384)
    ),
    "model breaks": Fault(
        _VECTORS,
        "semantic: .*out of memory|RuntimeError: out of memory",
        swap=partial(_embedding, Raises(RuntimeError("out of memory"))),
    ),
    "model panics": Fault(
        _VECTORS, "Panic: poisoned", swap=partial(_embedding, Raises(Panic("poisoned")))
    ),
    "model gives no numbers": Fault(_VECTORS, "not finite", swap=partial(_embedding, NoNumber())),
    "reranker absent": Fault(
        _RERANKER, "rerank: no model for reranking", swap=partial(_reranking, None)
    ),
    "reranker breaks": Fault(
        _RERANKER,
        "rerank: RuntimeError: bad allocation",
        swap=partial(_reranking, Raises(RuntimeError("bad allocation"))),
    ),
    "reranker panics": Fault(
        _RERANKER, "rerank: Panic: gone", swap=partial(_reranking, Raises(Panic("gone")))
    ),
    "reranker gives no number": Fault(
        _RERANKER,
        "rerank: the reranker scored nan",
        swap=partial(_reranking, Scores((Reranked(float("nan"), 0.0),) * 1_000)),
    ),
    "reranker loses one": Fault(
        _RERANKER, "rerank: ", swap=partial(_reranking, Scores((Reranked(0.5, 0.0),)))
    ),
    "fts5 dropped, tantivy missing": Fault(
        frozenset({"tantivy", "fts5"}),
        "no index here.*fts5: .*no such table",
        lambda at: without_words(at, "DROP TABLE messages_fts"),
    ),
    "fts5 garbled, tantivy missing": Fault(
        frozenset({"tantivy", "fts5"}),
        "no index here.*fts5: FTS5 index: ",
        lambda at: without_words(at, "UPDATE messages_fts_data SET block = x'00ff' WHERE id > 10"),
    ),
    "all but the messages": Fault(
        frozenset({"tantivy", "fts5", "vectors"}),
        "no index here.*fts5: .*no such table",
        lambda at: without_words(at, "DROP TABLE messages_fts", vectors=False),
    ),
}
