"""Settings of code search, fusion, the graph of units, and near duplicates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from functools import cache
from importlib.metadata import version
from math import log1p
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from harness_engines.contract import StackSettings
from harness_engines.lexical.tantivy import Language
from harness_engines.ranking import RRF_TIE_DIGITS, fuse
from harness_engines.stacks.code.units import Rows, ScoredUnit, Unit

if TYPE_CHECKING:
    from datasketch import MinHash  # type: ignore[import-untyped]  # has no types


class FieldWeights(StackSettings):
    """How often a word counts, by the field that it stands in; whole numbers."""

    name: int = Field(ge=0)
    signature: int = Field(ge=0)
    doc: int = Field(ge=0)
    comment: int = Field(ge=0)
    body: int = Field(ge=0)

    @model_validator(mode="after")
    def _something_counts(self) -> Self:
        if not any(self.model_dump().values()):
            raise ValueError("no field has a weight above 0")
        return self


class SourceShares(StackSettings):
    """What each source of candidates counts in a fusion."""

    sparse: float = Field(gt=0)
    ann: float = Field(gt=0)
    minhash: float = Field(gt=0)


class Rrf(SourceShares):
    """``search.rrf``: the sum of share / (k + rank)."""

    k: int = Field(ge=1, le=1000)


class Fusion(StackSettings):
    """Table ``search``: one of the two ways in which sources are put together."""

    rrf: Rrf | None = None
    score_blend: SourceShares | None = Field(default=None, alias="scoreBlend")

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.rrf is None) == (self.score_blend is None):
            raise ValueError("name one of search.rrf and search.scoreBlend")
        return self


class ModeWeights(StackSettings):
    """What each mode counts where several are fused."""

    code: float = Field(gt=0)
    prose: float = Field(gt=0)
    records: float = Field(gt=0)


class Boosts(StackSettings):
    """Factors on the score of what was found; 1 changes nothing, and ``phrase`` 0 neither."""

    definition: float = Field(ge=1, le=10)
    export: float = Field(ge=1, le=10)
    phrase: float = Field(ge=0, le=1)


class GraphSettings(StackSettings):
    """Graph ranking; a table that is left out leaves it off."""

    degree: float = Field(ge=0, le=1)
    proximity: float = Field(ge=0, le=1)
    seed_selection: Literal["top1", "topK", "none"] = Field(alias="seedSelection")
    seed_k: int | None = Field(default=None, ge=1, le=50, alias="seedK")

    @model_validator(mode="after")
    def _k_where_it_is_meant(self) -> Self:
        if (self.seed_selection == "topK") != (self.seed_k is not None):
            raise ValueError("seedK goes with seedSelection = 'topK', and with no other")
        return self


class ContextSettings(StackSettings):
    """Context expansion; a table that is left out leaves it off."""

    per_hit: int = Field(ge=1, le=50)
    total: int = Field(ge=1, le=500)


class CodeSettings(StackSettings):
    """Everything that changes an answer."""

    backend: Literal["sqlite", "tantivy"]
    language: Language
    mode: Literal["code", "prose", "records", "mixed"]
    depth: int = Field(ge=1, le=10_000)
    fields: FieldWeights
    embedder: str
    max_tokens: int = Field(ge=8, le=512)
    near_duplicate: float = Field(gt=0, le=1)
    search: Fusion
    modes: ModeWeights
    mode_rrf_k: int = Field(ge=1, le=1000)
    mixed: Literal["rrf", "scores"] = "rrf"
    boosts: Boosts
    graph: GraphSettings | None = None
    context: ContextSettings | None = None


Part = Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ScoreBreakdown:
    """``scoreBreakdown`` of one hit; a part that played no role is ``None``."""

    selected: Mapping[str, Any]
    """``type`` and ``score`` of what the hit is ordered by."""
    sparse: Part = None
    """``score`` of BM25, ``backend``, field ``weights``."""
    ann: Part = None
    """``score``, a cosine or an estimated Jaccard, and its ``source``: ``dense`` or ``minhash``."""
    rrf: Part = None
    blend: Part = None
    symbol: Part = None
    phrase: Part = None
    graph: Part = None
    """``score``, ``degree``, ``proximity``, ``weights``, ``seedSelection``, ``seedK``."""

    def as_dict(self) -> dict[str, Part]:
        """Return all keys, in their order, as they stand in JSON."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


Sources = Mapping[str, Sequence[ScoredUnit]]
"""Candidates by source, best first: ``sparse``, ``ann``, ``minhash``."""


