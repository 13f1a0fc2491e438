"""MCP tools, each declared by name, arguments and function, and served over pipes or loopback."""

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from enum import StrEnum
from ipaddress import ip_address
from typing import Any, ClassVar, NamedTuple, TypeVar

from anyio import to_thread
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent
from mcp.types import Tool as Listed
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp

from harness.core.errors import LONGEST, HarnessError, UnknownName
from harness.core.mcp_pipes import MAX_MESSAGE_BYTES, pipes, run_until_signalled
from harness.core.printable import between

LOG = logging.getLogger("harness_engines.mcp_server")
CALLER: ContextVar[Any] = ContextVar("caller")
"""Whom the current request is answered for, None an operator; unset outside of HTTP."""
SHOWN = 60
"""Characters shown of a value that cannot be meant."""


class RefusalCode(StrEnum):
    """Kinds of refusal, for callers that branch on them."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
    FORBIDDEN = "FORBIDDEN"
    FAILED = "FAILED"


class ToolRefusal(Exception):
    """The arguments contradict each other, cannot be read, or name what there is not."""

    def __init__(self, problem: str, code: RefusalCode = RefusalCode.INVALID_ARGUMENT) -> None:
        super().__init__(f"{code}: {between(problem, LONGEST)}")
        self.code, self.problem = code, problem


class ToolArguments(BaseModel):
    """What a tool takes. A parameter may have other names, and two of them may not differ."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    aliases: ClassVar[Mapping[str, tuple[str, ...]]] = {}


class Tool(NamedTuple):
    """A tool: what it is called, what it takes, and what it answers."""

    name: str
    about: str
    takes: type[BaseModel]
    answer: Callable[[Any], Mapping[str, Any]]
    gives: type[BaseModel] | None = None


Arguments = TypeVar("Arguments", bound=BaseModel)


def resolved(takes: type[Arguments], given: Mapping[str, Any]) -> Arguments:
    """Read arguments, of which null is as good as absent."""
    merged = {name: value for name, value in given.items() if value is not None}
    for name, others in _aliases(takes).items():
        _merge(merged, name, others)
    try:
        return takes.model_validate(merged)
    except ValidationError as exc:
        known = sorted(parameters(takes)["properties"])
        by_name = {str(error["loc"][0]): error for error in exc.errors() if error["loc"]}
        said = [_sentence(name, by_name[name], known) for name in sorted(by_name)]
        raise ToolRefusal("; ".join(said or [e["msg"] for e in exc.errors()])) from exc


def _aliases(takes: type[BaseModel]) -> Mapping[str, tuple[str, ...]]:
    return takes.aliases if issubclass(takes, ToolArguments) else {}


def _merge(merged: dict[str, Any], name: str, others: Sequence[str]) -> None:
    """Move what is given under any of the names to the first."""
    said = {key: merged.pop(key) for key in (name, *others) if key in merged}
    said = {key: value for key, value in said.items() if value != ""}
    for other, value in said.items():
        if merged.setdefault(name, value) != value:
            first = next(iter(said))
            raise ToolRefusal(
                f"{first} is {said[first]!r} and {other} is {value!r}; they are names of one"
                " parameter, give one"
            )


def _sentence(name: str, error: ErrorDetails, known: Sequence[str]) -> str:
    """Write what is wrong with an argument."""
    if error["type"] == "missing":
        return f"{name} is missing, give it"
    if error["type"] == "extra_forbidden":
        return str(UnknownName("parameter", name, known))
    if error["type"] == "value_error":
        return f"{name}: {error['ctx']['error']}"
    shown = repr(error["input"])
    shown = shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."
    return f"{name} is {shown}: {error['msg']}"


def parameters(takes: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of what a tool takes, other names included; it takes nothing else."""
    schema = takes.model_json_schema()
    known = schema.setdefault("properties", {})
    schema["additionalProperties"] = False
    for name, others in _aliases(takes).items():
        for other in others:
            known[other] = {"type": "string", "default": "", "description": f"As {name}."}
    return schema


def called(tool: Tool, given: Mapping[str, Any]) -> CallToolResult:
    """Call a tool; whatever goes wrong is a text that begins with a code."""
    try:
        answer = dict(tool.answer(resolved(tool.takes, given)))
    except ToolRefusal as exc:
        return _failed(exc)
    except Exception:
        LOG.exception("tool %s failed", tool.name)
        return _failed(
            ToolRefusal(f"{tool.name} failed; its server's log says why", RefusalCode.FAILED)
        )
    text = json.dumps(answer, ensure_ascii=False, allow_nan=False)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=answer)


def _failed(why: ToolRefusal) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=str(why))], is_error=True)


def application(name: str, title: str, version: str, tools: Sequence[Tool]) -> Server[Any]:
    """Make a server that offers tools and nothing else."""
    by_name = {tool.name: tool for tool in tools}
    listed = [
        Listed(
            name=tool.name,
            description=tool.about,
            input_schema=parameters(tool.takes),
            output_schema=None if tool.gives is None else tool.gives.model_json_schema(),
        )
        for tool in tools
    ]

    async def listing(*_: object) -> ListToolsResult:
        return ListToolsResult(tools=listed)

    async def calling(_: object, params: CallToolRequestParams) -> CallToolResult:
        tool = by_name.get(params.name)
        if tool is None:
            unknown = UnknownName("tool", params.name, sorted(by_name))
            return _failed(ToolRefusal(str(unknown), RefusalCode.NOT_FOUND))
        return await to_thread.run_sync(called, tool, params.arguments or {})

    return Server(name, title=title, version=version, on_list_tools=listing, on_call_tool=calling)


PATH = "/mcp"
"""Where the tools are."""
BY_THE_GUARD = TransportSecuritySettings(enable_dns_rebinding_protection=False)
"""The SDK checks names of the host for three addresses alone; ``Admission`` does so for all."""
LOCALHOST = "127.0.0.1"


def serve_stdio(app: Server[Any]) -> None:
    """Speak over standard input and output until the input ends; nothing else may write there."""

    async def serve() -> None:
        async with pipes() as (reads, writes):
            await app.run(reads, writes, app.create_initialization_options())

    run_until_signalled(serve)


def serve_http(
    app: Server[Any],
    host: str,
    port: int,
    ready: Callable[[str], object],
    tokens: Mapping[str, Any] | None,
) -> None:
    """Speak streamable HTTP until interrupted; port 0 takes a free one, which ``ready`` is told."""
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
    """Refuse an address that other machines could reach: tokens are sent as they are."""
    try:
        local = ip_address(host).is_loopback
    except ValueError:
        local = False
    if not local:
        raise HarnessError(
            f"{host} is not a loopback address in numbers; the tools are served to this"
            f" machine alone: {LOCALHOST} or ::1"
        )


def digest(token: str) -> str:
    """Return the SHA-256 of a token: files and memory hold no token itself."""
    return hashlib.sha256(token.encode()).hexdigest()


def admitted(app: ASGIApp, url: str, tokens: Mapping[str, Any] | None) -> ASGIApp:
    """Stand before the tools, which are served at ``url``.

    ``tokens`` are SHA-256 digests, and whom each one names: None for an operator. Without tokens
    every caller is an operator.
    """
    from harness.core.server import Admission, refuse_streams, token_of

    named = url.removeprefix("http://")

    def admits(request: HTTPConnection) -> ASGIApp | bool:
        given = digest(token_of(request))
        if tokens is not None and given not in tokens:
            return False
        CALLER.set(None if tokens is None else tokens[given])
        return refuse_streams(request)

    return Admission(app, {named, f"localhost:{named.rpartition(':')[2]}"}, admits)
