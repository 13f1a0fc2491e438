"""Convex combination of the scores of several rankings.

Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", ACM Transactions on
Information Systems 42(1), 2023. Each ranking's scores are scaled, here by the largest that the
query has, and added with weights whose sum is 1. A sum of scores keeps how far apart two documents
are, which a sum over ranks forgets.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.core.engine import Hit

TIE_DIGITS = 9
"""Sums equal to so many digits are a tie; the scores that go in hold no more."""


def combine(
    scores: Mapping[str, Mapping[str, float]], weights: Mapping[str, float], k: int
) -> tuple[Hit, ...]:
    """Add scores up by document and keep the best ``k``; equal sums by document id.

    ``scores`` has a table of document id and score for each ranking. A score below 0, and that of a
    document which a ranking lacks, counts as 0. ``score`` and ``raw_score`` are the sum, in [0, 1];
    a document whose sum is 0 is not shown.

    Raises:
        ValueError: the weights of these rankings are below 0 or do not add up to 1.
    """
    if any(weights[leg] < 0 for leg in scores) or abs(sum(weights[leg] for leg in scores) - 1) > (
        10.0**-TIE_DIGITS
    ):
        raise ValueError(f"weights {dict(weights)}: are to be shares of 1")
    sums: dict[str, float] = {}
    for leg in sorted(scores):
        most = max(scores[leg].values(), default=0.0)
        if most <= 0:
            continue
        share = weights[leg] / most
        for doc_id, score in scores[leg].items():
            if score > 0:
                sums[doc_id] = sums.get(doc_id, 0.0) + share * score
    rounded = {doc_id: round(total, TIE_DIGITS) for doc_id, total in sums.items()}
    ordered = sorted(rounded)
    ordered.sort(key=rounded.__getitem__, reverse=True)  # equal sums stay by document id
    return tuple(Hit(doc_id, rounded[doc_id], rounded[doc_id]) for doc_id in ordered[:k])
