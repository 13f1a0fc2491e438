"""Routes of the server: the front page, its news, files, and the judging form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from harness.core.errors import HarnessError
from harness.corpus.pool import Overtaken
from harness.serve import entries, form, pages
from harness.serve.form import FORM_BYTES, BadForm, Sitting
from harness.serve.guard import NOTHING, Guard
from harness.serve.shelf import HTML, Folder, Sheet, look

SEE_OTHER, BAD_REQUEST, NOT_FOUND, TOO_LARGE, BROKEN = 303, 400, 404, 413, 500


def application(served: Sequence[Folder], url: str, harness: str = "harness") -> Guard:
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
    handlers = {
        HTTPException: _refused,
        BadForm: _bad_form,
        HarnessError: _broken,
        ClientDisconnect: _left,
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return Guard(app, url)


@dataclass(frozen=True, slots=True)
class Desk:
    """Answers; every time it looks anew what is there."""

    served: tuple[Folder, ...]
    harness: str

    def front(self, _: Request) -> Response:
        shelf = look(self.served)
        return pages.front(entries.entries(shelf, datetime.now(UTC)), entries.progress(shelf))

    def state(self, request: Request) -> Response:
        """Tell the signature of every file, and the list if it is not the one that is known."""
        shelf = look(self.served)
        found = entries.entries(shelf, datetime.now(UTC))
        listed, stamp = pages.listing(found, entries.progress(shelf))
        signatures = {key: sheet.signature for key, sheet in shelf.sheets.items()}
        known = request.query_params.get("stamp") == stamp
        return JSONResponse({
            "stamp": stamp,
            "files": signatures,
            "list": None if known else listed,
        })

    def file(self, request: Request) -> Response:
        """Give a file as it lies there."""
        sheet = look(self.served).sheets.get(request.path_params["key"])
        content = sheet.content() if sheet else None
        if sheet is None or content is None:
            raise HTTPException(NOT_FOUND)
        policy = pages.of_a_report() if sheet.media_type == HTML else NOTHING
        return Response(
            content,
            media_type=sheet.media_type,
            headers={"content-security-policy": policy},
        )

    def sit(self, request: Request) -> Response:
        pool = self._pool(request)
        return pages.judging(form.sit(pool.key, pool.path, request.query_params), self.harness)

    async def press(self, request: Request) -> Response:
        body = await _body(request)
        return await run_in_threadpool(self._pressed, request, body)

    def _pressed(self, request: Request, body: bytes) -> Response:
        pool = self._pool(request)
        try:
            then: Sitting = form.press(pool.key, pool.path, body)
        except Overtaken as exc:
            return pages.judging(form.again(pool.key, pool.path, body, exc), self.harness)
        return RedirectResponse(then.url, SEE_OTHER)

    def _pool(self, request: Request) -> Sheet:
        found = look(self.served).pools.get(request.path_params["key"])
        if found is None:
            raise HTTPException(NOT_FOUND)
        return found


async def _body(request: Request) -> bytes:
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > FORM_BYTES:
            raise HTTPException(TOO_LARGE)
    return bytes(found)


def _refused(_: Request, exc: Exception) -> Response:
    status = exc.status_code if isinstance(exc, HTTPException) else BROKEN
    if status == NOT_FOUND:
        text = "It is gone, is written just now, or never was. The front page lists what there is."
        return pages.refused(status, "Page not found", text)
    said = exc.detail if isinstance(exc, HTTPException) else str(exc)
    return pages.refused(status, "This cannot be done here", said)


def _left(_: Request, __: Exception) -> Response:
    """Answer a client that left within its request, and hears nothing."""
    return Response(status_code=BAD_REQUEST)


def _bad_form(_: Request, exc: Exception) -> Response:
    return pages.refused(BAD_REQUEST, "This is not what the form sends", str(exc))


def _broken(_: Request, exc: Exception) -> Response:
    return pages.refused(BROKEN, "A file cannot be read", str(exc))
