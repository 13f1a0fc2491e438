"""From a tier of the chain to one page of hits, as far as the viewer may see."""

import hashlib
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import repeat
from operator import itemgetter, neg
from time import perf_counter_ns
from typing import Generic, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from harness_engines.contract import EngineError, FeatureUnavailable, SearchError
from harness_engines.lexical.grammar import positive, signed
from harness_engines.ranking import fuse
from harness_engines.rerank import Reranker, joined
from harness_engines.stacks.agent_mail import contract, faults
from harness_engines.stacks.agent_mail.contract import CandidateList, ExplainTiming, SearchHit
from harness_engines.stacks.agent_mail.faults import Deadline, ServiceParts
from harness_engines.stacks.agent_mail.pipeline import plan
from harness_engines.stacks.agent_mail.pipeline.scope import REDACTED, Scope, Visibility
from harness_engines.stacks.agent_mail.sqlite import schema
from harness_engines.stacks.agent_mail.sqlite.search import Fts5Engine, LikeEngine
from harness_engines.stacks.agent_mail.sqlite.store import MessageStore
from harness_engines.vector.embedder import Embedder

Doc = TypeVar("Doc")
Part = TypeVar("Part")
Result = TypeVar("Result")
AnyHit = SearchHit | contract.EntityHit
ScoredMessage: TypeAlias = tuple[int, float, float, int | None]
"""Id, score in [0, 1], the engine's own score, and the time sent where the order is by that."""
_ID = itemgetter(0)


def key(hit: ScoredMessage) -> float | int:
    """Return what order and cursors go by, higher first: the time sent, or else the score."""
    return hit[1] if hit[3] is None else hit[3]


class RankedMessages(NamedTuple):
    """Messages in the order of section 3.3: score descending, id ascending."""

    hits: Sequence[ScoredMessage]
    found: CandidateList
    """What they were made of, and whether a greater depth would give no more."""
    clock: ExplainTiming = ExplainTiming()
    """Times of the parts that ran."""


def in_order(hits: Iterable[ScoredMessage]) -> tuple[ScoredMessage, ...]:
    """Sort by score (or time sent) descending, then id ascending (section 3.3)."""
    listed = list(hits)
    by_time = bool(listed) and listed[0][3] is not None
    keys = map(neg, map(itemgetter(3 if by_time else 1), listed))
    keyed = sorted(zip(keys, map(_ID, listed), listed, strict=True))
    return tuple(map(itemgetter(2), keyed))


def of_lexical(found: CandidateList, clock: ExplainTiming) -> RankedMessages:
    """Take an engine's candidates over, their scores as shares of the best one.

    0 is what a message that matches nothing would score and 1 the query's best hit, so a score
    depends neither on the page nor on the depth (decision 7). Without a score, as in a listing,
    every message has 0.
    """
    raw = [score for _, score in found.candidates]
    check_numbers(raw)
    best = max(raw, default=0.0) if found.best is None else found.best
    shares = [score / best for score in raw] if best > 0 else [0.0] * len(raw)
    if shares and (min(shares) < 0.0 or max(shares) > 1.0):
        shares = [min(1.0, max(0.0, share)) for share in shares]
    rows = zip(map(_ID, found.candidates), shares, raw, repeat(None))
    return RankedMessages(in_order(rows), found, clock)


def check_numbers(scores: Iterable[float]) -> None:
    """Refuse scores that are not numbers."""
    if not all(map(math.isfinite, scores)):
        raise EngineError("a score is not a number")


Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Semantic:
    """A vector index and the embedder that it was made with."""

    embedder: Embedder
    index: Callable[[NDArray[np.float32], int, Ids | None], Sequence[tuple[int, float]]]
    """Finds at most so many pairs of message id and cosine, best first; no ids allow all."""
    matching: Callable[[contract.Filters], Ids]
    """Sorted ids of the messages that pass filters: they apply before ranking."""
    every: bool = True
    """Whether without a filter every vector competes; else those that ``matching`` gives."""

    def search(self, text: str, filters: contract.Filters, depth: int) -> CandidateList:
        """Return at most ``depth`` messages, nearest first; none at a right angle or beyond."""
        allowed = None if self.every and filters == contract.Filters() else self.matching(filters)
        query = self.embedder.embed([text])[0]
        nearest = self.index(query, depth, allowed)
        return CandidateList(
            tuple(pair for pair in nearest if pair[1] > 0),
            exhausted=len(nearest) < depth,
            method="vector",
            normalized_query=text,
        )


