"""Sources of candidates put together: by reciprocal rank, or by a weighted sum of their scores.

RRF: Cormack, Clarke and Buettcher, SIGIR 2009 (``engines.ranking.rrf``). The blend divides each
source's score by what it can be at most for this query (words: the best hit's; cosine and
likeness: 1). So what a source did not find counts 0 and not nothing at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engines.ranking.rrf import TIE_DIGITS, fuse
from engines.stacks.code.backends.contract import Scored
from engines.stacks.code.config import Fusion, Rrf, Shares

Sources = Mapping[str, Sequence[Scored]]
"""Candidates by source, best first: ``sparse``, ``ann``, ``minhash``."""
Details = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Fused:
    """One candidate: its score in [0, 1], and how it came about."""

    row: int
    score: float
    type: str
    """``rrf`` or ``blend``; the name of the source where there was but one."""
    rrf: Details | None = None
    blend: Details | None = None


def fused(sources: Sources, how: Fusion) -> list[Fused]:
    """Put sources together, best first, ties by row; a source without candidates does not count."""
    found = {name: scored for name, scored in sources.items() if scored}
    if len(found) == 1:
        name, scored = next(iter(found.items()))
        most = scored[0].score if name == "sparse" else 1.0
        one = [Fused(row, _share(score, most), name) for row, score in scored]
        return sorted(one, key=_best_first)
    if how.rrf is not None:
        return _by_rank(found, how.rrf)
    if how.score_blend is not None:
        return _by_score(found, how.score_blend)
    raise ValueError("search.rrf and search.scoreBlend are both missing")


def _by_rank(sources: Sources, how: Rrf) -> list[Fused]:
    weights = how.model_dump(include=set(sources))
    named = {name: [_id(one.row) for one in scored] for name, scored in sources.items()}
    every = len({one for ids in named.values() for one in ids})
    hits = fuse(named, weights, rrf_k=how.k, k=every)
    ranks = {name: {one: at for at, one in enumerate(ids, 1)} for name, ids in named.items()}
    return [
        Fused(
            int(hit.doc_id),
            hit.score,
            "rrf",
            rrf={
                "k": how.k,
                "score": hit.raw_score,
                "ranks": {name: at.get(hit.doc_id) for name, at in ranks.items()},
                "weights": weights,
            },
        )
        for hit in hits
    ]


def _by_score(sources: Sources, how: Shares) -> list[Fused]:
    weights = how.model_dump(include=set(sources))
    total = sum(weights.values())
    shares: dict[int, dict[str, float]] = {}
    for name, scored in sources.items():
        most = scored[0].score if name == "sparse" else 1.0
        for row, score in scored:
            shares.setdefault(row, dict.fromkeys(sources, 0.0))[name] = _share(score, most)
    made = []
    for row, parts in shares.items():
        score = sum(weights[name] * part for name, part in parts.items()) / total
        details = {"score": score, "parts": parts, "weights": weights}
        made.append(Fused(row, round(score, TIE_DIGITS), "blend", blend=details))
    return sorted(made, key=_best_first)


def _share(score: float, most: float) -> float:
    return min(1.0, max(0.0, score / most)) if most > 0 else 0.0


def _id(row: int) -> str:
    """Write a row so that text sorts as the number does."""
    return f"{row:012d}"


def _best_first(one: Fused) -> tuple[float, int]:
    return -one.score, one.row
