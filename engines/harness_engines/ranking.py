"""Rankings: their order, and fusion by convex combination or reciprocal rank."""

from collections.abc import Iterable, Mapping, Sequence

from harness.core.engine import Hit

CONVEX_TIE_DIGITS = 9
"""Sums equal to so many digits are a tie; the scores that go in hold no more."""


def combine(
    scores: Mapping[str, Mapping[str, float]], weights: Mapping[str, float], k: int
) -> tuple[Hit, ...]:
    """Add scores up by document and keep the best ``k``; equal sums by document id.

    ``scores`` has a table of document id and score for each ranking. A score below 0, and that of a
    document which a ranking lacks, counts as 0. ``score`` and ``raw_score`` are the sum, in [0, 1];
    a document whose sum is 0 is not shown.
    """
    if any(weights[leg] < 0 for leg in scores) or abs(sum(weights[leg] for leg in scores) - 1) > (
        10.0**-CONVEX_TIE_DIGITS
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
    rounded = {doc_id: round(total, CONVEX_TIE_DIGITS) for doc_id, total in sums.items()}
    ordered = sorted(rounded)
    ordered.sort(key=rounded.__getitem__, reverse=True)  # equal sums stay by document id
    return tuple(Hit(doc_id, rounded[doc_id], rounded[doc_id]) for doc_id in ordered[:k])


def by_best(scored: Iterable[tuple[str, float]], k: int) -> tuple[Hit, ...]:
    """Order (document id, raw score) pairs and keep ``k``.

    ``score`` is the raw score as a share of the query's best. So a document that matches
    nothing would be 0 and the best hit is 1 (decision 7 of the agent mail stack).
    """
    ordered = sorted(scored, key=lambda hit: (-hit[1], hit[0]))[:k]
    best = ordered[0][1] if ordered else 0.0
    return tuple(Hit(doc_id, raw / best if best > 0 else 0.0, raw) for doc_id, raw in ordered)


RRF_TIE_DIGITS = 12
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
    score = {doc_id: round(total / most, RRF_TIE_DIGITS) for doc_id, total in sums.items()}
    ordered = sorted(sums, key=lambda doc_id: (-score[doc_id], doc_id))[:k]
    return tuple(Hit(doc_id, score[doc_id], sums[doc_id]) for doc_id in ordered)
