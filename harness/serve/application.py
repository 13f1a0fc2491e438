"""Routes of the server, and who may use them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from secrets import compare_digest, token_urlsafe
from typing import Any
from urllib.parse import urlencode, urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, ExceptionHandler, Message, Receive, Scope, Send

from harness.core.errors import HarnessError
from harness.core.server import FORBIDDEN, MISDIRECTED, UNAUTHORIZED, Admission, token_of
from harness.corpus.judgements import Overtaken
from harness.serve import pages
from harness.serve import shelf as serve_shelf
from harness.serve.pages import FORM_BYTES, BadForm, Sitting, refused, welcome
from harness.serve.shelf import HTML, ServedFolder, Sheet, look

LOOPBACK = {"127.0.0.1": "127.0.0.1", "::1": "::1", "localhost": "127.0.0.1"}
NAMES = ("127.0.0.1", "localhost", "[::1]")
HTTP_PORT = 80
TOKEN_BYTES = 32
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
REFUSED = {
    MISDIRECTED: (
        "This name is not served",
        "The address must begin as the one that harness serve printed.",
    ),
    FORBIDDEN: (
        "Not from a page of this server",
        "Only the forms of this server may change something here.",
    ),
    UNAUTHORIZED: (
        "Open the address from the terminal",
        (
            "These pages are shown to whoever was given the whole address that harness serve"
            " printed, with its token. Every start has a new one: after a restart, take the new"
            " address."
        ),
    ),
}


def loopback(host: str) -> str:
    """Return the address in numbers."""
    if host not in LOOPBACK:
        raise HarnessError(
            f"{host}: pages are served to this machine alone: {', '.join(LOOPBACK)}. From another"
            " one, come through a tunnel (ssh -L)"
        )
    return LOOPBACK[host]


class Guard:
    """Pass requests with the token on to an application, and set the headers of every answer."""

    def __init__(self, app: ASGIApp, url: str) -> None:
        """Stand before ``app``, which is served at ``url``: scheme, host and port."""
        port = urlsplit(url).port or HTTP_PORT
        hosts = {f"{name}:{port}" for name in NAMES} | ({*NAMES} if port == HTTP_PORT else set())
        self._app = Admission(
            app, hosts, self._admits, lambda status, _: refused(FORBIDDEN, *REFUSED[status]),
            forms=True,
        )  # fmt: skip
        self._token, self._cookie = token_urlsafe(TOKEN_BYTES), token_urlsafe(TOKEN_BYTES)
        self._name = f"harness-{port}"
        self.address = f"{url}/?{urlencode({'token': self._token})}"
        """What a person opens first."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("content-security-policy", NOTHING)
            await send(message)

        await self._app(scope, receive, sent)

    def _admits(self, request: HTTPConnection) -> ASGIApp | bool:
        def same(given: str, wanted: str) -> bool:
            return compare_digest(given.encode("utf-8", "replace"), wanted.encode())

        if same(request.cookies.get(self._name, ""), self._cookie):
            return True
        safe = Request(request.scope).method in {"GET", "HEAD"}
        if request.url.path != "/" or not safe or not same(token_of(request), self._token):
            return False
        response = welcome()
        response.set_cookie(self._name, self._cookie, httponly=True, samesite="strict")
        return response


SEE_OTHER, BAD_REQUEST, NOT_FOUND, TOO_LARGE, BROKEN = 303, 400, 404, 413, 500


def application(served: Sequence[ServedFolder], url: str, harness: str = "harness") -> Guard:
    """Serve folders at ``url``, which names scheme, host and port; to those with the token.

    ``harness`` is the program in commands that a page gives, as the reader calls it.
    """
    desk = Desk(tuple(served), harness)
    routes = [
        Route("/", desk.front),
        Route("/state", desk.state),
        Route("/files/{key:path}", desk.file),
        Route("/judge/{key:path}", desk.sit),
        Route("/judge/{key:path}", desk.press, methods=["POST"]),
    ]
    handlers: Mapping[Any, ExceptionHandler] = {
        HTTPException: _refused,
        BadForm: lambda _, exc: refused(BAD_REQUEST, "This is not what the form sends", str(exc)),
        HarnessError: lambda _, exc: refused(BROKEN, "A file cannot be read", str(exc)),
        ClientDisconnect: lambda *_: Response(status_code=BAD_REQUEST),  # it hears nothing
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return Guard(app, url)


@dataclass(frozen=True, slots=True)
class Desk:
    """Answers; every time it looks anew what is there."""

    served: tuple[ServedFolder, ...]
    harness: str

    def front(self, _: Request) -> Response:
        shelf = look(self.served)
        return pages.front(
            serve_shelf.entries(shelf, datetime.now(UTC)), serve_shelf.progress(shelf)
        )

    def state(self, request: Request) -> Response:
        """Describe the signature of every file, and the list if it is not the one that is known."""
        shelf = look(self.served)
        found = serve_shelf.entries(shelf, datetime.now(UTC))
        listed, stamp = pages.listing(found, serve_shelf.progress(shelf))
        files = {key: sheet.signature for key, sheet in shelf.sheets.items()}
        known = request.query_params.get("stamp") == stamp
        return JSONResponse({"stamp": stamp, "files": files, "list": None if known else listed})

    def file(self, request: Request) -> Response:
        """Return a file as it lies there."""
        sheet = look(self.served).sheets.get(request.path_params["key"])
        content = sheet.content() if sheet else None
        if sheet is None or content is None:
            raise HTTPException(NOT_FOUND)
        policy = pages.of_a_report() if sheet.media_type == HTML else NOTHING
        headers = {"content-security-policy": policy}
        return Response(content, media_type=sheet.media_type, headers=headers)

    def sit(self, request: Request) -> Response:
        pool = self._pool(request)
        return pages.judging(pages.sit(pool.key, pool.path, request.query_params), self.harness)

    async def press(self, request: Request) -> Response:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > FORM_BYTES:
                raise HTTPException(TOO_LARGE)

        def pressed() -> Response:
            pool, sent = self._pool(request), bytes(body)
            try:
                then: Sitting = pages.press(pool.key, pool.path, sent)
            except Overtaken as exc:
                return pages.judging(pages.again(pool.key, pool.path, sent, exc), self.harness)
            return RedirectResponse(then.url, SEE_OTHER)

        return await run_in_threadpool(pressed)

    def _pool(self, request: Request) -> Sheet:
        found = look(self.served).pools.get(request.path_params["key"])
        if found is None:
            raise HTTPException(NOT_FOUND)
        return found


def _refused(_: Request, exc: Exception) -> Response:
    status = exc.status_code if isinstance(exc, HTTPException) else BROKEN
    if status == NOT_FOUND:
        text = "It is gone, is written just now, or never was. The front page lists what there is."
        return refused(status, "Page not found", text)
    said = exc.detail if isinstance(exc, HTTPException) else str(exc)
    return refused(status, "This cannot be done here", said)
