"""Message search as its callers see it: modes, fallbacks, pages, scope and explain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from time import perf_counter_ns

from engines.contract.mail.errors import InvalidQuery, SearchError
from engines.contract.mail.events import Emit, Event, Payload
from engines.contract.mail.explain import ExplainTiming, QueryExplain, ShadowComparison
from engines.contract.mail.lifecycle import Message
from engines.contract.mail.query import SearchMode, SearchQuery
from engines.contract.mail.results import SearchResponse
from engines.lexical.typed import normalise
from engines.stacks.agent_mail import faults, shadow
from engines.stacks.agent_mail.budget import Allowance
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
    budget_ms: float = 0.0
    """What a question may take before its chain ends (``budget``); 0 is no budget."""

    def search(self, query: SearchQuery, scope: Scope | None = None) -> SearchResponse:
        """Answer a question; every degradation is in ``explain``."""
        start = perf_counter_ns()
        seen_as = scope or unrestricted()
        reasons: list[str] = []
        planned = plan(query, lambda product: self._projects(product, reasons))
        asked = Asked(
            normalise(query.text),
            planned.filters,
            query.ranking,
            query.effective_rrf_k,
            query.effective_rerank_top_k,
        )
        first = chain(query.mode, self.switch)[0]
        try:
            rung, page = self._climb_down(query, planned, asked, seen_as, reasons)
        except InvalidQuery as exc:
            reasons.append(str(exc))
            rung, page = first, Page.empty()
        except SearchError as exc:
            reasons.append(f"{Rung.LIKE}: {exc}; nothing could answer")
            rung, page = Rung.LIKE, Page.empty()
        else:
            if rung is not first:
                reasons.append(f"answered by {rung}")
        compared = self._shadowed(query, asked, seen_as, page)
        actual = MODE_OF[rung]
        downgraded = actual is not self._wanted(query.mode)
        if downgraded and rung is first:
            reasons.append(f"SEARCH_ENGINE is {self.switch}")
        reason = "; ".join(reasons)
        if downgraded:
            self._tell(
                Event.MODE_DOWNGRADE,
                {"requested": query.mode, "actual": actual, "reason": reason},
            )
        elif rung is not first:
            self._tell(
                Event.ENGINE_FALLBACK,
                {"wanted": first, "engine": rung, "reason": reason},
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
        return SearchResponse(
            page.hits,
            page.next_cursor,
            explain,
            served_by=rung.value,
            fell_back=rung is not first,
            unread=page.unread,
        )

    def _projects(self, product_id: int, reasons: list[str]) -> frozenset[int]:
        """Projects of a product; none, with the reason, where they cannot be read."""
        try:
            with faults.known():
                return self.projects_of(product_id)
        except SearchError as exc:
            reasons.append(f"the projects of product {product_id} are not known: {exc}")
            return frozenset()

    def _tell(self, event: Event, payload: Payload) -> None:
        """Log; a log that is full or gone keeps nobody from an answer."""
        with suppress(Exception):
            self.emit(event, payload)

    def _wanted(self, mode: SearchMode) -> SearchMode:
        """Mode that the first rung of the chain without failures serves."""
        if self.switch is KillSwitch.HYBRID and mode is SearchMode.LEXICAL:
            return SearchMode.HYBRID
        return mode

    def _climb_down(
        self, query: SearchQuery, planned: Plan, asked: Asked, scope: Scope, reasons: list[str]
    ) -> tuple[Rung, Page]:
        """Try the rungs of the chain, all but the last within the budget.

        A question that is no question is one for every rung. Of other failures the last is raised.
        """
        if not asked.text and not planned.facets:
            raise InvalidQuery("nothing was asked: no text and no filter")
        rungs = chain(query.mode, self.switch)
        allowed = Allowance.of(self.budget_ms)
        for rung in rungs[:-1]:
            until = allowed.share(last=rung is rungs[-2]) if allowed else None
            try:
                return rung, self._page(rung, query, replace(asked, until=until), scope)
            except InvalidQuery:
                raise
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
                self._tell(
                    Event.CURSOR_INVALIDATED,
                    {"cursor_engine": made_by, "current_engine": current},
                )
                cursor, invalidated = None, True
        lost: dict[int, str] = {}
        with faults.known():
            page = fill(
                lambda depth: self.rungs.rank(rung, asked, depth),
                faults.salvaged(self.hydrate, lost),
                scope,
                limit=query.effective_limit,
                min_score=query.min_score,
                cursor=cursor,
                engine=CURSOR_OF[rung],
                invalidated=invalidated,
            )
        if not lost:
            return page
        note = f"{len(lost)} messages cannot be read ({next(iter(lost.values()))})"
        return replace(page, unread=len(lost), note="; ".join(filter(None, (page.note, note))))

    def _shadowed(
        self, query: SearchQuery, asked: Asked, scope: Scope, served: Page
    ) -> ShadowComparison | None:
        """Ask the shadow too; its failure is nobody's business but the log's."""
        if self.switch is not KillSwitch.SHADOW:
            return None
        try:
            allowed = Allowance.of(self.budget_ms)
            until = allowed.share(last=True) if allowed else None
            page = self._page(Rung.TANTIVY, query, replace(asked, until=until), scope)
        except SearchError as exc:
            self._tell(Event.SHADOW_COMPARISON, {"error": str(exc)})
            return None
        ids = [[hit.message_id for hit in one.hits] for one in (served, page)]
        found = shadow.compare(Rung.FTS5, ids[0], Rung.TANTIVY, ids[1])
        self._tell(Event.SHADOW_COMPARISON, asdict(found))
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
