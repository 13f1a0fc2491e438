"""``rag:retrieve``: plan, recall, trim, rerank, and say what was done."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from engines.lexical.like import LIKE, Like
from engines.lexical.typed import positive
from engines.ranking.rrf import fuse
from engines.stacks.writing.planner import Choice, Context, Kind, Planned, plan, refused
from engines.stacks.writing.rerank import LocalRerank, Outcome, Reason
from engines.stacks.writing.response import Diagnostics, Item, Planner, Reranked, Response
from engines.stacks.writing.snippets import shown
from engines.stacks.writing.store import Chunk, Store
from harness.core.errors import HarnessError

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

        Raises:
            InvalidArgument: ``limit`` is not in 1..50 or ``budget`` not in 50..8000.
        """
        return self.response(self.find(text, context), limit=limit, budget=budget)

    def response(self, found: Retrieved, *, limit: int, budget: int) -> Response:
        """Choose the snippets of an answer.

        Raises:
            InvalidArgument: ``limit`` is not in 1..50 or ``budget`` not in 50..8000.
        """
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
