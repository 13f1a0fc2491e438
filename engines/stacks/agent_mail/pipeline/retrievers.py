"""The ways to answer: each tier of a chain, from text and filters to normalised scores."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from time import perf_counter_ns
from typing import TypeVar

from engines.contract.errors import FeatureUnavailable
from engines.lexical.typed import positive, signed
from engines.ranking.rrf import fuse
from engines.rerank.window import Reranked, Reranker, joined
from engines.stacks.agent_mail.budget import Deadline, Parts
from engines.stacks.agent_mail.contract.lifecycle import CandidateList, MailEngine
from engines.stacks.agent_mail.contract.query import Filters, RankingMode, SearchQuery
from engines.stacks.agent_mail.pipeline import faults
from engines.stacks.agent_mail.pipeline.cursor import QUERY_DIGITS
from engines.stacks.agent_mail.pipeline.plan import FallbackTier
from engines.stacks.agent_mail.pipeline.ranked import (
    Clock,
    Ranked,
    Scored,
    checked,
    in_order,
    of_lexical,
)
from engines.stacks.agent_mail.pipeline.semantic import Nearest

FUSED_DEPTH = 1_000
"""Candidates of each leg. Fixed, since a fused score depends on it and pages must agree."""
EVERY = 2**31 - 2
"""As many candidates as an engine counts."""
NEAREST = FUSED_DEPTH
"""Messages near enough to be shown newest first; all have some cosine, and pages must agree."""

LONG_AGO = -(2**53)
"""When a message was sent whose time cannot be read: it comes last, and its reader will say so."""

_FILTERS = tuple(one.name for one in fields(Filters))
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class TierQuery:
    """One query on its way through a chain."""

    text: str
    filters: Filters
    ranking: RankingMode
    rrf_k: int
    rerank_top_k: int
    until: Deadline | None = None
    """When the tier that is tried will be left; None waits for it."""

    @property
    def meant(self) -> str:
        """What a model reads: it knows no signs, and would look for what is refused."""
        return positive(self.text) if signed(self.text) else self.text


def digits_of(query: SearchQuery, asked: TierQuery) -> str:
    """Tell a query from others by what decides which hits there are and in which order."""
    given = (getattr(asked.filters, name) for name in _FILTERS)
    filters = [sorted(one) if isinstance(one, frozenset) else one for one in given]
    constants = asked.ranking, asked.rrf_k, asked.rerank_top_k, query.effective_min_score
    said = repr((query.doc_kind, asked.text, filters, constants))
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:QUERY_DIGITS]


@dataclass(frozen=True, slots=True)
class Tiers:
    """What there is to answer with; what is absent is a feature that is not available."""

    lexical: Mapping[FallbackTier, MailEngine]
    semantic: Nearest | None
    reranker: Reranker | None
    sent: Callable[[Sequence[int]], Mapping[int, int]]
    """When messages were sent, microseconds; for the order by recency."""
    parts: Parts = field(default_factory=Parts)

    def rank(self, tier: FallbackTier, asked: TierQuery, depth: int) -> Ranked:
        """Answer by one tier.

        Raises:
            FeatureUnavailable: the tier needs what is not there.
            IndexUnavailable: its index is missing or broken.
            EngineError: whatever else went wrong in it, or it is past its deadline.
        """
        with faults.known():
            found = self._rank(tier, asked, depth)
            if asked.ranking is not RankingMode.RECENCY:
                return found
            lost: dict[int, str] = {}
            when = faults.salvaged(self.sent, lost)([hit.message_id for hit in found.hits])
            when = {**dict.fromkeys(lost, LONG_AGO), **when}
            hits = (h._replace(sent=when[h.message_id]) for h in found.hits if h.message_id in when)
            return replace(found, hits=in_order(hits))

    def _rank(self, tier: FallbackTier, asked: TierQuery, depth: int) -> Ranked:
        match tier:
            case FallbackTier.TANTIVY | FallbackTier.FTS5 | FallbackTier.LIKE:
                found, took = _timed(lambda: self._words(tier, asked, depth))
                return of_lexical(found, Clock(lexical_us=took))
            case FallbackTier.SEMANTIC:
                newest = asked.ranking is RankingMode.RECENCY
                found, took = _timed(lambda: self._nearest(asked, NEAREST if newest else depth))
                whole = replace(found, exhausted=found.exhausted or newest)
                return _of_vectors(whole, Clock(vector_us=took))
            case FallbackTier.HYBRID:
                return self._fused(asked)
            case FallbackTier.RERANK:
                return self._reranked(asked)

    def _words(self, tier: FallbackTier, asked: TierQuery, depth: int) -> CandidateList:
        engine = self.lexical.get(tier)
        if engine is None:
            raise FeatureUnavailable(f"{tier} is not installed")

        def search() -> CandidateList:
            return engine.search(asked.text, asked.filters, asked.ranking, depth)

        return self.parts.call(tier, search, asked.until)

    def _nearest(self, asked: TierQuery, depth: int) -> CandidateList:
        if self.semantic is None:
            raise FeatureUnavailable("no model for semantic search")
        if not asked.meant:
            raise FeatureUnavailable("semantic search needs a text")
        semantic = self.semantic

        def search() -> CandidateList:
            return semantic.search(asked.meant, asked.filters, depth)

        found = self.parts.call(FallbackTier.SEMANTIC, search, asked.until)
        checked(found.candidates)
        return self._held(asked, found)

    def _held(self, asked: TierQuery, found: CandidateList) -> CandidateList:
        """Keep what the signs of the text allow: a vector knows no ``-word`` and no ``+word``."""
        said = signed(asked.text)
        if not said:
            return found
        alike = replace(asked, text=said, ranking=RankingMode.RELEVANCE)
        words = self._words(FallbackTier.TANTIVY, alike, EVERY)
        allowed = {candidate.message_id for candidate in words.candidates}
        kept = tuple(one for one in found.candidates if one.message_id in allowed)
        return replace(found, candidates=kept)

    def _fused(self, asked: TierQuery) -> Ranked:
        if asked.text and not asked.meant:
            return self._lacking(asked)
        with faults.of_leg(FallbackTier.SEMANTIC):
            nearest, vector_us = _timed(lambda: self._nearest(asked, FUSED_DEPTH))
        by_relevance = replace(asked, ranking=RankingMode.RELEVANCE)
        with faults.of_leg(FallbackTier.TANTIVY):
            words, lexical_us = _timed(
                lambda: self._words(FallbackTier.TANTIVY, by_relevance, FUSED_DEPTH)
            )
        legs = {
            "lexical": [str(c.message_id) for c in words.candidates],
            "semantic": [str(c.message_id) for c in nearest.candidates],
        }
        weights = dict.fromkeys(legs, 1.0)
        most = sum(len(leg) for leg in legs.values())
        hits, fusion_us = _timed(lambda: fuse(legs, weights, rrf_k=asked.rrf_k, k=most))
        return Ranked(
            in_order(Scored(int(hit.doc_id), hit.score, hit.raw_score) for hit in hits),
            exhausted=True,
            method="hybrid_rrf",
            normalized_query=words.normalized_query,
            note=words.note,
            clock=Clock(lexical_us=lexical_us, vector_us=vector_us, fusion_us=fusion_us),
        )

    def _lacking(self, asked: TierQuery) -> Ranked:
        """List what a text of refusals alone leaves: a model has nothing to look for there."""
        with faults.of_leg(FallbackTier.TANTIVY):
            words, took = _timed(lambda: self._words(FallbackTier.TANTIVY, asked, EVERY))
        return replace(of_lexical(words, Clock(lexical_us=took)), method="hybrid_rrf")

    def _reranked(self, asked: TierQuery) -> Ranked:
        """Rerank the window; candidates below it keep their order below it (decision 17)."""
        if self.reranker is None:
            raise FeatureUnavailable("no model for reranking")
        fused = self._fused(asked)
        if asked.text and not asked.meant:
            return replace(fused, method="hybrid_rerank")
        window, rest = fused.hits[: asked.rerank_top_k], fused.hits[asked.rerank_top_k :]
        ids, scores = [hit.message_id for hit in window], [hit.score for hit in window]
        reranker = self.reranker

        def rerank() -> Sequence[Reranked]:
            return reranker.rerank(asked.meant, ids, scores)

        judged, rerank_us = _timed(
            lambda: self.parts.call(FallbackTier.RERANK, rerank, asked.until)
        )
        anew = joined(judged, [hit.score for hit in rest])
        top = (Scored(at, *one) for at, one in zip(ids, anew.window, strict=True))
        below = (hit._replace(score=score) for hit, score in zip(rest, anew.below, strict=True))
        return replace(
            fused,
            hits=(*in_order(top), *in_order(below)),
            method="hybrid_rerank",
            clock=replace(fused.clock, rerank_us=rerank_us),
        )


def _of_vectors(found: CandidateList, clock: Clock) -> Ranked:
    hits = (
        Scored(c.message_id, min(1.0, max(0.0, c.raw_score)), c.raw_score) for c in found.candidates
    )
    return Ranked(
        in_order(hits), found.exhausted, found.method, found.normalized_query, clock=clock
    )


def _timed(work: Callable[[], Result]) -> tuple[Result, int]:
    start = perf_counter_ns()
    done = work()
    return done, (perf_counter_ns() - start) // 1_000
