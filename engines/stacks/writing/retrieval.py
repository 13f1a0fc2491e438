"""``rag:retrieve``: plan, recall, trim, rerank, and say what was done."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Lock
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engines.lexical.grammar import positive
from engines.lexical.query import LIKE, Like
from engines.ranking import fuse
from engines.stacks.writing.planner import Choice, Context, Kind, Planned, plan, refused
from engines.stacks.writing.store import Chunk, Store, shown
from engines.vector.embedder import Embedder
from harness.core.errors import HarnessError

Vector = NDArray[np.float32]


class _Held(NamedTuple):
    vector: Vector
    size: int


@dataclass(slots=True)
class VectorCache:
    """Least recently used out first; the key is the model's identity and the text itself."""

    most_entries: int
    most_bytes: int
    """Of vectors, texts and identities together."""
    held_bytes: int = 0
    _held: OrderedDict[tuple[str, str], _Held] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def __len__(self) -> int:
        """Count the vectors."""
        return len(self._held)

    def vector(self, embedder: Embedder, text: str) -> Vector:
        """Return the vector of one text, shape (dimension,).

        Each text is embedded by itself. What a quantised model gives may depend on the texts
        beside it in a batch, and a vector that was kept must be the one that would be made.
        """
        key = (embedder.identity, text)
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
                return found.vector
        vector: Vector = embedder.embed([text])[0]
        vector.flags.writeable = False
        self._keep(key, vector)
        return vector

    def _keep(self, key: tuple[str, str], vector: Vector) -> None:
        size = vector.nbytes + sum(len(part.encode(errors="replace")) for part in key)
        if size > self.most_bytes or not self.most_entries:
            return
        with self._lock:
            old = self._held.pop(key, None)
            self.held_bytes += size - (old.size if old else 0)
            self._held[key] = _Held(vector, size)
            while len(self._held) > self.most_entries or self.held_bytes > self.most_bytes:
                _, gone = self._held.popitem(last=False)
                self.held_bytes -= gone.size


class Reason(StrEnum):
    """Why candidates keep their order."""

    MODEL_NOT_READY = "MODEL_NOT_READY"
    DISABLED = "DISABLED"
    NO_CANDIDATES = "NO_CANDIDATES"


class Outcome(NamedTuple):
    """Outcome of a rerank."""

    order: tuple[int, ...]
    """Positions of the candidates in their new order."""
    cosines: tuple[float, ...]
    """Of the candidates, as they came; empty without a rerank."""
    keys: tuple[float, ...]
    """What they are ordered by: the cosine, or its sum with the share of FTS. In [-1, 1]."""
    reason: Reason | None
    """None where the candidates were reranked."""


@dataclass(frozen=True, slots=True)
class LocalRerank:
    """The model, which may be absent, and the vectors it made lately."""

    embedder: Embedder | None
    enabled: bool
    cache: VectorCache
    fts_share: float = 0.0
    """What the score of FTS counts in the order, in [0, 1]; the cosine counts the rest."""

    def order(self, text: str, snippets: Sequence[str], fts: Sequence[float] = ()) -> Outcome:
        """Order snippets by their cosine with the text, equal ones as they came.

        ``fts`` has the score of each by FTS, in [0, 1]; none count as 0.

        A model that fails is a model that is not ready: the order of FTS stays.
        """
        same = tuple(range(len(snippets)))
        if not self.enabled:
            return Outcome(same, (), (), Reason.DISABLED)
        if self.embedder is None:
            return Outcome(same, (), (), Reason.MODEL_NOT_READY)
        if not snippets:
            return Outcome(same, (), (), Reason.NO_CANDIDATES)
        try:
            asked = self.cache.vector(self.embedder, text)
            rows = np.stack([self.cache.vector(self.embedder, one) for one in snippets])
        except Exception:  # noqa: BLE001  a runtime of models raises what it likes
            return Outcome(same, (), (), Reason.MODEL_NOT_READY)
        cosines = (rows @ asked).astype(np.float64)
        if not np.isfinite(cosines).all():
            return Outcome(same, (), (), Reason.MODEL_NOT_READY)
        told = tuple(cosines.tolist())
        share = self.fts_share
        base = fts or [0.0] * len(told)
        keys = tuple(
            (1 - share) * cosine + share * score for cosine, score in zip(told, base, strict=True)
        )
        return Outcome(tuple(sorted(same, key=lambda at: -keys[at])), told, keys, None)


@dataclass(frozen=True, slots=True)
class Item:
    """One snippet."""

    source_ref: str
    snippet: str
    """The exact text that was ranked."""
    score: float
    """Higher is better."""


@dataclass(frozen=True, slots=True)
class Planner:
    """The queries that were run."""

    queries: tuple[str, ...]
    per_query_hits: tuple[int, ...]
    """Of each query."""
    selected_count: int
    """How many candidates became items."""


