"""What a request over HTTP must bring: this server's name, an own page's origin, and a token.

A loopback address keeps no one out by itself. Any page in a browser may send requests there,
and a stranger's name may be made to mean it. So each request must name the address that is served,
come from no other origin, and carry a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Request

from engines.stacks.agent_mail.mcp_tools.callers import CALLER, digest
from engines.stacks.agent_mail.pipeline.scope import Scope

MAX_BODY_BYTES = 256 * 1024
"""Of one request; a query and its filters take a few hundred."""
MAX_REQUESTS = 32
"""Answered at once; one more is refused and may come again."""
BEARER = "bearer "


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
        self._now += 1
        caller = CALLER.set(self._tokens[_token(scope)] if self._tokens is not None else None)
        try:
            await self._app(scope, receive, send)
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
        if self._now >= MAX_REQUESTS:
            return PlainTextResponse("too many requests at once", 503, {"retry-after": "1"})
        return None


def _token(scope: Request) -> str:
    """Give the digest of the token in the header, or else in the address; one of nothing else."""
    said = Headers(scope=scope).get("authorization", "")
    if said[: len(BEARER)].lower() == BEARER:
        return digest(said[len(BEARER) :].strip())
    given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
    return digest(given[0]) if len(given) == 1 else ""
