"""What a query did, told from its plan and its page (section 5)."""

from __future__ import annotations

from collections.abc import Sequence

from engines.stacks.agent_mail.contract.explain import ExplainTiming, QueryExplain, ShadowComparison
from engines.stacks.agent_mail.contract.query import SearchQuery
from engines.stacks.agent_mail.pipeline.pages import Page
from engines.stacks.agent_mail.pipeline.plan import MODE_OF, FallbackTier, Plan
from engines.stacks.agent_mail.pipeline.ranked import Clock
from engines.stacks.agent_mail.pipeline.scope import Scope


def explained(
    query: SearchQuery,
    planned: Plan,
    page: Page,
    tier: FallbackTier,
    *,
    scope: Scope,
    reasons: Sequence[str],
    compared: ShadowComparison | None,
    downgraded: bool,
    total_us: int,
) -> QueryExplain:
    """Put together what is told of ``tier``'s answer; ``reasons`` in the order they came up."""
    clock: Clock = page.clock
    said = "; ".join(reasons)
    return QueryExplain(
        method=page.method,
        normalized_query=None if page.used_like_fallback else page.normalized_query,
        used_like_fallback=page.used_like_fallback,
        facet_count=len(planned.facets),
        facets_applied=planned.facets,
        sql=page.sql,
        scope_policy=scope.policy,
        denied_count=page.denied if scope.audited else 0,
        redacted_count=page.redacted,
        requested_mode=query.mode,
        actual_mode=MODE_OF[tier],
        engine=tier.value,
        mode_downgraded=downgraded,
        downgrade_reason=said if downgraded else None,
        timing=ExplainTiming(
            total_us,
            clock.lexical_us,
            clock.vector_us,
            clock.fusion_us,
            clock.rerank_us,
            page.scope_us,
        ),
        cursor_invalidated=page.invalidated,
        shadow=compared,
        note="; ".join(filter(None, (said, page.note))),
    )