@dataclass(frozen=True, slots=True)
class Reranked:
    """What the model did."""

    enabled: bool
    reason: Reason | None
    """Why not, where it did nothing."""
    scores: tuple[tuple[str, float], ...]
    """Source reference and cosine of every candidate that the model saw, in the order of FTS."""


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """How the items were found."""

    mode: Literal["fulltext", "fulltext_reranked"]
    planner: Planner
    rerank: Reranked
    fallback: str = ""
    """``like`` where no query found anything and the texts themselves were looked into."""


@dataclass(frozen=True, slots=True)
class Response:
    """Items, best first, and how they were found."""

    items: tuple[Item, ...]
    diagnostics: Diagnostics

    def to_json(self) -> dict[str, Any]:
        """Write it with the contract's names; a key that has nothing to say is absent."""
        planner, rerank = self.diagnostics.planner, self.diagnostics.rerank
        told: dict[str, Any] = {"enabled": rerank.enabled}
        if rerank.reason is not None:
            told["reason"] = rerank.reason.value
        if rerank.scores:
            told["scores"] = [{"sourceRef": ref, "score": score} for ref, score in rerank.scores]
        fallback = self.diagnostics.fallback
        return {
            "items": [
                {"sourceRef": item.source_ref, "snippet": item.snippet, "score": item.score}
                for item in self.items
            ],
            "diagnostics": {
                "mode": self.diagnostics.mode,
                "planner": {
                    "queries": list(planner.queries),
                    "perQueryHits": list(planner.per_query_hits),
                    "selectedCount": planner.selected_count,
                },
                "rerank": told,
                **({"fallback": fallback} if fallback else {}),
            },
        }


LIMITS = range(1, 51)
BUDGETS = range(50, 8001)
CHARACTERS_A_TOKEN = 4
"""A model's token of English prose, on average; a budget is a bound, not a count."""


class InvalidArgument(HarnessError):
    """A limit, a budget or a text that ``rag:retrieve`` does not take."""


@dataclass(frozen=True, slots=True)
class Recall:
    """How candidates are found."""

    kinds: tuple[Kind, ...]
    tokens: Choice
    """Which words of a long text are looked for."""
    combine: Literal["union", "best"]
    """``union`` fuses what all queries find; ``best`` takes the query that finds most."""
    rrf_k: int
    candidates: int
    """Chunks asked of each query."""
    enough: int
    """Hits of a query with which ``best`` looks no further."""
    snippet_characters: int
    like: bool = False
    """Whether a text that no query finds is looked for by LIKE."""


class Candidate(NamedTuple):
    """A chunk with the exact text that is ranked."""

    chunk: Chunk
    snippet: str
    score: float
    """In [0, 1]: as a share of the best attainable fused score."""
    words: float = 0.0
    """Its BM25 as a share of the best one's, by the query that likes it most."""

    @property
    def tokens(self) -> int:
        """What it takes of a budget."""
        return math.ceil(len(self.snippet) / CHARACTERS_A_TOKEN)


class Retrieved(NamedTuple):
    """Everything that one query gave, best first."""

    ranked: tuple[Candidate, ...]
    planned: tuple[Planned, ...]
    per_query: tuple[int, ...]
    outcome: Outcome
    window: int
    """How many of the first were given to the model."""
    lists: tuple[tuple[int, ...], ...] = ()
    """Rows of the chunks that each query found, best first."""
    fallback: str = ""
    """What found these where no query did."""