def text_of(message: contract.Message) -> str:
    """Return what is read of a message: its subject, then its body."""
    return f"{message.subject} {message.body}".strip()


def or_error(opening: Callable[[], Part]) -> Part | SearchError:
    """Open a part; one that cannot be opened is absent (section 2.2, rule 3: never an error)."""
    try:
        with faults.known():
            return opening()
    except SearchError as exc:
        return exc


def there(part: Part | SearchError | None, absent: str) -> Part:
    """Return a part, or raise why there is none."""
    if part is None:
        raise FeatureUnavailable(absent)
    if isinstance(part, SearchError):
        raise type(part)(str(part))
    return part


FUSED_DEPTH = 1_000
"""Candidates of each leg. Fixed, since a fused score depends on it and pages must agree."""
EVERY = 2**31 - 2
"""As many candidates as an engine counts."""
NEAREST = FUSED_DEPTH
"""Messages near enough to be shown newest first; all have some cosine, and pages must agree."""


class TierQuery(NamedTuple):
    """One query on its way through a chain."""

    text: str
    filters: contract.Filters
    ranking: contract.RankingMode
    rrf_k: int
    rerank_top_k: int
    until: Deadline | None = None
    """When the tier that is tried will be left; None waits for it."""

    @property
    def meant(self) -> str:
        """What a model reads: it knows no signs, and would look for what is refused."""
        return positive(self.text) if signed(self.text) else self.text


def _told(filters: contract.Filters) -> str:
    values = contract.values_of(filters)
    return repr([sorted(one) if isinstance(one, frozenset) else one for one in values])


_UNFILTERED = _told(contract.UNFILTERED)
_NAMED = {one: repr(one) for one in (*contract.DocKind, *contract.RankingMode)}


def digits_of(query: contract.SearchQuery, asked: TierQuery) -> str:
    """Return a digest of what decides which hits a query has, and in which order."""
    every = asked.filters is contract.UNFILTERED
    filters = _UNFILTERED if every else _told(asked.filters)
    constants = f"{asked.rrf_k!r}, {asked.rerank_top_k!r}, {query.effective_min_score!r}"
    of = f"{_NAMED[query.doc_kind]}, {asked.text!r}, {filters}, ({_NAMED[asked.ranking]}"
    said = f"({of}, {constants}))"
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[: plan.QUERY_DIGITS]