@dataclass(frozen=True, slots=True)
class RankedUnit:
    """One unit in a ranking; ``score`` is in [0, 1]."""

    row: int
    score: float
    why: ScoreBreakdown

    def scored(self, score: float, **why: Any) -> RankedUnit:  # noqa: ANN401  parts of the breakdown
        """Return it with another score, and what says why."""
        selected = {**self.why.selected, **why.pop("selected", {}), "score": score}
        return RankedUnit(self.row, score, replace(self.why, selected=selected, **why))


def best_first(one: RankedUnit) -> tuple[float, int]:
    """Order by score, equal ones by row."""
    return -one.score, one.row


def _ranked(row: int, score: float, kind: str, **why: Part) -> RankedUnit:
    """Return a unit that is ordered by ``kind``: a way of fusion, or the only source."""
    return RankedUnit(row, score, ScoreBreakdown({"type": kind, "score": score}, **why))


def fused(sources: Sources, how: Fusion) -> list[RankedUnit]:
    """Combine sources, best first, ties by row; a source without candidates does not count."""
    found = {name: scored for name, scored in sources.items() if scored}
    if len(found) == 1:
        name, scored = next(iter(found.items()))
        one = [_ranked(row, share, name) for row, share in _shares(name, scored)]
        return sorted(one, key=best_first)
    if how.score_blend is not None:
        return _by_score(found, how.score_blend)
    assert how.rrf is not None  # noqa: S101  one of them is there
    return _by_rank(found, how.rrf)


def _by_rank(sources: Sources, how: Rrf) -> list[RankedUnit]:
    weights = how.model_dump(include=set(sources))
    # text of twelve digits sorts as the numbers do
    named = {name: [f"{one.row:012d}" for one in scored] for name, scored in sources.items()}
    every = len({one for ids in named.values() for one in ids})
    hits = fuse(named, weights, rrf_k=how.k, k=every)
    ranks = {name: {one: at for at, one in enumerate(ids, 1)} for name, ids in named.items()}
    made = []
    for hit in hits:
        rrf = {
            "k": how.k,
            "score": hit.raw_score,
            "ranks": {name: at.get(hit.doc_id) for name, at in ranks.items()},
            "weights": weights,
        }
        made.append(_ranked(int(hit.doc_id), hit.score, "rrf", rrf=rrf))
    return made


def _by_score(sources: Sources, how: SourceShares) -> list[RankedUnit]:
    weights = how.model_dump(include=set(sources))
    total = sum(weights.values())
    shares: dict[int, dict[str, float]] = {}
    for name, scored in sources.items():
        for row, share in _shares(name, scored):
            shares.setdefault(row, dict.fromkeys(sources, 0.0))[name] = share
    made = []
    for row, parts in shares.items():
        score = sum(weights[name] * part for name, part in parts.items()) / total
        details = {"score": score, "parts": parts, "weights": weights}
        made.append(_ranked(row, round(score, RRF_TIE_DIGITS), "blend", blend=details))
    return sorted(made, key=best_first)


def _shares(name: str, scored: Sequence[ScoredUnit]) -> Iterator[tuple[int, float]]:
    """Yield rows with their scores in [0, 1]; of words, as a share of the best one's."""
    most = scored[0].score if name == "sparse" else 1.0
    for row, score in scored:
        yield row, min(1.0, max(0.0, score / most)) if most > 0 else 0.0


MOST_NAMESAKES = 3
"""A bare name that more units bear leads to none of them."""
MOST_NEIGHBOURS = 64
"""A unit that everything calls has more; the first in order are kept."""


class UnitRelation(IntEnum):
    """Why two units belong together, the strongest first."""

    CALL = 0
    USAGE = 1
    EXPORT = 2
    """One holds the other: a class its methods, a module what it defines."""
    IMPORT = 3
    NAME_FALLBACK = 4
    """Only a bare name says so."""


class Neighbour(NamedTuple):
    """A unit beside another; sorts by reason, then by row."""

    reason: UnitRelation
    row: int