@dataclass(frozen=True, slots=True)
class Retriever:
    """The stack behind ``rag:retrieve``."""

    store: Store
    recall: Recall
    rerank: LocalRerank
    top: int
    """Candidates that the model orders; those below keep their order below them."""

    def retrieve(
        self, text: str, *, limit: int, budget: int, context: Context | None = None
    ) -> Response:
        """Answer as the contract says; ``budget`` is in tokens of the snippets together.

        A snippet is never cut to fit: it was ranked as it is, so one that does not fit is left out.
        """
        return self.response(self.find(text, context), limit=limit, budget=budget)

    def response(self, found: Retrieved, *, limit: int, budget: int) -> Response:
        """Choose the snippets of an answer."""
        for name, value, allowed in (("limit", limit, LIMITS), ("budget", budget, BUDGETS)):
            if isinstance(value, bool) or not isinstance(value, int) or value not in allowed:
                raise InvalidArgument(
                    f"{name} is {value!r}; give a whole number from {allowed[0]} to {allowed[-1]}"
                )
        items: list[Item] = []
        for candidate, score in zip(found.ranked, scores(found), strict=True):
            if len(items) == limit:
                break
            if candidate.tokens <= budget:
                budget -= candidate.tokens
                items.append(Item(candidate.chunk.ref, candidate.snippet, score))
        return Response(tuple(items), _diagnostics(found, items))

    def find(self, text: str, context: Context | None = None) -> Retrieved:
        """Find and order candidates, without a limit but ``Recall.candidates`` a query."""
        never = refused(text)
        if never:
            return self._lacking(never)
        planned = plan(text, self.recall.kinds, self.store.count, context, self.recall.tokens)
        scored = [self.store.find(one.query, self.recall.candidates) for one in planned]
        if self.recall.like and not any(scored):
            return self._containing(text, planned)
        candidates = self._candidates(planned, scored)
        lists = [list(one) for one in scored]
        window, below = candidates[: self.top], candidates[self.top :]
        outcome = self.rerank.order(
            positive(text), [one.snippet for one in window], [one.words for one in window]
        )
        ranked = (*(window[at] for at in outcome.order), *below)
        found = tuple(map(tuple, lists))
        return Retrieved(ranked, planned, tuple(map(len, lists)), outcome, len(window), found)

    def _lacking(self, never: str) -> Retrieved:
        """List what a text of refusals alone leaves, in the order of the notes."""
        left = self.store.lacking(never, self.recall.candidates)
        planned = (Planned(Kind.TEXT, f"NOT ({never})"),)
        return self._listed([self.store.read(rowid) for rowid in left], planned, (len(left),), "")

    def _containing(self, text: str, planned: tuple[Planned, ...]) -> Retrieved:
        """List the chunks that contain what was typed, in the order of the notes."""
        like = Like.of(text)
        rows = self.store.containing(like.has, self.recall.candidates)
        chunks = [self.store.read(rowid, like.at) for rowid in rows]
        return self._listed(chunks, planned, (0,) * len(planned), LIKE if chunks else "")

    def _listed(
        self,
        chunks: Sequence[Chunk],
        planned: tuple[Planned, ...],
        per_query: tuple[int, ...],
        by: str,
    ) -> Retrieved:
        most = self.recall.snippet_characters
        ranked = tuple(Candidate(one, shown(one.title, one.passage, most), 0.0) for one in chunks)
        outcome = Outcome(tuple(range(len(ranked))), (), (), Reason.NO_CANDIDATES)
        return Retrieved(ranked, planned, per_query, outcome, 0, fallback=by)

    def _candidates(
        self, planned: Sequence[Planned], scored: Sequence[Mapping[int, float]]
    ) -> list[Candidate]:
        """Bring the queries' lists together; each chunk is read through the first that has it."""
        lists = [list(one) for one in scored]
        words: dict[int, float] = {}
        for held in scored:
            most = max(held.values(), default=0.0)
            for row, score in held.items():
                words[row] = max(words.get(row, 0.0), score / most if most > 0 else 0.0)
        if self.recall.combine == "best" and lists:
            at = _best(lists, self.recall.enough)
            planned, lists = [planned[at]], [lists[at]]
        chunks: dict[int, Chunk] = {}
        for one, ids in zip(planned, lists, strict=True):
            chunks |= self.store.chunks(set(ids) - chunks.keys(), one.query)
        places = {row: f"{at:06}" for at, row in enumerate(self.store.in_order(chunks))}
        rows = {place: row for row, place in places.items()}
        names = {f"{at}": [places[row] for row in ids] for at, ids in enumerate(lists)}
        weights = dict.fromkeys(names, 1.0)
        found = []
        for hit in fuse(names, weights, rrf_k=self.recall.rrf_k, k=len(chunks)):
            chunk = chunks[rows[hit.doc_id]]
            snippet = shown(chunk.title, chunk.passage, self.recall.snippet_characters)
            found.append(Candidate(chunk, snippet, hit.score, words[chunk.rowid]))
        return found


def scores(found: Retrieved) -> tuple[float, ...]:
    """Score what was ranked, falling and in [0, 1]: cosines of the window, FTS without a model.

    What lies below the window is squeezed under its lowest score, so that its order stays.
    """
    base = [candidate.score for candidate in found.ranked]
    if found.outcome.reason is not None:
        return tuple(base)
    top = [(1 + found.outcome.keys[at]) / 2 for at in found.outcome.order]
    top = [min(1.0, max(0.0, score)) for score in top]
    floor = min(top)
    return (*top, *(score * floor for score in base[found.window :]))


def _best(lists: Sequence[Sequence[int]], enough: int) -> int:
    """Choose the list with the most hits, the first of equal ones; the first that has enough."""
    for at, found in enumerate(lists):
        if len(found) >= enough:
            return at
    return max(range(len(lists)), key=lambda at: (len(lists[at]), -at))


def _diagnostics(found: Retrieved, items: Sequence[Item]) -> Diagnostics:
    reason = found.outcome.reason
    told = dict(zip(found.outcome.order, found.ranked, strict=False))
    cosines = tuple((told[at].chunk.ref, cosine) for at, cosine in enumerate(found.outcome.cosines))
    return Diagnostics(
        mode="fulltext" if reason else "fulltext_reranked",
        planner=Planner(
            queries=tuple(one.query for one in found.planned),
            per_query_hits=found.per_query,
            selected_count=len(items),
        ),
        rerank=Reranked(enabled=reason is None, reason=reason, scores=cosines),
        fallback=found.fallback,
    )