@dataclass(frozen=True, slots=True)
class Tiers:
    """What there is to answer with; what is absent is a feature that is not available."""

    lexical: Mapping[plan.FallbackTier, contract.MailEngine]
    semantic: Semantic | SearchError | None
    reranker: Reranker | SearchError | None
    sent: Callable[[Sequence[int]], Mapping[int, int]]
    """When messages were sent, microseconds; for the order by recency."""
    parts: ServiceParts = field(default_factory=ServiceParts)

    def rank(self, tier: plan.FallbackTier, asked: TierQuery, depth: int) -> RankedMessages:
        """Answer by one tier."""
        with faults.known():
            found = self._rank(tier, asked, depth)
            if asked.ranking is not contract.RankingMode.RECENCY:
                return found
            when = self.sent([*map(_ID, found.hits)])
            hits = ((*hit[:3], when[hit[0]]) for hit in found.hits if hit[0] in when)
            return found._replace(hits=in_order(hits))

    def _rank(self, tier: plan.FallbackTier, asked: TierQuery, depth: int) -> RankedMessages:
        match tier:
            case plan.FallbackTier.TANTIVY | plan.FallbackTier.FTS5 | plan.FallbackTier.LIKE:
                found, took = _timed(lambda: self._words(tier, asked, depth))
                return of_lexical(found, ExplainTiming(lexical_us=took))
            case plan.FallbackTier.SEMANTIC:
                newest = asked.ranking is contract.RankingMode.RECENCY
                found, took = _timed(lambda: self._nearest(asked, NEAREST if newest else depth))
                hits = ((at, min(1.0, max(0.0, raw)), raw, None) for at, raw in found.candidates)
                whole = replace(found, exhausted=found.exhausted or newest)
                return RankedMessages(in_order(hits), whole, ExplainTiming(vector_us=took))
            case plan.FallbackTier.HYBRID:
                return self._fused(asked)
            case plan.FallbackTier.RERANK:
                return self._reranked(asked)

    def _words(self, tier: plan.FallbackTier, asked: TierQuery, depth: int) -> CandidateList:
        engine = there(self.lexical.get(tier), f"{tier} is not installed")
        search = partial(engine.search, asked.text, asked.filters, asked.ranking, depth)
        return self.parts.call(tier, search, asked.until)

    def _nearest(self, asked: TierQuery, depth: int) -> CandidateList:
        semantic = there(self.semantic, "no model for semantic search")
        if not asked.meant:
            raise FeatureUnavailable("semantic search needs a text")
        search = partial(semantic.search, asked.meant, asked.filters, depth)
        found = self.parts.call(plan.FallbackTier.SEMANTIC, search, asked.until)
        check_numbers(score for _, score in found.candidates)
        said = signed(asked.text)
        if not said:
            return found
        alike = asked._replace(text=said, ranking=contract.RankingMode.RELEVANCE)
        words = self._words(plan.FallbackTier.TANTIVY, alike, EVERY)
        allowed = {message_id for message_id, _ in words.candidates}
        kept = tuple(one for one in found.candidates if one[0] in allowed)
        return replace(found, candidates=kept)

    def _fused(self, asked: TierQuery) -> RankedMessages:
        if asked.text and not asked.meant:
            words, took = _timed(lambda: self._words(plan.FallbackTier.TANTIVY, asked, EVERY))
            listed = of_lexical(words, ExplainTiming(lexical_us=took))
            return listed._replace(found=replace(words, method="hybrid_rrf"))
        nearest, vector_us = _timed(lambda: self._nearest(asked, FUSED_DEPTH))
        by_relevance = asked._replace(ranking=contract.RankingMode.RELEVANCE)
        words, lexical_us = _timed(
            lambda: self._words(plan.FallbackTier.TANTIVY, by_relevance, FUSED_DEPTH)
        )
        legs = {
            "lexical": [str(message_id) for message_id, _ in words.candidates],
            "semantic": [str(message_id) for message_id, _ in nearest.candidates],
        }
        weights = dict.fromkeys(legs, 1.0)
        most = sum(len(leg) for leg in legs.values())
        hits, fusion_us = _timed(lambda: fuse(legs, weights, rrf_k=asked.rrf_k, k=most))
        found = CandidateList(
            (),
            exhausted=True,
            method="hybrid_rrf",
            normalized_query=words.normalized_query,
            note=words.note,
        )
        return RankedMessages(
            in_order((int(hit.doc_id), hit.score, hit.raw_score, None) for hit in hits),
            found,
            ExplainTiming(lexical_us=lexical_us, vector_us=vector_us, fusion_us=fusion_us),
        )

    def _reranked(self, asked: TierQuery) -> RankedMessages:
        """Rerank the window; candidates below it keep their order below it (decision 17)."""
        reranker = there(self.reranker, "no model for reranking")
        fused = self._fused(asked)
        if asked.text and not asked.meant:
            return fused._replace(found=replace(fused.found, method="hybrid_rerank"))
        window, rest = fused.hits[: asked.rerank_top_k], fused.hits[asked.rerank_top_k :]
        ids, scores = [*map(_ID, window)], [hit[1] for hit in window]
        rerank = partial(reranker, asked.meant, ids, scores)
        judged, rerank_us = _timed(
            lambda: self.parts.call(plan.FallbackTier.RERANK, rerank, asked.until)
        )
        judged, lowered = joined(judged, [hit[1] for hit in rest])
        top = ((at, *one, None) for at, one in zip(ids, judged, strict=True))
        below = ((hit[0], score, *hit[2:]) for hit, score in zip(rest, lowered, strict=True))
        return fused._replace(
            hits=(*in_order(top), *in_order(below)),
            found=replace(fused.found, method="hybrid_rerank"),
            clock=replace(fused.clock, rerank_us=rerank_us),
        )


