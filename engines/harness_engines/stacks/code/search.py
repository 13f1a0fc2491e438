"""Code search: filters, ranking by mode, fusion, and reasons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness_engines.kept.cached import Vectors
from harness_engines.lexical.grammar import held, leaves, mask, parse, positive
from harness_engines.lexical.tantivy import Language
from harness_engines.lexical.terms import Clause, Occur, normalise
from harness_engines.ranking import RRF_TIE_DIGITS
from harness_engines.stacks.code import ranking
from harness_engines.stacks.code.ranking import (
    Boosts,
    CodeSettings,
    ContextSettings,
    RankedUnit,
    ScoreBreakdown,
    UnitGraph,
    UnitRelation,
    best_first,
    reordered,
)
from harness_engines.stacks.code.store import Catalog
from harness_engines.stacks.code.units import Filters, IndexedUnit, Mode, Rows, Unit, parts
from harness_engines.stacks.code.words import ScoredUnit, WordsBackend, terms_of, wanted

MOST_PHRASES = 5
"""Pairs of words beyond these add nothing."""


class CodeQuestion(NamedTuple):
    """A typed text, taken apart once for all modes."""

    text: str
    typed: str
    clauses: tuple[Clause, ...]
    terms: tuple[str, ...]
    looked_for: str
    """What is typed without what must not be there, for vectors."""
    names: frozenset[str]
    """What it may name: each word joined and lower-cased, and each two or three in a row."""
    pairs: tuple[str, ...]
    """Each two terms in a row, without repetition."""

    @classmethod
    def of(cls, text: str, language: Language) -> "CodeQuestion":
        """Take a text apart."""
        clauses = tuple(leaves(parse(text)))
        terms = terms_of(clauses, language)
        positives = (clause for clause in clauses if clause.occur is not Occur.NOT)
        flat = ["".join(parts(word)) for clause in positives for word in clause.words]
        runs = {
            "".join(flat[at : at + size])
            for size in (1, 2, 3)
            for at in range(len(flat) - size + 1)
        }
        pairs = dict.fromkeys(f" {one} {two} " for one, two in pairwise(terms))
        names = frozenset(runs - {""})
        return cls(text, normalise(text), clauses, terms, positive(text), names, tuple(pairs))


def boosted(
    entry: IndexedUnit, question: CodeQuestion, weights: Boosts
) -> tuple[float, dict[str, Mapping[str, Any]]]:
    """Return the factor on the score of a candidate, at least 1, and its parts for explain.

    A symbol is named where its bare name, without underscores and case, is a word of the query
    or several in a row: ``read csv`` names ``read_csv``.
    """
    facts = entry.unit.facts
    named = bool(facts.symbol) and "".join(parts(facts.symbol)) in question.names
    definition = weights.definition if named else 1.0
    export = weights.export if named and facts.exported else 1.0
    matches = 0
    if weights.phrase and question.pairs:
        texts = [f" {text} " for text in entry.terms]
        matches = sum(any(pair in text for text in texts) for pair in question.pairs)
    phrase = 1.0 + weights.phrase * min(MOST_PHRASES, matches)
    symbol = {
        "named": named, "exported": facts.exported, "definition": definition, "export": export,
    }  # fmt: skip
    told = {"matches": matches, "factor": phrase}
    return definition * export * phrase, {"symbol": symbol, "phrase": told}


def most(weights: Boosts) -> float:
    """Return the largest factor that there can be, by which scores stay within [0, 1]."""
    return weights.definition * weights.export * (1.0 + weights.phrase * MOST_PHRASES)


MOST_LOOKED_AT = 25
"""Neighbours of one hit that are looked at, for each that may be shown."""


class ContextUnit(NamedTuple):
    """A unit shown for the sake of a hit."""

    row: int
    of: int
    """Row of the hit."""
    reason: UnitRelation


def expanded(
    hits: Sequence[int], graph: UnitGraph, settings: ContextSettings, allowed: Rows | None
) -> tuple[list[ContextUnit], bool]:
    """Look beside each hit, the strongest reason first; return also whether a cap left some out."""
    passing = None if allowed is None else frozenset(allowed.tolist())
    shown = set(hits)
    context_units: list[ContextUnit] = []
    truncated = False
    for hit in hits:
        mine = 0
        neighbours = graph.neighbours(hit)
        truncated |= len(neighbours) > MOST_LOOKED_AT * settings.per_hit
        for neighbour in neighbours[: MOST_LOOKED_AT * settings.per_hit]:
            if neighbour.row in shown or (passing is not None and neighbour.row not in passing):
                continue
            if mine == settings.per_hit or len(context_units) == settings.total:
                truncated = True
                break
            shown.add(neighbour.row)
            context_units.append(ContextUnit(neighbour.row, hit, neighbour.reason))
            mine += 1
    return context_units, truncated


@dataclass(frozen=True, slots=True)
class CodeHit:
    """A unit that is shown."""

    row: int
    unit: Unit
    score: float
    """In [0, 1]; of what stands beside a hit, 0."""
    why: ScoreBreakdown | None
    beside: ContextUnit | None = None
    """Set where the unit is context of a hit, and no hit itself."""


@dataclass(frozen=True, slots=True)
class CodeHits:
    """The hits, best first, and behind them their context."""

    hits: tuple[CodeHit, ...]
    context: tuple[CodeHit, ...] = ()
    truncated: bool = False
    """Whether a cap left context out."""


@dataclass(frozen=True)
class CodeSearch:
    """An open index of code, prose and records: its sources, asked and put together."""

    catalog: Catalog
    words: WordsBackend
    dense: Vectors | None
    signatures: ranking.Signatures
    settings: CodeSettings
    named_first: bool = False
    """Whether what has exactly the name that is typed comes before all others."""

    def search(
        self, text: str, top: int, filters: Filters | None = None, mode: Mode | None = None
    ) -> CodeHits:
        """Show the ``top`` best units; fewer only where fewer pass the filters and match.

        Without a text, what passes the filters is listed by id; without either, nothing is. Of a
        text of refusals alone, what it does not refuse is listed.
        ``mode`` is that of the settings where none is given.
        """
        wanted = mode or Mode(self.settings.mode)
        asked = filters or {}
        question = CodeQuestion.of(text, self.settings.language)
        if top < 1 or not (question.typed or asked):
            return CodeHits(())
        if not question.typed or (question.clauses and not question.looked_for):
            return self._shown(self._listed(wanted, asked, question)[:top], wanted, asked)
        depth = min(max(top, self.settings.depth), max(1, len(self.catalog)))
        if wanted is Mode.MIXED and self.settings.mixed == "scores":
            allowed = self.gate(question, self.catalog.allowed(wanted, asked))
            found = self._weighed(self.rank(question, depth, allowed))
        else:
            modes = self.catalog.modes() if wanted is Mode.MIXED else (wanted,)
            gates = {one: self.gate(question, self.catalog.allowed(one, asked)) for one in modes}
            found = self._mixed({
                one: self.rank(question, depth, allowed) for one, allowed in gates.items()
            })
        if self.named_first:
            found = self._named_first(found, question, wanted, asked)
        return self._shown(found[:top], wanted, asked)

    def rank(self, question: CodeQuestion, depth: int, allowed: Rows | None) -> list[RankedUnit]:
        """Rank the ``allowed`` rows (None: all) for a query; every source gives ``depth``."""
        sources = self._sources(question, depth, allowed)
        raw = {name: dict(scored) for name, scored in sources.items()}
        limit = most(self.settings.boosts)
        about = {"backend": self.settings.backend, "weights": self.settings.fields.model_dump()}
        ranked = []
        for one in ranking.fused(sources, self.settings.search):
            factor, why = boosted(self.catalog.entry(one.row), question, self.settings.boosts)
            words, cosine, alike = (raw[name].get(one.row) for name in ("sparse", "ann", "minhash"))
            if words is not None:
                why["sparse"] = {"score": words, **about}
            if cosine is not None:
                why["ann"] = {"score": cosine, "source": "dense", "minhash": alike}
            elif alike is not None:
                why["ann"] = {"score": alike, "source": "minhash", "minhash": alike}
            score = round(one.score * factor / limit, RRF_TIE_DIGITS)
            ranked.append(one.scored(score, **why))
        return sorted(ranked, key=best_first)

    def gate(self, question: CodeQuestion, allowed: Rows | None) -> Rows | None:
        """Narrow ``allowed`` to what has all that must be there and nothing that must not."""
        demands = held(question.text)
        if not demands.parts:
            return allowed
        every = np.ones(len(self.catalog), np.bool_)

        def having(clause: Clause) -> NDArray[np.bool_]:
            found, must = ~every, replace(clause, occur=Occur.MUST)
            asked = wanted([must], self.settings.language)
            if not asked:
                return every if clause.occur is not Occur.NOT else found
            found[[hit.row for hit in self.words.search(asked, max(1, len(every)), None)]] = True
            return found

        rows = np.flatnonzero(mask(demands, having, every))
        return rows if allowed is None else np.intersect1d(rows, allowed)

    def _sources(self, question: CodeQuestion, depth: int, allowed: Rows | None) -> ranking.Sources:
        looked_for = [
            replace(one, occur=Occur.SHOULD)
            for one in question.clauses
            if one.occur is not Occur.NOT
        ]
        asked = wanted(looked_for, self.settings.language)
        least = self.settings.near_duplicate
        near: Sequence[ScoredUnit] = ()
        if question.terms:
            near = ranking.nearest(self.signatures, question.terms, least, depth, allowed)
        dense = self.dense.nearest(question.looked_for, depth, allowed) if self.dense else []
        return {
            "sparse": self.words.search(asked, depth, allowed),
            "ann": [ScoredUnit(*one) for one in dense],
            "minhash": near,
        }

    def _named_first(
        self, ranked: list[RankedUnit], question: CodeQuestion, mode: Mode, filters: Filters
    ) -> list[RankedUnit]:
        """Move units that define what is typed, sign for sign, before all others."""
        rows = self.catalog.named(question.typed.strip())
        allowed = self.catalog.allowed(mode, filters) if rows else None
        places = {one.row: at for at, one in enumerate(ranked)}
        first = []
        for row in rows if allowed is None else np.intersect1d(rows, allowed).tolist():
            known = (
                ranked[places[row]] if row in places else RankedUnit(row, 0.0, ScoreBreakdown({}))
            )
            first.append(known.scored(1.0, selected={"type": "name"}))
        first.sort(key=lambda one: (places.get(one.row, len(ranked)), one.row))
        names = {one.row for one in first}
        return [*first, *(one for one in ranked if one.row not in names)]

    def _listed(self, mode: Mode, filters: Filters, question: CodeQuestion) -> list[RankedUnit]:
        """List what passes, by id: nothing that is looked for ranks it."""
        allowed = self.gate(question, self.catalog.allowed(mode, filters))
        rows = np.arange(len(self.catalog)) if allowed is None else allowed
        why = ScoreBreakdown({"type": "filter", "score": 0.0})
        return [RankedUnit(row, 0.0, why) for row in rows.tolist()]

    def _weighed(self, ranked: list[RankedUnit]) -> list[RankedUnit]:
        """Weigh units of one ranking by their mode; BM25 and cosines are of one scale in it."""
        weights = self.settings.modes.model_dump()
        most = max(weights.values())
        if len(set(weights.values())) == 1:
            return ranked
        found = []
        for one in ranked:
            share = weights[self.catalog.entry(one.row).unit.mode] / most
            found.append(one.scored(round(one.score * share, RRF_TIE_DIGITS)))
        return sorted(found, key=best_first)

    def _mixed(self, ranked: dict[Mode, list[RankedUnit]]) -> list[RankedUnit]:
        """Fuse the rankings of modes by weighted reciprocal rank; one alone stays as it is."""
        found = {mode: some for mode, some in ranked.items() if some}
        if len(found) < 2:  # noqa: PLR2004  nothing to fuse
            return next(iter(found.values()), [])
        weights = {mode: float(getattr(self.settings.modes, mode)) for mode in found}
        k = self.settings.mode_rrf_k
        most = max(weights.values()) / (k + 1)
        fused = []
        for mode, some in found.items():
            for rank, one in enumerate(some, start=1):
                share = weights[mode] / (k + rank)
                among = {"mode": mode.value, "rank": rank, "k": k, "weight": weights[mode]}
                rrf = {**(one.why.rrf or {}), "modes": among}
                score = round(share / most, RRF_TIE_DIGITS)
                fused.append(one.scored(score, selected={"type": "rrf"}, rrf=rrf))
        return sorted(fused, key=best_first)

    def _shown(self, first: list[RankedUnit], mode: Mode, filters: Filters) -> CodeHits:
        """Order the chosen by the graph where that is wanted, and look beside them."""
        ordered = first
        if self.settings.graph is not None:
            ordered = reordered(first, self.catalog.graph, self.settings.graph)
        hits = tuple(
            CodeHit(one.row, self.catalog.entry(one.row).unit, one.score, one.why)
            for one in ordered
        )
        if self.settings.context is None:
            return CodeHits(hits)
        rows, allowed = [one.row for one in first], self.catalog.allowed(mode, filters)
        more, truncated = expanded(rows, self.catalog.graph, self.settings.context, allowed)
        context = (
            CodeHit(one.row, self.catalog.entry(one.row).unit, 0.0, None, one) for one in more
        )
        return CodeHits(hits, tuple(context), truncated)
