"""One tool over a folder as an MCP server: structured answers, errors with a code."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.metadata import version
from inspect import Parameter, Signature
from types import new_class
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel, Field

from engines.kept.index import Live
from engines.stacks.agent_mail.mcp_tools.arguments import Code, Refused
from engines.stacks.agent_mail.mcp_tools.changes import CheckedTool, ToolServer
from harness.core.errors import DISTRIBUTION, BadFile, HarnessError, IndexNotReady, Locked

Opened = TypeVar("Opened")
Answer = Mapping[str, Any]
UNREAD = 10
"""Files that cannot be read of which an answer tells."""


class Tool(NamedTuple, Generic[Opened]):
    """What a stack offers: a name, what it takes, and how it answers."""

    name: str
    about: str
    takes: type[BaseModel]
    answer: Callable[[Opened, Any], Answer]


def application(live: Live[Opened], tool: Tool[Opened], title: str) -> MCPServer[Any]:
    """Make a server of a tool; each call brings the index up to date with its folder first."""

    def call(**given: Any) -> CallToolResult:  # noqa: ANN401  checked against the signature
        try:
            with live.now() as (opened, done):
                answer = dict(tool.answer(opened, tool.takes(**given)))
            if done is not None and done.faults:
                answer["unread"] = [one._asdict() for one in done.faults[:UNREAD]]
        except (BadFile, IndexNotReady, Locked) as exc:
            raise ToolError(str(Refused(f"{exc}", Code.FAILED))) from exc
        except OSError as exc:
            raise ToolError(str(Refused(f"{exc.filename}: {exc.strerror}", Code.FAILED))) from exc
        except (HarnessError, ValueError) as exc:
            raise ToolError(str(Refused(f"{exc}"))) from exc
        text = json.dumps(answer, ensure_ascii=False, allow_nan=False)
        return CallToolResult(
            content=[TextContent(type="text", text=text)], structured_content=answer
        )

    call.__signature__ = _signature(tool.takes)  # type: ignore[attr-defined]
    made = CheckedTool.from_function(call, name=tool.name, description=tool.about)
    strict: Any = new_class(tool.name, (made.fn_metadata.arg_model,), {"extra": "forbid"})
    made.fn_metadata.arg_model = strict
    made.parameters = strict.model_json_schema(by_alias=True)
    name, release = f"folder-{tool.name}", version(DISTRIBUTION)
    return ToolServer(name, title=title, version=release, tools=[made])


def _signature(kind: type[BaseModel]) -> Signature:
    """Write a tool's parameters as a function would have them."""
    parameters: list[Parameter] = []
    annotated: Any = Annotated
    for name, field in kind.model_fields.items():
        about = annotated[(field.annotation, *field.metadata, Field(description=field.description))]
        default = Parameter.empty if field.is_required() else field.default
        parameters.append(
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=about, default=default)
        )
    return Signature(parameters, return_annotation=CallToolResult)
