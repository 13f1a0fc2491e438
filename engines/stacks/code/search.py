"""Code search: filters, then ranking by mode, then fusion, then the first N, then what is beside.

The order is the specification's: filters gate every source; ``top`` cuts after each mode is ranked
and fused; the graph reorders what was cut; context comes behind and is marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from engines.ranking.rrf import TIE_DIGITS
from engines.stacks.code.catalog import Rows
from engines.stacks.code.config import Context, Settings
from engines.stacks.code.explain import ScoreBreakdown
from engines.stacks.code.filters import Filters
from engines.stacks.code.graph import Graph, Reason
from engines.stacks.code.graph_ranking import reordered
from engines.stacks.code.ranked import Question, Ranked, Ranker
from engines.stacks.code.unit import Mode, Unit

MOST_LOOKED_AT = 25
"""Neighbours of one hit that are looked at, for each that may be shown."""


class ContextUnit(NamedTuple):
    """A unit shown for the sake of a hit."""

    row: int
    of: int
    """Row of the hit."""
    reason: Reason


class Expanded(NamedTuple):
    """What is shown beside the hits, in order, and whether a cap left something out."""

    beside: tuple[ContextUnit, ...]
    truncated: bool


def expanded(
    hits: Sequence[int], graph: Graph, settings: Context, allowed: Rows | None
) -> Expanded:
    """Look beside each hit in its order, strongest reason first, then by row.

    No unit comes twice, none that is a hit, and none that the filters do not allow.
    """
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
    return Expanded(tuple(context_units), truncated)


@dataclass(frozen=True, slots=True)
class CodeHit:
    """A unit that is shown."""

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

    @property
    def shown(self) -> tuple[CodeHit, ...]:
        """Give all in the order in which people see them."""
        return (*self.hits, *self.context)


@dataclass(frozen=True)
class CodeSearch:
    """An open index of code, prose and records."""

    ranker: Ranker
    graph: Graph | None
    """Needed by graph ranking and by context; None where neither is set."""
    settings: Settings

    def search(
        self, text: str, top: int, filters: Filters | None = None, mode: Mode | None = None
    ) -> CodeHits:
        """Show the ``top`` best units; fewer only where fewer pass the filters and match.

        Without a text, what passes the filters is listed by id; without either, nothing is. Of a
        text of refusals alone, what it does not refuse is listed.
        ``mode`` is that of the settings where none is given.
        """
        wanted = mode or Mode(self.settings.mode)
        asked = filters or Filters()
        question = Question(text, self.settings)
        if top < 1 or not (question.typed or asked.given()):
            return CodeHits(())
        if not question.typed:
            return self._shown(self._listed(wanted, asked, question)[:top], wanted, asked)
        if question.clauses and not question.looked_for:
            return self._shown(self._listed(wanted, asked, question)[:top], wanted, asked)
        depth = min(max(top, self.settings.depth), max(1, len(self.ranker.catalog)))
        if wanted is Mode.MIXED and self.settings.mixed == "scores":
            allowed = self.ranker.gate(question, self._allowed(wanted, asked))
            found = self._weighed(self.ranker.rank(question, depth, allowed))
            return self._shown(found[:top], wanted, asked)
        modes = self.ranker.catalog.modes() if wanted is Mode.MIXED else (wanted,)
        ranked = {
            one: self.ranker.rank(
                question, depth, self.ranker.gate(question, self._allowed(one, asked))
            )
            for one in modes
        }
        return self._shown(self._mixed(ranked)[:top], wanted, asked)

    def _allowed(self, mode: Mode, filters: Filters) -> Rows | None:
        return self.ranker.catalog.allowed(mode, filters)

    def _listed(self, mode: Mode, filters: Filters, question: Question) -> list[Ranked]:
        """List what passes, by id: nothing that is looked for ranks it."""
        allowed = self.ranker.gate(question, self._allowed(mode, filters))
        rows = np.arange(len(self.ranker.catalog)) if allowed is None else allowed
        why = ScoreBreakdown({"type": "filter", "score": 0.0})
        return [Ranked(row, 0.0, why) for row in rows.tolist()]

    def _weighed(self, ranked: list[Ranked]) -> list[Ranked]:
        """Weigh units of one ranking by their mode; BM25 and cosines are of one scale in it."""
        weights = self.settings.modes.model_dump()
        most = max(weights.values())
        if len(set(weights.values())) == 1:
            return ranked
        found = []
        for one in ranked:
            share = weights[self.ranker.catalog.entries[one.row].unit.mode] / most
            score = round(one.score * share, TIE_DIGITS)
            why = replace(one.why, selected={**one.why.selected, "score": score})
            found.append(Ranked(one.row, score, why))
        return sorted(found, key=lambda one: (-one.score, one.row))

    def _mixed(self, ranked: dict[Mode, list[Ranked]]) -> list[Ranked]:
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
                score = round(share / most, TIE_DIGITS)
                among = {"mode": mode.value, "rank": rank, "k": k, "weight": weights[mode]}
                rrf = {**(one.why.rrf or {}), "modes": among}
                why = replace(one.why, selected={"type": "rrf", "score": score}, rrf=rrf)
                fused.append(Ranked(one.row, score, why))
        return sorted(fused, key=lambda one: (-one.score, one.row))

    def _shown(self, first: list[Ranked], mode: Mode, filters: Filters) -> CodeHits:
        entries = self.ranker.catalog.entries
        hits = [
            CodeHit(entries[one.row].unit, one.score, one.why) for one in self._with_graph(first)
        ]
        if self.settings.context is None or self.graph is None:
            return CodeHits(tuple(hits))
        rows = [one.row for one in first]
        allowed = self._allowed(mode, filters)
        more = expanded(rows, self.graph, self.settings.context, allowed)
        context = (CodeHit(entries[one.row].unit, 0.0, None, one) for one in more.beside)
        return CodeHits(tuple(hits), tuple(context), more.truncated)

    def _with_graph(self, first: list[Ranked]) -> list[Ranked]:
        if self.settings.graph is None or self.graph is None:
            return first
        by_row = {one.row: one for one in first}
        placed = reordered([(one.row, one.score) for one in first], self.graph, self.settings.graph)
        return [
            Ranked(
                one.row,
                one.score,
                replace(
                    by_row[one.row].why,
                    selected={**by_row[one.row].why.selected, "score": one.score},
                    graph=one.graph,
                ),
            )
            for one in placed
        ]
