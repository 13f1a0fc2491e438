"""``rag:retrieve``: plan, recall, trim, rerank, and say what was done.

Specification 001. Every word of a planned query stands in quotation marks, so nothing typed is
taken for syntax of FTS5.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from sqlite3 import Connection
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import Field, Strict

from harness_engines.contract import StackSettings
from harness_engines.lexical import grammar
from harness_engines.lexical.query import LIKE, Like
from harness_engines.lexical.terms import Clause, Occur, alternatives, spelled
from harness_engines.ranking import fuse
from harness_engines.stacks.writing.store import NoteChunk, Store, shown

if TYPE_CHECKING:  # a query of words alone does not wait for numpy
    import numpy as np
    from numpy.typing import NDArray

    from harness_engines.vector.embedder import Embedder

    Vector = NDArray[np.float32]


MOST_TOKENS = 8
MOST_QUERIES = 4

Frequency = Callable[[str], int]
"""How many chunks an FTS5 query finds."""


class PlannedKind(StrEnum):
    """What a planned query asks for, in the order in which queries are planned."""

    TEXT = "text"
    """Everything that was typed, its operators and phrases too."""
    PHRASE = "phrase"
    """The tokens next to each other."""
    STRONGEST = "strongest"
    """The token that the fewest chunks have."""
    ANY = "any"
    """Any of the tokens."""


class Choice(StrEnum):
    """Which eight words of a longer text are looked for."""

    FIRST = "first"
    RAREST = "rarest"
    """Those that the fewest chunks have, but some."""
    ALL = "all"
    """Every word, whatever their number."""


def plan(
    text: str,
    kinds: Sequence[PlannedKind],
    frequency: Frequency,
    context: str = "",
    choice: Choice = Choice.FIRST,
) -> tuple[str, ...]:
    """Plan queries of the given kinds in FTS5's language, none twice; no word gives no query.

    The last three kinds are planned from two tokens on: of one token all are the same query.
    Words of ``context``, what the writer is doing, only widen ``ANY``, so they never narrow what
    the text asks for. What must or must not be there, and phrases, hold in each query. A text of
    refusals alone gives no query: ``refused`` says what is to be left out.
    """
    typed = typed_query(text)
    tokens = tokens_of(grammar.positive(text), choice, frequency)
    if not typed or not tokens:
        return ()
    constrained, near = constraint(text), tokens
    if context:
        more = dict.fromkeys([*tokens, *words_of(context)])
        near = tuple(more)[: max(MOST_TOKENS, len(tokens))]
    made = {
        PlannedKind.TEXT: lambda: typed,
        PlannedKind.PHRASE: lambda: quoted(" ".join(tokens)),
        PlannedKind.STRONGEST: lambda: quoted(strongest(tokens, frequency)),
        PlannedKind.ANY: lambda: " OR ".join(map(quoted, near)),
    }
    wanted = [
        kind
        for kind in PlannedKind
        if kind in kinds and (kind is PlannedKind.TEXT or len(near) > 1)
    ]
    planned = [
        made[kind]() if kind is PlannedKind.TEXT else constrained(made[kind]())
        for kind in wanted or [PlannedKind.TEXT]
    ]
    return tuple(dict.fromkeys(planned))[:MOST_QUERIES]


def words_of(text: str) -> tuple[str, ...]:
    """Return the different terms, lower-cased, in their order."""
    return tuple(dict.fromkeys(spelled(text).split()))


def tokens_of(text: str, choice: Choice, frequency: Frequency) -> tuple[str, ...]:
    """Choose words, in the order of the text; at most eight, but for ``ALL``."""
    words = words_of(text)
    if choice is Choice.ALL:
        return words[: grammar.MOST_WORDS]
    if choice is Choice.FIRST or len(words) <= MOST_TOKENS:
        return words[:MOST_TOKENS]
    found = {word: frequency(quoted(word)) for word in words[: grammar.MOST_WORDS]}
    by_rarity = sorted(found, key=lambda word: (not found[word], found[word]))
    kept = frozenset(by_rarity[:MOST_TOKENS])
    return tuple(word for word in words if word in kept)


def strongest(tokens: Sequence[str], frequency: Frequency) -> str:
    """Choose the token that the fewest chunks have, but some; the first of equal ones."""
    found = {token: frequency(quoted(token)) for token in tokens}
    present = [token for token in tokens if found[token]]
    return min(present or tokens, key=lambda token: found[token])


def refused(text: str) -> str:
    """Write what no chunk may have where all others are meant; empty where words are meant."""
    expression, complement = grammar.FTS5_UNRANKED.select(_together(grammar.parse(text)), _each)
    return expression if complement else ""


def constraint(text: str) -> Callable[[str], str]:
    """Make what adds to any query the constraints of a text."""
    demanded, complement = grammar.FTS5_UNRANKED.select(grammar.held(text), _each)
    if not demanded:
        return lambda query: query
    by = "NOT" if complement else "AND"
    return lambda query: f"({query}) {by} ({demanded})"


def typed_query(text: str) -> str:
    """Write what was typed: words together, or any of them where OR stands between them."""
    return grammar.FTS5_UNRANKED.select(_together(grammar.parse(text)), _each).expression


def _together(tree: grammar.ClauseGroup) -> grammar.ClauseGroup:
    """Return a tree in which words must match that no OR stands between."""

    def demanded(node: grammar.Node) -> grammar.Node:
        inner = node if isinstance(node, Clause) else _together(node)
        must = inner.occur is Occur.SHOULD and not tree.either
        return replace(inner, occur=Occur.MUST) if must else inner

    return replace(tree, parts=tuple(map(demanded, tree.parts)))


def quoted(words: str) -> str:
    """Write words, none of which has a quotation mark, as one string of FTS5."""
    return f'"{words}"'


def _each(clause: Clause) -> str:
    """Write a clause as phrases; empty where its words hold nothing that an index keeps."""
    rows = [quoted(" ".join(row)) + "*" * clause.begun for row in alternatives(clause)]
    return f"({' OR '.join(rows)})" if len(rows) > 1 else "".join(rows)


class WritingSettings(StackSettings):
    """What is planned, found, shown and reranked."""

    tokenize: Literal["unicode61", "porter unicode61"]
    title_weight: float = Field(gt=0)
    chunk_characters: int = Field(ge=0)
    queries: tuple[Annotated[PlannedKind, Strict(strict=False)], ...] = Field(
        min_length=1, strict=False
    )
    tokens: Choice = Field(strict=False)
    combine: Literal["union", "best"]
    rrf_k: int = Field(ge=0)
    candidates: int = Field(ge=1, le=1000)
    enough: int = Field(ge=1)
    snippet_tokens: int = Field(ge=1, le=64)
    snippet_characters: int = Field(ge=20)
    rerank: bool
    top: int = Field(ge=1, le=1000)
    fts_share: float = Field(default=0.0, ge=0.0, le=1.0)
    embedder: str
    max_tokens: int = Field(ge=8, le=512)
    cache_entries: int = Field(ge=0)
    cache_bytes: int = Field(ge=0)


@dataclass(slots=True)
class VectorCache:
    """Least recently used out first; the key is the model's identity and the text itself."""

    most_entries: int
    most_bytes: int
    """Of vectors, texts and identities together."""
    held_bytes: int = 0
    _held: OrderedDict[tuple[str, str], tuple[Vector, int]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def __len__(self) -> int:
        """Count the vectors."""
        return len(self._held)

    def vector(self, embedder: Embedder, text: str) -> Vector:
        """Return the vector of one text, shape (dimension,)."""
        key = (embedder.identity, text)
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
                return found[0]
        vector: Vector = embedder.embed([text])[0]
        vector.flags.writeable = False
        size = vector.nbytes + sum(len(part.encode(errors="replace")) for part in key)
        if size <= self.most_bytes and self.most_entries:
            with self._lock:
                _, old = self._held.pop(key, (vector, 0))
                self.held_bytes += size - old
                self._held[key] = vector, size
                while len(self._held) > self.most_entries or self.held_bytes > self.most_bytes:
                    _, (_, gone) = self._held.popitem(last=False)
                    self.held_bytes -= gone
        return vector


class UnrankedReason(StrEnum):
    """Why candidates keep their order."""

    MODEL_NOT_READY = "MODEL_NOT_READY"
    DISABLED = "DISABLED"
    NO_CANDIDATES = "NO_CANDIDATES"


class RerankOutcome(NamedTuple):
    """Outcome of a rerank."""

    order: tuple[int, ...]
    """Positions of the candidates in their new order."""
    cosines: tuple[float, ...]
    """Of the candidates, as they came; empty without a rerank."""
    keys: tuple[float, ...]
    """What they are ordered by: the cosine, or its sum with the share of FTS. In [-1, 1]."""
    reason: UnrankedReason | None
    """None where the candidates were reranked."""


@dataclass(frozen=True, slots=True)
class LocalRerank:
    """The model, which may be absent, and the vectors it made lately."""

    embedder: Embedder | None
    enabled: bool
    cache: VectorCache
    fts_share: float = 0.0
    """What the score of FTS counts in the order, in [0, 1]; the cosine counts the rest."""

    def order(self, text: str, snippets: Sequence[str], fts: Sequence[float] = ()) -> RerankOutcome:
        """Order snippets by their cosine with the text, equal ones as they came."""
        same = tuple(range(len(snippets)))
        not_ready = RerankOutcome(same, (), (), UnrankedReason.MODEL_NOT_READY)
        if not self.enabled:
            return not_ready._replace(reason=UnrankedReason.DISABLED)
        if self.embedder is None:
            return not_ready
        if not snippets:
            return not_ready._replace(reason=UnrankedReason.NO_CANDIDATES)
        import numpy as np

        try:
            asked = self.cache.vector(self.embedder, text)
            rows = np.stack([self.cache.vector(self.embedder, one) for one in snippets])
        except Exception:  # noqa: BLE001  a runtime of models raises what it likes
            return not_ready
        cosines = tuple((rows @ asked).astype(np.float64).tolist())
        if not all(map(math.isfinite, cosines)):
            return not_ready
        share, base = self.fts_share, fts or [0.0] * len(cosines)
        keys = tuple((1 - share) * a + share * b for a, b in zip(cosines, base, strict=True))
        return RerankOutcome(tuple(sorted(same, key=lambda at: -keys[at])), cosines, keys, None)


class ChunkCandidate(NamedTuple):
    """A chunk with the exact text that is ranked."""

    chunk: NoteChunk
    snippet: str
    score: float
    """In [0, 1]: as a share of the best attainable fused score."""
    words: float = 0.0
    """Its BM25 as a share of the best one's, by the query that likes it most."""


class Retrieved(NamedTuple):
    """Everything that one query gave, best first."""

    ranked: tuple[ChunkCandidate, ...]
    planned: tuple[str, ...]
    """Queries in FTS5's language."""
    per_query: tuple[int, ...]
    outcome: RerankOutcome
    """Of the first of them, which were given to the model."""
    lists: tuple[tuple[int, ...], ...] = ()
    """Rows of the chunks that each query found, best first."""
    fallback: str = ""
    """What found these where no query did."""

    @property
    def cosines(self) -> Mapping[str, float]:
        """Cosine by source reference of what the model saw, in the order of FTS."""
        seen = dict(zip(self.outcome.order, self.ranked, strict=False))
        return {seen[at].chunk.ref: cosine for at, cosine in enumerate(self.outcome.cosines)}


@dataclass(frozen=True, slots=True)
class Retriever:
    """The stack behind ``rag:retrieve``."""

    store: Store
    settings: WritingSettings
    rerank: LocalRerank
    like: bool = False
    """Whether a text that no query finds is looked for in the chunks themselves."""

    @classmethod
    def of(
        cls,
        db: Connection,
        settings: WritingSettings,
        embedder: Embedder | None,
        *,
        like: bool = False,
    ) -> Retriever:
        """Open the notes of an index, with a model or without."""
        store = Store(db, settings.title_weight, settings.snippet_tokens)
        cache = VectorCache(settings.cache_entries, settings.cache_bytes)
        rerank = LocalRerank(embedder, settings.rerank, cache, settings.fts_share)
        return cls(store, settings, rerank, like)

    def answer(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer a command or a tool as the contract says.

        With ``explain`` the answer says what each leg says of each snippet.
        """
        doing = " ".join(given[name] for name in ("title", "selection", "project")).strip()
        found = self.find(given["queryText"], doing)
        ranked = found.ranked[: given["limit"]]
        items = [
            {"sourceRef": one.chunk.ref, "snippet": one.snippet, "score": score}
            for one, score in zip(ranked, scores(found), strict=False)
        ]
        answer = {"items": items, "diagnostics": _diagnostics(found, len(items))}
        if given["explain"]:
            answer["explain"] = {one.chunk.ref: _legs(found, one) for one in ranked}
        return answer

    def find(self, text: str, context: str = "") -> Retrieved:
        """Find and order candidates, without a limit but that of each query."""
        never, most = refused(text), self.settings.candidates
        if never:
            chunks = [self.store.read(rowid) for rowid in self.store.lacking(never, most)]
            return self._listed(chunks, (f"NOT ({never})",), len(chunks))
        given = self.settings
        planned = plan(text, given.queries, self.store.count, context, given.tokens)
        scored = [self.store.find(query, most) for query in planned]
        if self.like and not any(scored):
            like = Like.of(text)
            rows = self.store.containing(like.has, most)
            chunks = [self.store.read(rowid, like.at) for rowid in rows]
            return self._listed(chunks, planned, 0, LIKE if chunks else "")
        candidates = self._candidates(planned, scored)
        window, below = candidates[: given.top], candidates[given.top :]
        outcome = self.rerank.order(
            grammar.positive(text), [one.snippet for one in window], [one.words for one in window]
        )
        ranked = (*(window[at] for at in outcome.order), *below)
        lists = tuple(map(tuple, scored))
        return Retrieved(ranked, planned, tuple(map(len, lists)), outcome, lists)

    def _listed(
        self, chunks: Sequence[NoteChunk], planned: tuple[str, ...], each: int, by: str = ""
    ) -> Retrieved:
        """List chunks that nothing ranks, in the order of the notes."""
        most = self.settings.snippet_characters
        ranked = tuple(
            ChunkCandidate(one, shown(one.title, one.passage, most), 0.0) for one in chunks
        )
        outcome = RerankOutcome((), (), (), UnrankedReason.NO_CANDIDATES)
        return Retrieved(ranked, planned, (each,) * len(planned), outcome, fallback=by)

    def _candidates(
        self, planned: Sequence[str], scored: Sequence[Mapping[int, float]]
    ) -> list[ChunkCandidate]:
        """Bring the queries' lists together; each chunk is read through the first that has it."""
        lists = [list(one) for one in scored]
        words: dict[int, float] = {}
        for one in scored:
            best = max(one.values(), default=0.0)
            for row, score in one.items():
                words[row] = max(words.get(row, 0.0), score / best if best > 0 else 0.0)
        if self.settings.combine == "best" and lists:
            enough = [at for at, one in enumerate(lists) if len(one) >= self.settings.enough]
            most = max(range(len(lists)), key=lambda at: (len(lists[at]), -at))
            at = enough[0] if enough else most
            planned, lists = [planned[at]], [lists[at]]
        chunks: dict[int, NoteChunk] = {}
        for query, ids in zip(planned, lists, strict=True):
            chunks |= self.store.chunks(set(ids) - chunks.keys(), query)
        places = {row: f"{at:06}" for at, row in enumerate(self.store.in_order(chunks))}
        rows = {place: row for row, place in places.items()}
        names = {f"{at}": [places[row] for row in ids] for at, ids in enumerate(lists)}
        weights = dict.fromkeys(names, 1.0)
        found = []
        for hit in fuse(names, weights, rrf_k=self.settings.rrf_k, k=len(chunks)):
            chunk = chunks[rows[hit.doc_id]]
            snippet = shown(chunk.title, chunk.passage, self.settings.snippet_characters)
            found.append(ChunkCandidate(chunk, snippet, hit.score, words[chunk.rowid]))
        return found


def scores(found: Retrieved) -> tuple[float, ...]:
    """Score what was ranked, falling and in [0, 1]: cosines of the window, FTS without a model."""
    base = [candidate.score for candidate in found.ranked]
    if found.outcome.reason is not None:
        return tuple(base)
    keys = (found.outcome.keys[at] for at in found.outcome.order)
    top = [min(1.0, max(0.0, (1 + key) / 2)) for key in keys]
    floor = min(top)
    return (*top, *(score * floor for score in base[len(top) :]))


def _diagnostics(found: Retrieved, selected: int) -> Mapping[str, Any]:
    """Describe how the items were found; a key that has nothing to say is absent."""
    reason = found.outcome.reason
    rerank: dict[str, Any] = {"enabled": reason is None}
    if reason is not None:
        rerank["reason"] = reason.value
    if found.cosines:
        pairs = found.cosines.items()
        rerank["scores"] = [{"sourceRef": ref, "score": score} for ref, score in pairs]
    return {
        "mode": "fulltext" if reason else "fulltext_reranked",
        "planner": {
            "queries": list(found.planned),
            "perQueryHits": list(found.per_query),
            "selectedCount": selected,
        },
        "rerank": rerank,
        **({"fallback": found.fallback} if found.fallback else {}),
    }


def _legs(found: Retrieved, one: ChunkCandidate) -> Mapping[str, Any]:
    """Return of a snippet where each query had it, its share of BM25, and its cosine."""
    ranks = {
        query: rows.index(one.chunk.rowid) + 1 if one.chunk.rowid in rows else None
        for query, rows in zip(found.planned, found.lists, strict=False)
    }
    cosine = found.cosines.get(one.chunk.ref)
    return {"ranks": ranks, "bm25": one.words, "cosine": cosine, "fallback": found.fallback}
