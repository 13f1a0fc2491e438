"""The tools as an MCP server, over pipes or loopback."""

from __future__ import annotations

import json
import logging
import socket
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from ipaddress import ip_address
from types import new_class
from typing import Annotated, Any, NamedTuple, Protocol
from urllib.parse import parse_qs

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Request

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
from harness.core.mcp_pipes import MAX_MESSAGE_BYTES
from harness.core.server import run_until_signalled

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


MAX_REQUESTS = 32
"""Answered at once; one more is refused and may come again. Only whole ones count."""
BEARER = "bearer "
PATH = "/mcp"
"""Where the tools are. A GET of it would wait for messages of the server, which sends none."""
KEEP_ALIVE_S = 30
BY_THE_GUARD = TransportSecuritySettings(enable_dns_rebinding_protection=False)
"""The SDK checks names of the host for three addresses alone; ``Guard`` does so for all."""
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

    ``tokens`` are those of ``Guard``: None answers every program of this machine.

    Raises:
        HarnessError: the address is not of this machine alone, or the port is taken.
    """
    import uvicorn

    from harness.core.server import BoundedProtocol

    check_loopback(host)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host, port))
        except (OSError, OverflowError) as exc:
            raise HarnessError(f"cannot serve on {host} port {port}: {exc}; name another") from exc
        bound.listen()
        asgi: ASGIApp = app.streamable_http_app(
            streamable_http_path=PATH,
            json_response=True,
            stateless_http=True,
            host=host,
            max_request_body_size=MAX_MESSAGE_BYTES,
            transport_security=BY_THE_GUARD,
        )
        taken = int(bound.getsockname()[1])
        config = uvicorn.Config(
            Guard(asgi, host, taken, tokens),
            log_config=None,
            access_log=False,
            lifespan="on",
            http=BoundedProtocol,
            timeout_keep_alive=KEEP_ALIVE_S,
        )
        shown = f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{taken}{PATH}")
        uvicorn.Server(config).run(sockets=[bound])


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


class Guard:
    """Lets requests through that may be answered, and says for whom."""

    def __init__(
        self, app: ASGIApp, host: str, port: int, tokens: Mapping[str, Scope | None] | None
    ) -> None:
        """Stand before ``app``. ``tokens`` are SHA-256 digests, and whom each one names.

        None for an operator; without tokens every caller is an operator.
        """
        shown = f"[{host}]" if ":" in host else host
        self._hosts = {f"{shown}:{port}", f"localhost:{port}"}
        self._app, self._tokens, self._now = app, tokens, 0

    async def __call__(self, scope: Request, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = self._refused(scope)
        if refused is not None:
            await refused(scope, receive, send)
            return
        whole = await _whole(receive)
        if whole is None:
            return
        if self._now >= MAX_REQUESTS:
            await PlainTextResponse("too many requests at once", 503, {"retry-after": "1"})(
                scope, receive, send
            )
            return
        self._now += 1
        caller = CALLER.set(self._tokens[_token(scope)] if self._tokens is not None else None)
        try:
            await self._app(scope, whole, send)
        finally:
            CALLER.reset(caller)
            self._now -= 1

    def _refused(self, scope: Request) -> PlainTextResponse | None:
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return PlainTextResponse("this server has another name", 421)
        if len(origins) > 1 or not {one.lower() for one in origins} <= {
            f"http://{host}" for host in self._hosts
        }:
            return PlainTextResponse("pages of another origin are not answered", 403)
        if self._tokens is not None and _token(scope) not in self._tokens:
            asked = {"www-authenticate": "Bearer"}
            return PlainTextResponse("the token is missing or unknown", 401, asked)
        if scope["method"] == "GET" and scope["path"] == PATH:
            return PlainTextResponse("nothing is streamed", 405, {"allow": "POST"})
        return None


async def _whole(receive: Receive) -> Receive | None:
    """Wait for a request to come whole, so that half a one takes no place of those answered.

    Of one that is too long the beginning is enough, for it is refused. None where its client left.
    """
    came: deque[Message] = deque()
    size = 0
    while size <= MAX_MESSAGE_BYTES:
        came.append(await receive())
        if came[-1]["type"] == "http.disconnect":
            return None
        size += len(came[-1].get("body", b""))
        if not came[-1].get("more_body", False):
            break

    async def again() -> Message:
        return came.popleft() if came else await receive()

    return again


def _token(scope: Request) -> str:
    """Give the digest of the token in the header, or else in the address; one of nothing else."""
    said = Headers(scope=scope).get("authorization", "")
    if said[: len(BEARER)].lower() == BEARER:
        return digest(said[len(BEARER) :].strip())
    given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
    return digest(given[0]) if len(given) == 1 else ""
