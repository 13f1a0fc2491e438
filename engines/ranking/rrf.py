"""Reciprocal rank fusion.

Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank
Learning Methods", SIGIR 2009.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.core.engine import Hit

TIE_DIGITS = 12
"""Scores equal to so many digits are a tie; the order of summation differs below that."""


def fuse(
    rankings: Mapping[str, Sequence[str]], weights: Mapping[str, float], *, rrf_k: int, k: int
) -> tuple[Hit, ...]:
    """Fuse rankings of document ids by the sum of weight / (rrf_k + rank), rank from 1.

    ``raw_score`` is the sum, ``score`` the sum divided by the largest attainable one, so a
    document that is first everywhere has 1.0; ties go by document id. A document that a ranking
    shows twice counts where it comes first.
    """
    sums: dict[str, float] = {}
    for leg in sorted(rankings):
        for rank, doc_id in enumerate(dict.fromkeys(rankings[leg]), start=1):
            sums[doc_id] = sums.get(doc_id, 0.0) + weights[leg] / (rrf_k + rank)
    most = sum(weights[leg] for leg in rankings) / (rrf_k + 1)
    score = {doc_id: round(total / most, TIE_DIGITS) for doc_id, total in sums.items()}
    ordered = sorted(sums, key=lambda doc_id: (-score[doc_id], doc_id))[:k]
    return tuple(Hit(doc_id, score[doc_id], sums[doc_id]) for doc_id in ordered)
