"""Two engines' lists side by side, for SEARCH_ENGINE=shadow."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engines.stacks.agent_mail.contract.explain import ShadowComparison

DEPTH = 10


def compare(
    serving_engine: str, serving: Sequence[int], shadow_engine: str, shadow: Sequence[int]
) -> ShadowComparison:
    """Compare message ids as shown; what is not defined is ``None`` (method, section 3)."""
    ours, theirs = set(serving), set(shadow)
    either = ours | theirs
    return ShadowComparison(
        serving_engine=serving_engine,
        shadow_engine=shadow_engine,
        overlap_jaccard=len(ours & theirs) / len(either) if either else None,
        ndcg_at_10=_pseudo_ndcg(serving[:DEPTH], shadow[:DEPTH]) if serving else None,
        mrr_delta=_reciprocal_rank(serving[0], shadow) - 1.0 if serving else None,
        serving_only=len(ours - theirs),
        shadow_only=len(theirs - ours),
    )


def _pseudo_ndcg(serving: Sequence[int], shadow: Sequence[int]) -> float:
    """Take the serving list's ranks as grades, 10 for the first down to 1 for the tenth."""
    grade = {message_id: DEPTH - at for at, message_id in enumerate(serving)}
    ideal = sum(grade[m] / math.log2(at + 2) for at, m in enumerate(serving))
    found = sum(grade.get(m, 0) / math.log2(at + 2) for at, m in enumerate(shadow))
    return found / ideal


def _reciprocal_rank(wanted: int, ranking: Sequence[int]) -> float:
    return 1 / (ranking.index(wanted) + 1) if wanted in ranking else 0.0
