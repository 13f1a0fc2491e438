"""Message search as its callers see it: modes, fallbacks, pages, scope and explain."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from operator import attrgetter
from time import perf_counter_ns

from harness_engines.contract import FeatureUnavailable, InvalidQuery, SearchError
from harness_engines.lexical.terms import normalise
from harness_engines.stacks.agent_mail import contract, faults
from harness_engines.stacks.agent_mail.contract import DocKind, Event, SearchQuery, SearchResponse
from harness_engines.stacks.agent_mail.faults import Deadline
from harness_engines.stacks.agent_mail.live import LiveIndexes
from harness_engines.stacks.agent_mail.pipeline import pages, plan
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch, SearchCursor
from harness_engines.stacks.agent_mail.pipeline.scope import Scope, Visibility, unrestricted
from harness_engines.stacks.agent_mail.tantivy.engine import TantivyMailEngine
from harness_engines.stacks.agent_mail.views import View, nothing, plain

LOG = logging.getLogger("engines.mail")
_PARTS = attrgetter("lexical_us", "vector_us", "fusion_us", "rerank_us")


Observer = Callable[[SearchQuery, SearchResponse, int], object]
"""Is told of a first page that is served under SEARCH_ENGINE=shadow, and of its nanoseconds.

It comes back at once, and nothing that it raises reaches the caller. A query with a scope is not
told: what a viewer may see is a function, which no one elsewhere can be given.
"""


@dataclass(frozen=True, slots=True)
class MailSearch:
    """The search service. Nothing that goes wrong inside reaches a caller (section 9.2)."""

    tiers: pages.Tiers
    hydrate: Callable[[Sequence[int]], Mapping[int, contract.Message]]
    """Messages by id; deleted ones are absent."""
    projects_of: Callable[[int], frozenset[int]]
    switch: KillSwitch | None
    emit: contract.Emit
    budget_ms: float = 0.0
    """What a query may take before its chain ends (``budget``); 0 means no budget."""
    entities: Mapping[DocKind, pages.PageSource[contract.Entity]] = field(default_factory=dict)
    """What agents and projects are searched with (``kinds``)."""
    observer: Observer | None = None
    """Asks the shadow elsewhere, so that no caller waits but one of ``explain``; without it both
    engines answer here."""
    views: Callable[[Scope], View] | None = None
    """Gives what a viewer sees; without it a viewer sees nothing."""
    scope: Scope | None = None
    """Whom the service is narrowed to; None is an operator, who sees all."""
    view: View | None = None
    """What a viewer's searches read."""
    fresh: LiveIndexes | None = None
    """Keeps the indexes up to the messages, and says where an answer may miss a change."""

    def seen_by(self, scope: Scope | None) -> "MailSearch":
        """Narrow the service to what ``scope`` shows now: nothing where that cannot be told."""
        if scope is None or scope.audited:
            return replace(self, scope=scope)
        try:
            with faults.known():
                view = self.views(scope) if self.views else nothing(scope)
        except SearchError as exc:
            LOG.warning("no view of %s: %s", scope.policy, exc)
            view = nothing(scope)
        return replace(
            self,
            tiers=view.tiers(self.tiers),
            hydrate=view.hydrate,
            projects_of=view.names.projects_of_product,
            entities=view.entities,
            scope=view.scope,
            view=view,
            fresh=self.fresh and self.fresh.seen_by(view),
        )

    def beginning(
        self, prefix: str, project_id: int | None, most: int
    ) -> tuple[contract.Message, ...]:
        """Return messages that are shown whole, in whose subject a word begins so."""
        engine = self.tiers.lexical.get(FallbackTier.TANTIVY)
        if not isinstance(engine, TantivyMailEngine) or self.switch is KillSwitch.FTS5:
            raise FeatureUnavailable("beginnings of subjects are in the index of Tantivy alone")
        seen_as = self.scope or unrestricted()
        with faults.known():
            typed, _ = plan.bounded(normalise(prefix))
            found = engine.typeahead(typed, contract.Filters(project_id=project_id), most)
            ids = [message_id for message_id, _ in found]
            messages = self.hydrate(ids)
        there = (messages[message_id] for message_id in ids if message_id in messages)
        return tuple(one for one in there if seen_as.sees(one) is Visibility.ALLOW)

    def search(self, query: SearchQuery) -> SearchResponse:
        """Answer a query; every degradation is in ``explain``."""
        start = perf_counter_ns()
        seen_as, of_messages = self.scope or unrestricted(), query.doc_kind is DocKind.MESSAGE
        typed, note = plan.bounded(normalise(query.text))
        reasons = [*filter(None, [note]), *plan.lacking(query, self.switch)]
        planned = plan.plan(query, lambda product: self._projects(product, reasons))
        asked = pages.TierQuery(
            typed,
            planned.filters,
            query.ranking if of_messages else contract.RankingMode.RELEVANCE,
            query.effective_rrf_k,
            query.effective_rerank_top_k,
        )
        first = plan.engine_chain(query.mode, self.switch, query.doc_kind)[0]
        stale = ""
        try:
            tier, page, stale = self._climb_down(query, planned, asked, reasons)
        except InvalidQuery as exc:
            reasons.append(str(exc))
            tier, page = first, pages.NOTHING
        except SearchError as exc:
            reasons.append(f"{FallbackTier.LIKE}: {self._told(exc)}; nothing could answer")
            tier, page = FallbackTier.LIKE, pages.NOTHING
        else:
            if tier is not first:
                reasons.append(f"answered by {tier}")
        reasons.extend(filter(None, [stale]))
        answered_ns = perf_counter_ns() - start
        compared = self._shadowed(query, asked, page)
        actual = plan.MODE_OF[tier]
        downgraded = actual is not plan.wanted(query.mode, self.switch, query.doc_kind)
        reason = "; ".join(reasons)
        if downgraded:
            told: contract.Payload = {"requested": query.mode, "actual": actual, "reason": reason}
            self._tell(Event.MODE_DOWNGRADE, told)
        elif tier is not first:
            told = {"wanted": first, "engine": tier, "reason": reason}
            self._tell(Event.ENGINE_FALLBACK, told)
        elif stale:
            self._tell(Event.INDEX_STALE, {"engine": tier, "reason": reason})
        messages, ranked, by_like = page.messages, page.ranked, page.ranked.found.used_like_fallback
        total_us = (perf_counter_ns() - start) // 1_000
        explain = contract.QueryExplain(
            method=ranked.found.method,
            normalized_query=None if by_like else ranked.found.normalized_query,
            used_like_fallback=by_like,
            facet_count=len(planned.facets),
            facets_applied=planned.facets,
            sql=ranked.found.sql,
            scope_policy=seen_as.policy,
            denied_count=page.denied if seen_as.audited else 0,
            redacted_count=sum(map(attrgetter("redacted"), messages)),
            requested_mode=query.mode,
            actual_mode=actual,
            engine=str(tier),
            mode_downgraded=downgraded,
            downgrade_reason=reason if downgraded else None,
            timing=contract.ExplainTiming(total_us, *_PARTS(ranked.clock), page.scope_us),
            cursor_invalidated=page.invalidated,
            shadow=compared,
            note="; ".join(filter(None, (reason, ranked.found.note))),
        )
        search_response = SearchResponse(
            messages,
            page.next_cursor,
            explain,
            served_by=str(tier),
            fell_back=tier is not first,
            entities=page.entities,
            stale=bool(stale),
        )
        if self.observer and self.scope is None and self._comparable(query, page):
            with suppress(Exception):
                self.observer(query, search_response, answered_ns)
        return search_response

    def _comparable(self, query: SearchQuery, served: pages.HitPage) -> bool:
        """Whether the shadow can be asked the same: a cursor is one engine's."""
        first_page = query.cursor is None or served.invalidated
        of_messages = query.doc_kind is DocKind.MESSAGE
        return self.switch is KillSwitch.SHADOW and first_page and of_messages

    def _projects(self, product_id: int, reasons: list[str]) -> frozenset[int]:
        """Projects of a product; none, with the reason, where they cannot be read."""
        try:
            with faults.known():
                return self.projects_of(product_id)
        except SearchError as exc:
            reasons.append(f"the projects of product {product_id} are not known: {self._told(exc)}")
            return frozenset()

    def _told(self, exc: SearchError) -> str:
        """Describe what went wrong; to a viewer its kind alone."""
        return plain(exc) if self.view else str(exc)

    def _tell(self, event: Event, payload: contract.Payload) -> None:
        """Log; a log that is full or gone keeps nobody from an answer."""
        with suppress(Exception):
            self.emit(event, payload)

    def _climb_down(
        self, query: SearchQuery, planned: plan.MailPlan, asked: pages.TierQuery, reasons: list[str]
    ) -> tuple[FallbackTier, pages.HitPage, str]:
        """Try the tiers of the chain, all but the last within the budget.

        What a tier reads is brought up to the messages first; what is said is why it could not be.
        A question that is no question is one for every tier. Of other failures the last is raised.
        """
        if not asked.text and not planned.facets:
            raise InvalidQuery("the query is empty: no text and no filter")
        tiers = plan.engine_chain(query.mode, self.switch, query.doc_kind)
        allowed = Deadline.of(self.budget_ms)
        for tier in tiers[:-1]:
            until = allowed.share(last=tier is tiers[-2]) if allowed else None
            within = asked._replace(until=until) if until else asked
            try:
                stale = self._stale(tier, query, until)
                return tier, self._page(tier, query, within), stale
            except InvalidQuery:
                raise
            except SearchError as exc:
                reasons.append(f"{tier}: {self._told(exc)}")
        last = tiers[-1]
        stale = self._stale(last, query, None)
        return last, self._page(last, query, asked), stale

    def _stale(self, tier: FallbackTier, query: SearchQuery, until: Deadline | None) -> str:
        if self.fresh is None or query.doc_kind is not DocKind.MESSAGE:
            return ""
        return self.fresh.current(tier, until)

    def _page(
        self, tier: FallbackTier, query: SearchQuery, asked: pages.TierQuery
    ) -> pages.HitPage:
        scope = self.scope or unrestricted()
        current = plan.pager(query.doc_kind, tier)
        read = None if query.cursor is None else SearchCursor.decode(query.cursor)
        cursor = read if read and read.goes_on(current, pages.digits_of(query, asked)) else None
        with faults.known():
            if query.doc_kind is DocKind.MESSAGE:
                show = partial(pages.messages, scope)
                source = pages.PageSource(self.tiers, self.hydrate, show, hides=not scope.whole)
                page = pages.fill(source, tier, query, asked, cursor)
            elif query.doc_kind in self.entities:
                page = pages.fill(self.entities[query.doc_kind], tier, query, asked, cursor)
            else:
                raise FeatureUnavailable(f"no {query.doc_kind}s are held here")
        if page.invalidated:
            made_by = read.engine if read and read.engine else None
            told: contract.Payload = {"cursor_engine": made_by, "current_engine": current}
            self._tell(Event.CURSOR_INVALIDATED, told)
        return page

    def _shadowed(
        self, query: SearchQuery, asked: pages.TierQuery, served: pages.HitPage
    ) -> contract.ShadowComparison | None:
        """Ask the shadow too, beside an observer where explain asks; the log has its failure."""
        whole = self.scope is None or self.scope.whole
        unasked = self.observer is not None and not (query.explain and whole)
        if unasked or not self._comparable(query, served):
            return None
        try:
            allowed = Deadline.of(self.budget_ms)
            asked = asked._replace(until=allowed.share(last=True) if allowed else None)
            page = self._page(FallbackTier.TANTIVY, replace(query, cursor=None), asked)
        except SearchError as exc:
            self._tell(Event.SHADOW_COMPARISON, {"error": str(exc)})
            return None
        ids = [[hit.message_id for hit in one.messages] for one in (served, page)]
        found = contract.compare_with_shadow(
            FallbackTier.FTS5, ids[0], FallbackTier.TANTIVY, ids[1]
        )
        self._tell(Event.SHADOW_COMPARISON, asdict(found))
        return found
