"""Message search as its callers see it: modes, fallbacks, pages, scope and explain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter_ns

from engines.contract.mail.errors import InvalidQuery, SearchError
from engines.contract.mail.events import Emit, Event
from engines.contract.mail.explain import ExplainTiming, QueryExplain, ShadowComparison
from engines.contract.mail.lifecycle import Message
from engines.contract.mail.query import SearchMode, SearchQuery
from engines.contract.mail.results import SearchResponse
from engines.lexical.typed import normalise
from engines.stacks.agent_mail import shadow
from engines.stacks.agent_mail.cursor import CursorEngine, SearchCursor
from engines.stacks.agent_mail.pages import Page, fill
from engines.stacks.agent_mail.plan import MODE_OF, KillSwitch, Plan, Rung, chain, plan
from engines.stacks.agent_mail.ranked import Clock
from engines.stacks.agent_mail.rungs import Asked, Rungs
from engines.stacks.agent_mail.scope import Scope, unrestricted

CURSOR_OF = {
    Rung.RERANK: CursorEngine.HYBRID_RERANK,
    Rung.HYBRID: CursorEngine.HYBRID,
    Rung.SEMANTIC: CursorEngine.SEMANTIC,
    Rung.TANTIVY: CursorEngine.TANTIVY,
    Rung.FTS5: CursorEngine.FTS5,
    Rung.LIKE: CursorEngine.FTS5,
}


@dataclass(frozen=True, slots=True)
class MailSearch:
    """The search service. Nothing that goes wrong inside reaches a caller (section 9.2)."""

    rungs: Rungs
    hydrate: Callable[[Sequence[int]], Mapping[int, Message]]
    """Messages by id; deleted ones are absent."""
    projects_of: Callable[[int], frozenset[int]]
    switch: KillSwitch | None
    emit: Emit

    def search(self, query: SearchQuery, scope: Scope | None = None) -> SearchResponse:
        """Answer a question; every degradation is in ``explain``."""
        start = perf_counter_ns()
        seen_as = scope or unrestricted()
        planned = plan(query, self.projects_of)
        asked = Asked(
            normalise(query.text),
            planned.filters,
            query.ranking,
            query.effective_rrf_k,
            query.effective_rerank_top_k,
        )
        reasons: list[str] = []
        try:
            rung, page = self._climb_down(query, planned, asked, seen_as, reasons)
        except InvalidQuery as exc:
            reasons.append(str(exc))
            rung, page = chain(query.mode, self.switch)[0], Page.empty()
        except SearchError as exc:
            reasons.append(str(exc))
            rung, page = Rung.LIKE, Page.empty()
        compared = self._shadowed(query, asked, seen_as, page)
        actual = MODE_OF[rung]
        downgraded = actual is not self._wanted(query.mode)
        if downgraded:
            reason = "; ".join(reasons)
            self.emit(
                Event.MODE_DOWNGRADE,
                {"requested": query.mode, "actual": actual, "reason": reason},
            )
        total_us = (perf_counter_ns() - start) // 1_000
        explain = _explain(
            query,
            planned,
            page,
            rung,
            scope_policy=seen_as.policy,
            reasons=reasons,
            compared=compared,
            downgraded=downgraded,
            total_us=total_us,
        )
        return SearchResponse(page.hits, page.next_cursor, explain, served_by=rung.value)

    def _wanted(self, mode: SearchMode) -> SearchMode:
        """Mode that the first rung of the chain without failures serves."""
        if self.switch is KillSwitch.HYBRID and mode is SearchMode.LEXICAL:
            return SearchMode.HYBRID
        return mode

    def _climb_down(
        self, query: SearchQuery, planned: Plan, asked: Asked, scope: Scope, reasons: list[str]
    ) -> tuple[Rung, Page]:
        """Try the rungs of the chain; the last failure is raised."""
        if not asked.text and not planned.facets:
            raise InvalidQuery("nothing was asked: no text and no filter")
        rungs = chain(query.mode, self.switch)
        for rung in rungs[:-1]:
            try:
                return rung, self._page(rung, query, asked, scope)
            except SearchError as exc:
                reasons.append(f"{rung}: {exc}")
        return rungs[-1], self._page(rungs[-1], query, asked, scope)

    def _page(self, rung: Rung, query: SearchQuery, asked: Asked, scope: Scope) -> Page:
        cursor, invalidated = None, False
        if query.cursor is not None:
            cursor = SearchCursor.decode(query.cursor)
            current = CURSOR_OF[rung]
            if cursor is None or cursor.engine not in {None, current}:
                made_by = cursor.engine if cursor else None
                self.emit(
                    Event.CURSOR_INVALIDATED,
                    {"cursor_engine": made_by, "current_engine": current},
                )
                cursor, invalidated = None, True
        return fill(
            lambda depth: self.rungs.rank(rung, asked, depth),
            self.hydrate,
            scope,
            limit=query.effective_limit,
            min_score=query.min_score,
            cursor=cursor,
            engine=CURSOR_OF[rung],
            invalidated=invalidated,
        )

    def _shadowed(
        self, query: SearchQuery, asked: Asked, scope: Scope, served: Page
    ) -> ShadowComparison | None:
        """Ask the shadow too; its failure is nobody's business but the log's."""
        if self.switch is not KillSwitch.SHADOW:
            return None
        try:
            page = self._page(Rung.TANTIVY, query, asked, scope)
        except SearchError as exc:
            self.emit(Event.SHADOW_COMPARISON, {"error": str(exc)})
            return None
        ids = [[hit.message_id for hit in one.hits] for one in (served, page)]
        found = shadow.compare(Rung.FTS5, ids[0], Rung.TANTIVY, ids[1])
        self.emit(Event.SHADOW_COMPARISON, asdict(found))
        return found


def _explain(
    query: SearchQuery,
    planned: Plan,
    page: Page,
    rung: Rung,
    *,
    scope_policy: str,
    reasons: Sequence[str],
    compared: ShadowComparison | None,
    downgraded: bool,
    total_us: int,
) -> QueryExplain:
    clock: Clock = page.clock
    said = "; ".join(reasons)
    return QueryExplain(
        method=page.method,
        normalized_query=None if page.used_like_fallback else page.normalized_query,
        used_like_fallback=page.used_like_fallback,
        facet_count=len(planned.facets),
        facets_applied=planned.facets,
        sql=page.sql,
        scope_policy=scope_policy,
        denied_count=page.denied,
        redacted_count=page.redacted,
        requested_mode=query.mode,
        actual_mode=MODE_OF[rung],
        engine=rung.value,
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
