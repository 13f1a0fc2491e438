"""The hybrid stack, its best candidates ordered anew by late interaction."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from harness.core.engine import Answer, Engine, Hit, Manifest, Searcher, Stage, Staged
from harness.core.records import Document, Scalar
from harness_engines import contract
from harness_engines.contract import PartsEngine, StackSettings
from harness_engines.lexical.terms import normalise
from harness_engines.rerank import LateInteraction, TokenStore, joined, write_tokens
from harness_engines.stacks.text import hybrid
from harness_engines.vector.embedder import OnnxEmbedder, model

FUSED, TOKENS, IDS = "fused", "tokens.bin", "ids.json"


class RerankSettings(StackSettings):
    """What is reranked, by which model's tokens."""

    window: int = Field(ge=1, le=1000)
    """Candidates that are reranked; those below it keep their order below it."""
    fused_weight: float = Field(ge=0, le=1)
    """Share of the fused score in the blend; late interaction has the rest."""
    embedder: str
    """A model of ``harness_engines.vector.embedder``."""
    max_tokens: int = Field(ge=8, le=512)
    hybrid: hybrid.HybridSettings
    """Of the stack ``hybrid``."""


@dataclass(frozen=True, slots=True)
class Rerank(PartsEngine["RerankSearcher"]):
    ENGINE: ClassVar = "rerank"
    settings: RerankSettings
    cache: Path

    def embedder(self) -> OnnxEmbedder:
        """Open the model whose tokens are compared."""
        return OnnxEmbedder.load(model(self.settings.embedder), self.settings.max_tokens)

    def engines(self) -> Mapping[str, Engine]:
        """Make the stack that finds the candidates."""
        return {FUSED: hybrid.Hybrid(self.settings.hybrid, self.cache)}

    def version(self, made: Manifest | None = None) -> str:  # noqa: ARG002  the same for both
        return LateInteraction.identity_of(self.embedder(), self.settings.fused_weight)

    def prepare(self, documents: Sequence[Document], index: Path) -> None:
        """Make tokens first: the pass that makes them makes the vectors of the dense leg."""
        in_order = sorted((d.doc_id, f"{d.title} {d.text}".strip()) for d in documents)
        texts = [text for _, text in in_order]
        write_tokens(index / TOKENS, range(len(texts)), texts, self.embedder(), self.cache)
        contract.write_ids(index / IDS, [doc_id for doc_id, _ in in_order])

    @contextmanager
    def join(
        self, index: Path, made: Manifest, parts: Mapping[str, Searcher]
    ) -> "Iterator[RerankSearcher]":
        embedder = self.embedder()
        with contract.reading(index, contract.IndexUnavailable, OSError, ValueError):
            doc_ids = contract.read_ids(index / IDS)
            tokens = TokenStore.open(index / TOKENS, embedder.identity, embedder.dimension)
        contract.check_count(index, made, len(tokens))
        rows = {doc_id: row for row, doc_id in enumerate(doc_ids)}
        contract.check_count(index, made, len(rows))
        reranker = LateInteraction(embedder, tokens.of, self.settings.fused_weight)
        yield RerankSearcher(parts[FUSED], reranker, rows, made, self.settings.window)


@dataclass(frozen=True, slots=True)
class RerankSearcher:
    fused: Searcher
    reranker: LateInteraction
    rows: Mapping[str, int]
    """Position of each document among the token vectors."""
    manifest: Manifest
    window: int

    def search(self, text: str, k: int) -> Answer:
        found = self.fused.search(text, max(k, self.window))
        return Answer(self._anew(text, found.hits)[:k], self.manifest.fingerprint, found.note)

    def stages(self, text: str, k: int, params: Mapping[str, Scalar]) -> tuple[Stage, ...]:
        """List the stages of the stack that finds the candidates, then these in the new order."""
        if not isinstance(self.fused, Staged):
            return (Stage("reranked", self.search(text, k).hits),)
        before = self.fused.stages(text, max(k, self.window), params)
        anew = self._anew(text, before[-1].hits)
        cut = (stage._replace(hits=stage.hits[:k]) for stage in before)
        return (*cut, Stage("reranked", anew[:k]))

    def _anew(self, text: str, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        if not hits:
            return ()
        top, rest = hits[: self.window], hits[self.window :]
        ids = [self.rows[hit.doc_id] for hit in top]
        judged = self.reranker.rerank(normalise(text), ids, [hit.score for hit in top])
        judged, lowered = joined(judged, [hit.score for hit in rest])
        first = (Hit(hit.doc_id, *one) for hit, one in zip(top, judged, strict=True))
        below = (hit._replace(score=score) for hit, score in zip(rest, lowered, strict=True))
        ordered = sorted(first, key=lambda hit: (-hit.score, hit.doc_id))
        return (*ordered, *below)


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:
    """Make the engine from an arm's settings; tokens and vectors are kept below ``cache``."""
    return Rerank(RerankSettings.model_validate(settings), cache)
