"""What to try where nothing was found, told from the structure of the query alone.

No query is repeated with fewer filters: that would tell a caller of messages that it may not see.
"""

from __future__ import annotations

from collections.abc import Sequence

from engines.stacks.agent_mail.contract.query import SearchQuery
from engines.stacks.agent_mail.mcp_tools.hints import Slip
from engines.stacks.agent_mail.mcp_tools.results import Suggestion, ZeroResultGuidance


def guide(query: SearchQuery, slips: Sequence[Slip]) -> ZeroResultGuidance:
    """List suggestions in a fixed order: filters by how much they hide, slips, then the text."""
    agents = (
        ("sender", query.sender_name),
        ("recipient", query.recipient_name),
        ("agent_name", query.agent_name),
    )
    named = " and ".join(f"{name} {value}" for name, value in agents if value is not None)
    levels = ",".join(query.importance)
    told = {
        "broaden_date_range": ""
        if query.time_range.is_open
        else "only messages of a range of dates were searched",
        "drop_importance_filter": levels and f"only messages of importance {levels} were searched",
        "drop_agent_filter": named and f"only messages of {named} were searched",
        "drop_thread_filter": ""
        if query.thread_id is None
        else f"only the thread {query.thread_id} was searched",
        "drop_ack_filter": ""
        if query.ack_required is None
        else f"only messages with ack_required {str(query.ack_required).lower()} were searched",
    }
    found = [Suggestion(kind=kind, detail=detail) for kind, detail in told.items() if detail]
    found += [
        Suggestion(kind="fix_typo", detail=f"{slip.typed} was searched for as words; {slip.meant}?")
        for slip in slips
    ]
    simpler = Suggestion(kind="simplify_query", detail="fewer or more general words may find more")
    return ZeroResultGuidance(suggestions=found or [simpler])
