"""A page of one kind of document, without those that cannot be read."""

from __future__ import annotations

from dataclasses import replace

from engines.stacks.agent_mail.contract.query import SearchQuery
from engines.stacks.agent_mail.pipeline import faults
from engines.stacks.agent_mail.pipeline.cursor import SearchCursor
from engines.stacks.agent_mail.pipeline.kinds import CURSOR_OF, Doc, Source
from engines.stacks.agent_mail.pipeline.pages import Page, fill
from engines.stacks.agent_mail.pipeline.plan import FallbackTier
from engines.stacks.agent_mail.pipeline.retrievers import TierQuery, digits_of


def filled(
    source: Source[Doc],
    tier: FallbackTier,
    query: SearchQuery,
    asked: TierQuery,
    cursor: SearchCursor | None,
) -> Page:
    """Fill a page; what was found and cannot be read is left out and counted."""
    lost: dict[int, str] = {}
    with faults.known():
        page = fill(
            lambda depth: source.tiers.rank(tier, asked, depth),
            faults.salvaged(source.hydrate, lost),
            source.show,
            limit=query.effective_limit,
            min_score=query.effective_min_score,
            cursor=cursor,
            engine=CURSOR_OF[query.doc_kind, tier],
            digest=lambda: digits_of(query, asked),
            invalidated=query.cursor is not None and cursor is None,
        )
    if not lost:
        return page
    note = f"{len(lost)} {query.doc_kind}s cannot be read ({next(iter(lost.values()))})"
    return replace(page, unread=len(lost), note="; ".join(filter(None, (page.note, note))))