def _timed(work: Callable[[], Result]) -> tuple[Result, int]:
    start = perf_counter_ns()
    done = work()
    return done, (perf_counter_ns() - start) // 1_000


SPARE = 64
"""Candidates fetched first beyond a page of many; scope and deleted messages may ask for more."""
GROWTH = 4


class PageSource(NamedTuple, Generic[Doc]):
    """What documents of one kind are searched with."""

    tiers: Tiers
    hydrate: Callable[[Sequence[int]], Mapping[int, Doc]]
    """Documents by id; deleted ones are absent."""
    show: Callable[[Sequence[ScoredMessage], Mapping[int, Doc]], Sequence[AnyHit]]
    """Make hits of the documents that are there and are for this viewer."""
    hides: bool = True
    """Whether some of those that are found may not be for this viewer."""


def entities(
    store: MessageStore, weights: contract.Weights
) -> Mapping[contract.DocKind, PageSource[contract.Entity]]:
    """Return what agents and projects are searched with: FTS5, and LIKE where that fails."""

    def tiers(table: str) -> Tiers:
        engines: Mapping[plan.FallbackTier, contract.MailEngine] = {
            plan.FallbackTier.FTS5: Fts5Engine(store, weights, table=table),
            plan.FallbackTier.LIKE: LikeEngine(store, table),
        }
        return Tiers(engines, None, None, lambda _: {})

    def show(
        hits: Sequence[ScoredMessage], found: Mapping[int, contract.Entity]
    ) -> Sequence[AnyHit]:
        return [contract.EntityHit(found[at], *of) for at, *of, _ in hits if at in found]

    return {
        contract.DocKind.AGENT: PageSource(tiers(schema.AGENTS), store.agents, show),
        contract.DocKind.PROJECT: PageSource(tiers(schema.PROJECTS), store.projects, show),
    }


def messages(
    scope: Scope, hits: Sequence[ScoredMessage], known: Mapping[int, contract.Message]
) -> Sequence[SearchHit]:
    """Show messages as far as ``scope`` allows; redaction hides their subjects and bodies."""
    shown: list[SearchHit] = []
    for message_id, score, raw_score, _ in hits:
        if (m := known.get(message_id)) is None:
            continue
        hidden = False
        if not scope.whole:
            if (verdict := scope.sees(m)) is Visibility.DENY:
                continue
            hidden = verdict is Visibility.REDACT
        subject, body = (REDACTED, REDACTED) if hidden else (m.subject, m.body)
        row = (m.message_id, m.project_id, subject, body, m.sender_name, m.thread_id, m.importance,
               m.ack_required, m.created_ts, score, raw_score, hidden)  # fmt: skip
        shown.append(tuple.__new__(SearchHit, row))
    return shown


