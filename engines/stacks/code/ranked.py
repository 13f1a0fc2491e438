"""One mode ranked: candidates of every source, put together, boosted, ordered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engines.lexical.analysis import Language
from engines.lexical.typed import Clause, Occur, exact_clauses, held, normalise, positive
from engines.ranking.rrf import TIE_DIGITS
from engines.stacks.code import fusion, near_duplicates
from engines.stacks.code.backends.contract import OpenBackend, Scored
from engines.stacks.code.backends.wanted import TermClause, terms_of, wanted
from engines.stacks.code.catalog import Catalog, Entry, Rows
from engines.stacks.code.config import Boosts, Settings
from engines.stacks.code.explain import ScoreBreakdown
from engines.stacks.code.terms import parts
from engines.vector.embedder import Embedder
from engines.vector.scan import nearest

MOST_PHRASES = 5
"""Pairs of words beyond these add nothing."""
DENSE, MINHASH = "dense", "minhash"


@dataclass(frozen=True, slots=True)
class Ranked:
    """One unit in a ranking; ``score`` is in [0, 1]."""

    row: int
    score: float
    why: ScoreBreakdown


@dataclass(frozen=True)
class Dense:
    """Vectors of all units, and what embeds a query."""

    embedder: Embedder
    vectors: NDArray[np.float16]
    """Shape (units, dimension)."""

    def search(self, text: str, depth: int, allowed: Rows | None) -> list[Scored]:
        """Give the rows of highest positive cosine; ties by row."""
        if not len(self.vectors) or (allowed is not None and not len(allowed)):
            return []
        rows, cosines = nearest(self.vectors, self.embedder.embed([text])[0], depth, allowed)
        found = zip(rows.tolist(), cosines.tolist(), strict=True)
        return [Scored(row, cosine) for row, cosine in found if cosine > 0]


@dataclass(frozen=True)
class Question:
    """A typed text, taken apart once for all modes."""

    text: str
    settings: Settings

    @cached_property
    def typed(self) -> str:
        return normalise(self.text)

    @cached_property
    def clauses(self) -> tuple[Clause, ...]:
        return exact_clauses(self.text)

    @cached_property
    def terms(self) -> tuple[str, ...]:
        return terms_of(self.clauses, self.settings.language)

    @cached_property
    def looked_for(self) -> str:
        """What is typed without what must not be there, for vectors."""
        return positive(self.text)

    @cached_property
    def boosts(self) -> BoostQuery:
        """What the query may name, and its words in a row."""
        said = [
            word
            for clause in self.clauses
            if clause.occur is not Occur.NOT
            for word in clause.words
        ]
        return asked(said, self.terms)


@dataclass(frozen=True)
class Ranker:
    """The sources of one index, asked and put together."""

    catalog: Catalog
    words: OpenBackend
    dense: Dense | None
    signatures: near_duplicates.Signatures
    settings: Settings
    backend: str

    def rank(self, question: Question, depth: int, allowed: Rows | None) -> list[Ranked]:
        """Rank the ``allowed`` rows (None: all) for a query; every source gives ``depth``."""
        sources = self._sources(question, depth, allowed)
        raw = {name: dict(scored) for name, scored in sources.items()}
        limit = most(self.settings.boosts)
        ranked = []
        for one in fusion.fused(sources, self.settings.search):
            entry = self.catalog.entries[one.row]
            lift = boosted(entry, question.boosts, self.settings.boosts)
            score = round(one.score * lift.factor / limit, TIE_DIGITS)
            why = ScoreBreakdown(
                selected={"type": one.type, "score": score},
                sparse=self._sparse(raw["sparse"].get(one.row)),
                ann=self._ann(raw["ann"].get(one.row), raw["minhash"].get(one.row)),
                rrf=one.rrf,
                blend=one.blend,
                symbol=lift.symbol,
                phrase=lift.phrase,
            )
            ranked.append(Ranked(one.row, score, why))
        return sorted(ranked, key=lambda one: (-one.score, one.row))

    def gate(self, question: Question, allowed: Rows | None) -> Rows | None:
        """Narrow ``allowed`` to what has all that must be there and nothing that must not.

        It holds for every source: vectors and near duplicates know no operators.
        """
        must, never = held(question.text)
        rows = allowed
        for one in wanted(tuple(replace(c, occur=Occur.MUST) for c in must), self._language):
            rows = self._having(one, rows)
        for one in wanted(tuple(replace(c, occur=Occur.MUST) for c in never), self._language):
            every = np.arange(len(self.catalog), dtype=np.int64) if rows is None else rows
            rows = np.setdiff1d(every, self._having(one, rows), assume_unique=True)
        return rows

    def _having(self, one: TermClause, allowed: Rows | None) -> Rows:
        hits = self.words.search([one], max(1, len(self.catalog)), allowed)
        return np.array(sorted(hit.row for hit in hits), dtype=np.int64)

    @property
    def _language(self) -> Language:
        return self.settings.language

    def _sources(self, question: Question, depth: int, allowed: Rows | None) -> fusion.Sources:
        asked = wanted(question.clauses, self.settings.language)
        least = self.settings.near_duplicate
        near: Sequence[Scored] = ()
        if question.terms:
            near = near_duplicates.nearest(self.signatures, question.terms, least, depth, allowed)
        return {
            "sparse": self.words.search(asked, depth, allowed),
            "ann": self.dense.search(question.looked_for, depth, allowed) if self.dense else (),
            "minhash": near,
        }

    def _sparse(self, score: float | None) -> dict[str, Any] | None:
        if score is None:
            return None
        weights = self.settings.fields.model_dump()
        return {"score": score, "backend": self.backend, "weights": weights}

    @staticmethod
    def _ann(cosine: float | None, alike: float | None) -> dict[str, Any] | None:
        """Show the cosine where there is one; a near duplicate that no vector found, as such."""
        if cosine is not None:
            return {"score": cosine, "source": DENSE, "minhash": alike}
        return None if alike is None else {"score": alike, "source": MINHASH, "minhash": alike}


class Boosted(NamedTuple):
    """The factor on a score, at least 1, and what explain says of its parts."""

    factor: float
    symbol: dict[str, Any]
    phrase: dict[str, Any]


class BoostQuery(NamedTuple):
    """A query as boosts see it."""

    names: frozenset[str]
    """What it may name: each word joined and lower-cased, and each two or three in a row."""
    pairs: tuple[str, ...]
    """Each two terms in a row, without repetition."""


def asked(words: Sequence[str], terms: Sequence[str]) -> BoostQuery:
    """Prepare a query: its words as typed, and its terms."""
    flat = ["".join(parts(word)) for word in words]
    runs = {
        "".join(flat[at : at + size]) for size in (1, 2, 3) for at in range(len(flat) - size + 1)
    }
    pairs = dict.fromkeys(f" {one} {two} " for one, two in pairwise(terms))
    return BoostQuery(frozenset(runs - {""}), tuple(pairs))


def boosted(entry: Entry, question: BoostQuery, weights: Boosts) -> Boosted:
    """Weigh one candidate.

    A symbol is named where its bare name, without underscores and case, is a word of the query
    or several in a row: ``read csv`` names ``read_csv``.
    """
    facts = entry.unit.facts
    named = bool(facts.symbol) and "".join(parts(facts.symbol)) in question.names
    definition = weights.definition if named else 1.0
    export = weights.export if named and facts.exported else 1.0
    matches = _together(entry, question.pairs) if weights.phrase else 0
    phrase = 1.0 + weights.phrase * min(MOST_PHRASES, matches)
    return Boosted(
        definition * export * phrase,
        {"named": named, "exported": facts.exported, "definition": definition, "export": export},
        {"matches": matches, "factor": phrase},
    )


def most(weights: Boosts) -> float:
    """Give the largest factor that there can be, by which scores stay within [0, 1]."""
    return weights.definition * weights.export * (1.0 + weights.phrase * MOST_PHRASES)


def _together(entry: Entry, pairs: Sequence[str]) -> int:
    if not pairs:
        return 0
    texts = [f" {text} " for text in entry.terms]
    return sum(any(pair in text for text in texts) for pair in pairs)
