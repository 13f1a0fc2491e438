"""The tools over a small real index, called in process as an MCP client calls them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import anyio
from mcp import Client
from mcp.server.lowlevel import Server
from mcp.types import CallToolResult

from harness.core.engine import Manifest
from harness.core.records import Document
from harness_engines.stacks.agent_mail.contract import Names as Called
from harness_engines.stacks.agent_mail.contract import SearchMode
from harness_engines.stacks.agent_mail.mcp_tools.search import ServedIndex, Surface
from harness_engines.stacks.agent_mail.mcp_tools.server import application
from harness_engines.stacks.agent_mail.pipeline.scope import Scope
from harness_engines.stacks.agent_mail.service import MailSearch

DAY_US = 86_400_000_000
MAY_1 = 1_777_593_600_000_000
"""2026-05-01T00:00:00Z."""
ROWS: tuple[tuple[str, str, dict[str, str | int | bool]], ...] = (
    ("m01", "review of the plan", {"sender": "Ann", "importance": "high", "thread_id": "t1"}),
    ("m02", "review again", {"sender": "Bob", "importance": "urgent", "thread_id": "t1"}),
    ("m03", "review br-2tnl", {"sender": "Ann", "ack_required": True, "thread_id": "t 2"}),
    ("m04", "review the token", {"sender": "Cid", "importance": "low"}),
    ("m05", "lunch", {"sender": "Ann"}),
    ("m06", "review late", {"sender": "Bob", "thread_id": "t3"}),
)
PROJECT_OF = {"m01": 1, "m02": 1, "m03": 2, "m04": 2, "m05": 3, "m06": 3}
DOCUMENTS = [
    Document(
        doc_id,
        title,
        "to all",
        {
            "recipients": "Bob,Dee" if about["sender"] != "Bob" else "Ann",
            "project_id": PROJECT_OF[doc_id],
            **({"product_id": 5} if PROJECT_OF[doc_id] < 3 else {}),
            "created_ts": MAY_1 + at * DAY_US + (DAY_US - 1 if at == 2 else 0),
            **about,
        },
    )
    for at, (doc_id, title, about) in enumerate(ROWS)
]
"""One message a day from 1 May on; the third in the last microsecond of its day."""
SETTINGS = {
    "mode": "lexical",
    "search_engine": "",
    "subject_weight": 2,
    "identifiers_weight": 4,
    "embedder": "hash",
    "max_tokens": 64,
}


@dataclass(frozen=True)
class Tools:
    """The tools of one surface."""

    surface: Surface

    @cached_property
    def app(self) -> Server[Any]:
        return application(self.surface)

    def call(self, tool: str, **given: object) -> CallToolResult:
        async def ask() -> CallToolResult:
            async with Client(self.app) as client:
                return await client.call_tool(tool, given)

        return anyio.run(ask)

    def found(self, query: str = "review", **given: object) -> dict[str, Any]:
        """Search everywhere, or in the project named, and give the structured answer."""
        answer = self.call("search_messages", **{"project_key": "*", "query": query, **given})
        assert not answer.is_error, answer.content
        assert isinstance(answer.structured_content, dict)
        return answer.structured_content

    def ids(self, query: str = "review", **given: object) -> list[int]:
        return sorted(row["id"] for row in self.found(query, **given)["result"])

    def product(self, query: str = "review", **given: object) -> dict[str, Any]:
        asked = {"product_key": "product-5", "query": query, **given}
        answer = self.call("search_messages_product", **asked)
        assert not answer.is_error, answer.content
        assert isinstance(answer.structured_content, dict)
        return answer.structured_content

    def refused(self, tool: str = "search_messages", **given: object) -> str:
        key = "project_key" if tool == "search_messages" else "product_key"
        here = {"project_key": "*", "product_key": "product-5"}[key]
        answer = self.call(tool, **{key: here, "query": "review", **given})
        assert answer.is_error
        assert answer.structured_content is None
        (said,) = answer.content
        return str(getattr(said, "text", ""))


class Names:
    """Projects ``p1`` to ``p3`` and the product ``all`` of the first two."""

    def project_called(self, slug: str) -> int | None:
        return {"p1": 1, "p2": 2, "p3": 3}.get(slug)

    def product_called(self, name: str) -> int | None:
        return {"all": 5}.get(name)

    def projects_of_product(self, product_id: int) -> frozenset[int]:
        return frozenset({1, 2}) if product_id == 5 else frozenset()


def over(
    service: MailSearch,
    directory: Called | None = None,
    *,
    mode: SearchMode = SearchMode.LEXICAL,
    scope: Scope | None = None,
) -> Tools:
    """Put the tools over a service."""
    made = Manifest("agent-mail", "1", len(DOCUMENTS), "c" * 64, "s" * 64)
    return Tools(Surface(service, directory or Names(), ServedIndex("served", made), mode, scope))
