"""Signs that an answer is not what was requested, for programs that branch on them (section 6.3).

Whatever ``explain`` knows of a degradation is here too, asked for or not: a fallback that only a
curious caller sees is a silent one (decision 18).
"""

from __future__ import annotations

from enum import StrEnum

from engines.stacks.agent_mail.contract.results import SearchResponse
from engines.stacks.agent_mail.mcp_tools.results import SearchDiagnostics


class Signal(StrEnum):
    """What may have happened, in the order in which it is listed."""

    INVALID_QUERY = "invalid_query"
    SEARCH_FAILED = "search_failed"
    MODE_DOWNGRADED = "mode_downgraded"
    ENGINE_FALLBACK = "engine_fallback"
    LIKE_FALLBACK = "like_fallback"
    INDEX_STALE = "index_stale"
    MESSAGES_UNREAD = "messages_unread"
    CURSOR_INVALIDATED = "cursor_invalidated"


NOTHING_RAN = "empty"
"""``explain.method`` of a query that no engine answered."""

HINTS = {
    Signal.INVALID_QUERY: "give a text or a filter",
    Signal.SEARCH_FAILED: "build the index again",
    Signal.MODE_DOWNGRADED: "see the reason; the mode needs a model, an index, or the kill switch",
    Signal.ENGINE_FALLBACK: "see the reason; build the index again where it is broken",
    Signal.LIKE_FALLBACK: "write words of letters or digits; the text could not be matched",
    Signal.INDEX_STALE: "ask again: the index is catching up; see the reason where it stays so",
    Signal.MESSAGES_UNREAD: "messages were found and left out; repair the message store",
    Signal.CURSOR_INVALIDATED: "begin at the first page; the cursor is of another engine or query",
}


def diagnose(search_response: SearchResponse) -> SearchDiagnostics | None:
    """Give what is degraded; None where the tier that is meant to answer did, and fully.

    A query that says nothing is told so; the service is not the worse for it.
    """
    explain = search_response.explain
    fell = search_response.fell_back
    seen = {
        Signal.INVALID_QUERY: explain.method == NOTHING_RAN and not fell,
        Signal.SEARCH_FAILED: explain.method == NOTHING_RAN and fell,
        Signal.MODE_DOWNGRADED: explain.mode_downgraded,
        Signal.ENGINE_FALLBACK: fell,
        Signal.LIKE_FALLBACK: explain.used_like_fallback,
        Signal.INDEX_STALE: search_response.stale,
        Signal.MESSAGES_UNREAD: search_response.unread > 0,
        Signal.CURSOR_INVALIDATED: explain.cursor_invalidated,
    }
    signals = [signal for signal, on in seen.items() if on]
    if not signals:
        return None
    return SearchDiagnostics(
        degraded=signals != [Signal.INVALID_QUERY],
        signals=[signal.value for signal in signals],
        fallback_mode=search_response.served_by if fell or explain.mode_downgraded else None,
        requested_mode=str(explain.requested_mode),
        actual_mode=str(explain.actual_mode),
        cursor_invalidated=explain.cursor_invalidated,
        reason=explain.note or ", ".join(signals).replace("_", " "),
        remediation_hints=[HINTS[signal] for signal in signals],
    )


def failed(reason: str) -> SearchDiagnostics:
    """Tell of a failure before any engine was queried."""
    return SearchDiagnostics(
        degraded=True,
        signals=[Signal.SEARCH_FAILED.value],
        fallback_mode=None,
        requested_mode=None,
        actual_mode=None,
        cursor_invalidated=False,
        reason=reason,
        remediation_hints=[HINTS[Signal.SEARCH_FAILED]],
    )
