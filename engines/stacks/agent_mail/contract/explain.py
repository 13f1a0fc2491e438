"""What a query did (section 5): the plan, the fallbacks, the scope, the time."""

from __future__ import annotations

from dataclasses import dataclass


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
