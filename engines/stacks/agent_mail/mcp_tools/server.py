"""The tools as an MCP server, over pipes or loopback."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from ipaddress import ip_address
from types import new_class
from typing import Annotated, Any, NamedTuple, Protocol

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp

from engines.contract import SearchError
from engines.stacks.agent_mail.ingest import Ingest
from engines.stacks.agent_mail.mcp_tools.arguments import (
    CALLER,
    Code,
    InProduct,
    InProject,
    Refused,
    digest,
    resolved,
    signature,
)
from engines.stacks.agent_mail.mcp_tools.changes import (
    Changed,
    Changes,
    CheckedTool,
    DeleteMessage,
    EditMessage,
    InsertMessage,
    ToolServer,
)
from engines.stacks.agent_mail.mcp_tools.results import SearchResult, pathless
from engines.stacks.agent_mail.mcp_tools.search import Surface, Switched
from engines.stacks.agent_mail.mcp_tools.subjects import Beginning, SubjectsFound
from engines.stacks.agent_mail.pipeline.scope import Scope
from harness.core.errors import HarnessError
from harness.core.mcp_pipes import MAX_MESSAGE_BYTES, run_until_signalled

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


PATH = "/mcp"
"""Where the tools are. A GET of it would wait for messages of the server, which sends none."""
BY_THE_GUARD = TransportSecuritySettings(enable_dns_rebinding_protection=False)
"""The SDK checks names of the host for three addresses alone; ``Admission`` does so for all."""
LOCALHOST = "127.0.0.1"


def serve_stdio(app: MCPServer[Any]) -> None:
    """Speak over standard input and output until the input ends; nothing else may write there.

    Raises:
        HarnessError: the reader of the output is gone.
        KeyboardInterrupt: a signal ended it.
    """
    run_until_signalled(app.run_stdio_async)


def serve_http(
    app: MCPServer[Any],
    host: str,
    port: int,
    ready: Callable[[str], object],
    tokens: Mapping[str, Scope | None] | None,
) -> None:
    """Speak streamable HTTP until interrupted; port 0 takes a free one, ``ready`` is told the URL.

    ``tokens`` are those of ``admitted``: None answers every program of this machine.

    Raises:
        HarnessError: the address is not of this machine alone, or the port is taken.
    """
    from harness.core.server import bound, server

    check_loopback(host)
    with bound(host, port) as (listening, url):
        asgi: ASGIApp = app.streamable_http_app(
            streamable_http_path=PATH,
            json_response=True,
            stateless_http=True,
            host=host,
            max_request_body_size=MAX_MESSAGE_BYTES,
            transport_security=BY_THE_GUARD,
        )
        ready(f"{url}{PATH}")
        server(admitted(asgi, url, tokens)).run(sockets=[listening])


def check_loopback(host: str) -> None:
    """Refuse an address that other machines could reach: tokens are sent as they are.

    Raises:
        HarnessError: ``host`` is not a loopback address in numbers.
    """
    try:
        local = ip_address(host).is_loopback
    except ValueError:
        local = False
    if not local:
        raise HarnessError(
            f"{host} is not a loopback address in numbers; the tools are served to this"
            f" machine alone: {LOCALHOST} or ::1"
        )


def admitted(app: ASGIApp, url: str, tokens: Mapping[str, Scope | None] | None) -> ASGIApp:
    """Stand before the tools, which are served at ``url``.

    ``tokens`` are SHA-256 digests, and whom each one names: None for an operator. Without tokens
    every caller is an operator.
    """
    from harness.core.server import Admission, token_of

    named = url.removeprefix("http://")

    def admits(request: HTTPConnection) -> ASGIApp | bool:
        given = digest(token_of(request))
        if tokens is not None and given not in tokens:
            return False
        if request.scope["method"] == "GET" and request.scope["path"] == PATH:
            return PlainTextResponse("nothing is streamed", 405, {"allow": "POST"})
        CALLER.set(None if tokens is None else tokens[given])
        return True

    return Admission(app, {named, f"localhost:{named.rpartition(':')[2]}"}, admits)
