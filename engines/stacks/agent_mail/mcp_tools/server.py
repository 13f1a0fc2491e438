"""The tools as an MCP server; structured answers with a schema, errors with a code."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import new_class
from typing import Annotated, Any, NamedTuple, Protocol

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel

from engines.contract.errors import SearchError
from engines.stacks.agent_mail.ingest import Ingest
from engines.stacks.agent_mail.mcp_tools.arguments import (
    InProduct,
    InProject,
    resolved,
    signature,
)
from engines.stacks.agent_mail.mcp_tools.callers import CALLER
from engines.stacks.agent_mail.mcp_tools.changes import (
    Changed,
    Changes,
    DeleteMessage,
    EditMessage,
    InsertMessage,
)
from engines.stacks.agent_mail.mcp_tools.checked import CheckedTool, ToolServer
from engines.stacks.agent_mail.mcp_tools.pathless import pathless
from engines.stacks.agent_mail.mcp_tools.refused import Code, Refused
from engines.stacks.agent_mail.mcp_tools.results import SearchResult
from engines.stacks.agent_mail.mcp_tools.search import Surface
from engines.stacks.agent_mail.mcp_tools.subjects import Beginning, SubjectsFound
from engines.stacks.agent_mail.mcp_tools.switched import Switched

LOG = logging.getLogger("engines.mail.surface")
NAME = "agent-mail-search"
MESSAGES, PRODUCT = "search_messages", "search_messages_product"
SUBJECT = "complete_subject"
Found = Annotated[CallToolResult, SearchResult]
Completed = Annotated[CallToolResult, SubjectsFound]


class Answers(Protocol):
    """What a tool gives back."""

    def written(self) -> dict[str, Any]:
        """Write what is there."""
        ...


class Offered(NamedTuple):
    """A tool: its arguments, what it gives, and how a surface answers it."""

    about: str
    takes: type[BaseModel]
    gives: Any
    answer: Callable[[Surface, Any], Answers]


TOOLS: Mapping[str, Offered] = {
    MESSAGES: Offered(
        "Search the messages of a project, or of every project with *.",
        InProject,
        Found,
        Surface.search,
    ),
    PRODUCT: Offered(
        "Search the messages of all projects of a product.", InProduct, Found, Surface.search
    ),
    SUBJECT: Offered(
        "Complete a subject that is being typed.", Beginning, Completed, Surface.subjects
    ),
}


def writing(box: Ingest) -> Mapping[str, Offered]:
    """Offer the tools that change messages."""
    changes, gives = Changes(box), Annotated[CallToolResult, Changed]
    return {
        "insert_message": Offered("Write a new message.", InsertMessage, gives, changes.insert),
        "edit_message": Offered("Change a message.", EditMessage, gives, changes.edit),
        "delete_message": Offered("Delete a message.", DeleteMessage, gives, changes.delete),
    }


def application(surface: Surface | Switched, box: Ingest | None = None) -> MCPServer[Any]:
    """Make a server of the tools; its version is the fingerprint of who answers at the start.

    With ``box``, operators may change messages too. A server that has viewers names no corpus in
    it, for all of them read it.
    """
    made = surface.identity.manifest
    tools = {**TOOLS, **(writing(box) if box else {})}
    if surface.scope is not None:
        made = replace(made, documents=0, corpus_sha256="")
    return ToolServer(
        NAME,
        title=surface.identity.arm,
        version=made.fingerprint,
        tools=[_tool(surface, name, offered) for name, offered in tools.items()],
    )


def _tool(surface: Surface | Switched, name: str, offered: Offered) -> Tool:
    """Make a tool that refuses a parameter it does not know: a filter lost is a wrong answer."""

    def call(**given: Any) -> CallToolResult:  # noqa: ANN401  checked against the signature
        try:
            caller = CALLER.get(surface.scope)
            found = offered.answer(surface.seen_by(caller), resolved(offered.takes, given))
        except Refused as exc:
            raise ToolError(str(exc)) from exc
        except SearchError as exc:
            LOG.warning("%s: %s", name, exc)
            raise ToolError(str(Refused(pathless(str(exc)), Code.FAILED))) from exc
        answer = found.written()
        text = json.dumps(answer, ensure_ascii=False, allow_nan=False)
        return CallToolResult(
            content=[TextContent(type="text", text=text)], structured_content=answer
        )

    call.__signature__ = signature(offered.takes, offered.gives)  # type: ignore[attr-defined]
    tool = CheckedTool.from_function(call, name=name, description=offered.about)
    loose = tool.fn_metadata.arg_model
    strict: Any = new_class(name, (loose,), {"extra": "forbid"})
    tool.fn_metadata.arg_model = strict
    tool.parameters = strict.model_json_schema(by_alias=True)
    return tool