class HitPage(NamedTuple):
    """Hits shown, the token of the next page, and what was left out on the way."""

    ranked: RankedMessages
    """What its hits were taken from."""
    hits: tuple[AnyHit, ...] = ()
    next_cursor: str | None = None
    denied: int = 0
    invalidated: bool = False
    scope_us: int = 0

    @property
    def messages(self) -> tuple[SearchHit, ...]:
        """Hits of a page of messages."""
        return () if self.entities else cast("tuple[SearchHit, ...]", self.hits)

    @property
    def entities(self) -> tuple[contract.EntityHit, ...]:
        """Hits of a page of agents or projects."""
        of_entities = bool(self.hits) and isinstance(self.hits[0], contract.EntityHit)
        return cast("tuple[contract.EntityHit, ...]", self.hits) if of_entities else ()


NOTHING = HitPage(
    RankedMessages((), CandidateList((), exhausted=True, method="empty", normalized_query=None))
)
"""The page of a query that nothing could answer."""


def fill(
    source: PageSource[Doc],
    tier: plan.FallbackTier,
    query: contract.SearchQuery,
    asked: TierQuery,
    cursor: plan.SearchCursor | None,
) -> HitPage:
    """Read candidates until the page is full or they end.

    Scope is applied to what was retrieved, so denied messages never shorten a page that has more
    to show. The next cursor names the last candidate that was *examined*, shown or not, and all
    that were before. So what was examined comes on no later page, and what was not comes on one of
    them, however writing and deleting moved it meanwhile. First comes what stands after the
    cursor's document, or after its score where that is gone; what has moved before it comes last.
    """
    limit, least = query.effective_limit, query.effective_min_score
    spare = min(limit, SPARE) if source.hides else 0
    depth = limit + spare + (len(cursor.seen) if cursor else 0)
    while True:
        ranked = source.tiers.rank(tier, asked, depth)
        at = _place(ranked, cursor, source.hydrate)
        if at is not None:
            left = _left(ranked, cursor, at)
            if least is not None:
                left = [hit for hit in left if hit[1] >= least]
            shown: list[AnyHit] = []
            denied = took_ns = end = 0
            while end < len(left) and len(shown) < limit:
                part = left[end : end + limit - len(shown)]
                end += len(part)
                known = source.hydrate([*map(_ID, part)])
                start = perf_counter_ns()
                made = source.show(part, known)
                shown.extend(made)
                denied += len(known) - len(made)
                took_ns += perf_counter_ns() - start
            if len(shown) == limit or ranked.found.exhausted:
                break
        depth *= GROWTH
    next_cursor = None
    if len(shown) == limit:
        last = left[end - 1]
        before = (cursor and cursor.seen) or frozenset(map(_ID, ranked.hits[:at]))
        examined = frozenset(map(_ID, left[:end]))
        where = float(key(last)), last[0], plan.pager(query.doc_kind, tier)
        next_cursor = plan.SearchCursor(*where, digits_of(query, asked), before | examined).encode()
    invalidated = query.cursor is not None and cursor is None
    return HitPage(ranked, tuple(shown), next_cursor, denied, invalidated, took_ns // 1_000)


def _place(
    ranked: RankedMessages,
    cursor: plan.SearchCursor | None,
    hydrate: Callable[[Sequence[int]], Mapping[int, Doc]],
) -> int | None:
    """Return how many candidates stand before a page; None where more must be read to know."""
    if cursor is None:
        return 0
    if cursor.message_id in hydrate([cursor.message_id]):
        for at, hit in enumerate(ranked.hits, start=1):
            if hit[0] == cursor.message_id:
                return at
        if not ranked.found.exhausted:
            return None
    last = (-cursor.score, cursor.message_id)
    return bisect_right(ranked.hits, last, key=lambda hit: (-key(hit), hit[0]))


def _left(
    ranked: RankedMessages, cursor: plan.SearchCursor | None, at: int
) -> Sequence[ScoredMessage]:
    """Return the candidates that no page has examined, those from the place ``at`` on first."""
    if cursor is None or not cursor.seen:
        return ranked.hits[at:]
    moved = ranked.hits[:at] if ranked.found.exhausted else ()
    return [hit for hit in (*ranked.hits[at:], *moved) if hit[0] not in cursor.seen]
