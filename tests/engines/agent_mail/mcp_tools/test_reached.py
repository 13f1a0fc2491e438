"""A client goes each way of docs/contract.md that leads through a tool of message search."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.docs.contract import rows
from tests.docs.reached import TOOL
from tests.engines.agent_mail.mcp_tools.conftest import Tools

NEEDED: Mapping[str, Mapping[str, object]] = {
    "search_messages": {"project_key": "*", "query": "review"},
    "search_messages_product": {"product_key": "product-5", "query": "review"},
    "complete_subject": {"project_key": "*", "prefix": "rev"},
}
"""What each tool cannot do without."""
SAID: Mapping[str, object] = {
    "query": "review",
    "prefix": "rev",
    "project_key": "project-1",
    "product_key": "product-5",
    **dict.fromkeys(("project", "project_key_filter", "project_slug", "proj"), "project-1"),
    "mode": "lexical",
    "doc_kind": "agent",
    "rrf_k": 30,
    "rerank_top_k": 50,
    "explain": True,
    "limit": 2,
    "offset": 1,
    "importance": "low,high",
    "ranking": "recency",
    "thread_id": "t1",
    "ack_required": True,
    "min_score": 0.5,
    "direction": "inbox",
    **dict.fromkeys(("sender", "from_agent", "sender_name", "agent_name", "recipient"), "Ann"),
    **dict.fromkeys(("date_start", "date_from", "after", "since"), "2026-05-01"),
    **dict.fromkeys(("date_end", "date_to", "before", "until"), "2026-05-06"),
}
WAYS = {way for row in rows() for way in row.reached_by}
CALLS = sorted(
    (found[1], tuple(found[2].split(", ")))
    for way in WAYS
    if (found := TOOL.fullmatch(way)) and found[1] in NEEDED
)


def test_a_client_goes_each_way_to_a_promise(tools: Tools) -> None:
    assert {tool for tool, _ in CALLS} == NEEDED.keys()
    for tool, arguments in CALLS:
        given = {**NEEDED[tool], **{name: said(tools, name) for name in arguments}}
        if "direction" in given:
            given["agent_name"] = "Ann"
        answer = tools.call(tool, **given)
        assert not answer.is_error, (tool, arguments, answer.content)
        found = answer.structured_content or {}
        assert "diagnostics" not in found, (tool, arguments, found)
        assert found.keys() >= {"subjects" if tool == "complete_subject" else "result"}
        assert ("explain" in found) == ("explain" in arguments)


def said(tools: Tools, name: str) -> object:
    return tools.found(limit=1)["next_cursor"] if name == "cursor" else SAID[name]


@pytest.mark.parametrize("name", ["mode", "ranking", "importance", "direction", "cursor"])
def test_a_way_that_leads_nowhere_is_seen(tools: Tools, name: str) -> None:
    answer = tools.call("search_messages", **{**NEEDED["search_messages"], name: "nowhere"})
    assert answer.is_error or "diagnostics" in (answer.structured_content or {})
