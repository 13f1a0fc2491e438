"""What a query did (section 5): the plan, the fallbacks, the scope, the time, the shadow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

DEPTH = 10


@dataclass(frozen=True, slots=True)
class ExplainTiming:
    """Microseconds by part, None where it did not run; parts add up to at most the total."""

    total_us: int
    lexical_us: int | None = None
    vector_us: int | None = None
    fusion_us: int | None = None
    rerank_us: int | None = None
    scope_us: int | None = None


@dataclass(frozen=True, slots=True)
class ShadowComparison:
    """The serving engine's answer beside the shadow's, for SEARCH_ENGINE=shadow.

    Values that are not defined are ``None``: both lists empty, or no first hit in common.
    """

    serving_engine: str
    shadow_engine: str
    overlap_jaccard: float | None
    ndcg_at_10: float | None
    """Of the shadow against the serving list as pseudo-judgements: agreement, not quality."""
    mrr_delta: float | None
    """Reciprocal rank of the serving list's first hit in the shadow's list, minus 1."""
    serving_only: int
    shadow_only: int


@dataclass(frozen=True, slots=True)
class QueryExplain:
    """The fields of section 5, V2's first."""

    method: str
    normalized_query: str | None
    used_like_fallback: bool
    facet_count: int
    facets_applied: tuple[str, ...]
    sql: str
    scope_policy: str
    denied_count: int
    redacted_count: int
    requested_mode: str
    actual_mode: str
    engine: str
    mode_downgraded: bool
    downgrade_reason: str | None
    timing: ExplainTiming
    cursor_invalidated: bool
    shadow: ShadowComparison | None
    note: str
    """A validation failure or a fallback, in words; empty where there was none."""


def compare_with_shadow(
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