class UnitGraph:
    """Neighbours of every unit, in both directions; built from what the units say."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._full: dict[str, list[int]] = {}
        self._bare: dict[str, list[int]] = {}
        for row, unit in enumerate(units):
            if unit.facts.full:
                self._full.setdefault(unit.facts.full, []).append(row)
            if unit.facts.symbol:
                self._bare.setdefault(unit.facts.symbol, []).append(row)
        beside: list[dict[int, UnitRelation]] = [{} for _ in units]
        for row, unit in enumerate(units):
            for reason, other in self._led(unit):
                if other != row:
                    for one, two in ((row, other), (other, row)):
                        beside[one][two] = min(reason, beside[one].get(two, reason))
        self.neighbours = [
            tuple(sorted(Neighbour(reason, row) for row, reason in found.items())[:MOST_NEIGHBOURS])
            for found in beside
        ]
        """Of each unit at most ``MOST_NEIGHBOURS``, the strongest reason first."""

    def _led(self, unit: Unit) -> Iterable[Neighbour]:
        facts = unit.facts
        holder = facts.full.rpartition(".")[0]
        said = (
            (UnitRelation.CALL, facts.calls),
            (UnitRelation.USAGE, (*facts.links, *facts.uses)),
            (UnitRelation.EXPORT, (holder,) if holder else ()),
            (UnitRelation.IMPORT, facts.imports),
        )
        for reason, names in said:
            for name in names[:500]:
                exact = self._full.get(name, [])
                yield from (Neighbour(reason, row) for row in exact[:MOST_NEIGHBOURS])
                if exact or reason > UnitRelation.USAGE:
                    continue
                bare = self._bare.get(name.rpartition(".")[2], [])
                if len(bare) <= MOST_NAMESAKES:
                    yield from (Neighbour(UnitRelation.NAME_FALLBACK, row) for row in bare)


DEPTH = 2
"""Steps from a seed that still count as near."""
WIDTH = 12
"""Neighbours of one unit that are walked to."""
VISITED = 192
"""Units that one walk sees."""


def reordered(
    ranked: Sequence[RankedUnit], graph: UnitGraph, settings: GraphSettings
) -> list[RankedUnit]:
    """Order units, best first, with the graph; ties by row."""
    seeds = {"top1": 1, "topK": settings.seed_k or 0, "none": 0}[settings.seed_selection]
    near = distances(graph, [one.row for one in ranked[:seeds]])
    most = 1.0 + settings.degree + settings.proximity
    placed = []
    for one in ranked:
        degree = len(graph.neighbours[one.row])
        proximity = 1.0 / (1 + near[one.row]) if one.row in near else 0.0
        share = log1p(degree) / log1p(MOST_NEIGHBOURS)
        added = settings.degree * share + settings.proximity * proximity
        told = {
            "score": added,
            "degree": degree,
            "proximity": proximity,
            "weights": {"degree": settings.degree, "proximity": settings.proximity},
            "seedSelection": settings.seed_selection,
            "seedK": settings.seed_k,
        }
        placed.append(one.scored(round((one.score + added) / most, RRF_TIE_DIGITS), graph=told))
    return sorted(placed, key=best_first)


def distances(graph: UnitGraph, seeds: Sequence[int]) -> Mapping[int, int]:
    """Walk from the seeds, breadth first; steps to each unit reached, 0 for a seed."""
    found = dict.fromkeys(seeds, 0)
    edge = list(seeds)
    for step in range(1, DEPTH + 1):
        following: list[int] = []
        for row in edge:
            for neighbour in graph.neighbours[row][:WIDTH]:
                if neighbour.row not in found:
                    if len(found) >= VISITED:
                        return found
                    found[neighbour.row] = step
                    following.append(neighbour.row)
        edge = following
    return found


PERMUTATIONS = 128
SHINGLE = 3
"""Terms in a row that are compared as one."""
SEED = 1
Signatures = NDArray[np.uint32]


BY = f"datasketch {version('datasketch')} {PERMUTATIONS}/{SHINGLE}/{SEED}"
"""What made the signatures."""


@cache
def _blank() -> MinHash:
    """Make the permutations once; drawing them takes as long as using them."""
    from datasketch import MinHash

    return MinHash(PERMUTATIONS, seed=SEED)


def row(terms: Sequence[str]) -> Signatures:
    """Hash a text's shingles, shape (1 + 128,); 0 first where it has none, else 1."""
    whole = np.zeros(PERMUTATIONS + 1, dtype=np.uint32)
    runs = {" ".join(terms[at : at + SHINGLE]) for at in range(len(terms) - SHINGLE + 1)}
    if runs:
        made = _blank().copy()
        made.update_batch([run.encode() for run in sorted(runs)])
        whole[0], whole[1:] = 1, made.hashvalues
    return whole


def nearest(
    signatures: Signatures, terms: Sequence[str], least: float, depth: int, allowed: Rows | None
) -> list[ScoredUnit]:
    """Return the ``allowed`` rows whose estimated Jaccard is at least ``least``, best first.

    The estimate is the share of permutations in which both have the same smallest hash.
    """
    asked = row(terms)
    if not asked[0] or not len(signatures):
        return []
    rows = np.arange(len(signatures)) if allowed is None else allowed
    held = signatures if allowed is None else signatures[rows]
    alike = (held[:, 1:] == asked[1:]).mean(axis=1) * (held[:, 0] == 1)
    kept = np.flatnonzero(alike >= least)
    order = kept[np.lexsort((rows[kept], -alike[kept]))][:depth]
    return [ScoredUnit(int(rows[at]), float(alike[at])) for at in order]
