"""Who may use the server: a browser of this machine that was given the printed address.

Listening on loopback alone does not protect: any page in a browser may send requests there, and
a foreign name may resolve to this machine (DNS rebinding). So every request must name this machine
as its host and carry the cookie that the printed address is exchanged for. A request that changes
something must come from a page of this server.
"""

from __future__ import annotations

from secrets import compare_digest, token_urlsafe
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from harness.core.errors import HarnessError
from harness.serve.pages import refused, welcome

LOOPBACK = {"127.0.0.1": "127.0.0.1", "::1": "::1", "localhost": "127.0.0.1"}
HTTP_PORT = 80
SAFE = {"GET", "HEAD"}
TOKEN_BYTES = 32
FORBIDDEN = 403
HEADERS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""``same-origin``: with ``no-referrer`` a browser would not say where a form was sent from."""
NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def loopback(host: str) -> str:
    """Give the address in numbers.

    Raises:
        HarnessError: other machines could reach it.
    """
    if host not in LOOPBACK:
        raise HarnessError(
            f"{host}: pages are served to this machine alone: {', '.join(LOOPBACK)}. From another"
            " one, come through a tunnel (ssh -L)"
        )
    return LOOPBACK[host]


class Guard:
    """Pass requests with the token on to an application; refuse all others."""

    def __init__(self, app: ASGIApp, url: str) -> None:
        """Stand before ``app``, which is served at ``url``: scheme, host and port."""
        port = urlsplit(url).port or HTTP_PORT
        names = ("127.0.0.1", "localhost", "[::1]")
        self._app = app
        self._hosts = {f"{name}:{port}" for name in names}
        if port == HTTP_PORT:
            self._hosts |= {*names}
        self._token, self._cookie = token_urlsafe(TOKEN_BYTES), token_urlsafe(TOKEN_BYTES)
        self._name = f"harness-{port}"
        self.address = f"{url}/?{urlencode({'token': self._token})}"
        """What a person opens first."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("content-security-policy", NOTHING)
            await send(message)

        answer = self._instead(Request(scope)) or self._app
        await answer(scope, receive, sent)

    def _instead(self, request: Request) -> Response | None:
        """Answer in place of the application; None for what it may answer."""
        host, origin = _only(request.headers, "host"), _only(request.headers, "origin")
        if host.lower() not in self._hosts:
            return refused(
                FORBIDDEN,
                "This name is not served",
                "The address must begin as the one that harness serve printed.",
            )
        if request.method not in SAFE and origin != f"http://{host}":
            return refused(
                FORBIDDEN,
                "Not from a page of this server",
                "Only the forms of this server may change something here.",
            )
        if _same(request.cookies.get(self._name, ""), self._cookie):
            return None
        token = request.query_params.get("token", "")
        if request.url.path == "/" and request.method in SAFE and _same(token, self._token):
            response = welcome()
            response.set_cookie(self._name, self._cookie, httponly=True, samesite="strict")
            return response
        return refused(
            FORBIDDEN,
            "Open the address from the terminal",
            "These pages are shown to whoever was given the whole address that harness serve"
            " printed, with its token. Every start has a new one: after a restart, take the"
            " new address.",
        )


def _only(headers: Headers, name: str) -> str:
    """Give a header that may come once; empty where it comes twice."""
    found = headers.getlist(name)
    return found[0] if len(found) == 1 else ""


def _same(given: str, wanted: str) -> bool:
    return compare_digest(given.encode("utf-8", "replace"), wanted.encode())
