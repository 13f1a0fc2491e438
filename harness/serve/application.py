"""The server of reports and pools: its routes, who may use them, and its pages."""

import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from secrets import compare_digest, token_urlsafe
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, ExceptionHandler, Message, Receive, Scope, Send

from harness.core.digest import of_json
from harness.core.errors import HarnessError
from harness.core.reading import Malformed, text_of
from harness.core.server import FORBIDDEN, MISDIRECTED, UNAUTHORIZED, Admission, token_of
from harness.corpus import judgements
from harness.corpus.judgements import JudgingPair, Overtaken, Pool
from harness.judge.judge import BACK, QUIT, SKIP
from harness.judge.pool import following, standing
from harness.report.html import TEMPLATES, environment, script_source
from harness.report.page import cards
from harness.serve.shelf import HTML, PAGES, Sheet, entries, look, progress

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
                headers.update(HEADERS)
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
        # no redirection: from a page of another site no strict cookie would come along
        response = _page("word", "", title="The pages are open", text="", go="/")
        response.set_cookie(self._name, self._cookie, httponly=True, samesite="strict")
        return response


REMEMBERED = 50
"""How many pairs can be taken back."""
DIGITS = 9
"""Most digits of a number; a longer text names neither a grade nor a place."""
FORM_BYTES = 65_536
MAX_GUIDELINES_BYTES = 65_536
FIELDS = {"key", "pair", "was", "done"}


class BadForm(HarnessError):
    """What was sent is not what the form sends."""


@dataclass(frozen=True, slots=True)
class Sitting:
    """Where one who judges is."""

    key: str
    """The pool's key."""
    path: Path
    pool: Pool
    at: int
    """Place of the pair that is shown; the number of pairs behind the last one."""
    done: tuple[int, ...]
    """Places that were left before, the latest last."""
    notice: str = ""
    settles: str = ""
    """How far the pool has settled its gate, or why that is unknown; empty for other pools."""

    @property
    def pair(self) -> JudgingPair | None:
        return self.pool.pairs[self.at] if self.at < len(self.pool.pairs) else None

    @property
    def was(self) -> int | None:
        """Grade of the pair that is shown."""
        return self.pool.grades[self.at]

    @property
    def before(self) -> "Sitting | None":
        """Where one is after taking the last pair back; None where there is none."""
        if not self.done:
            return None
        return replace(self, at=self.done[-1], done=self.done[:-1], notice="")

    @property
    def word(self) -> str:
        """Name of the pair that is shown."""
        return word_for(self.pool.pairs[self.at])

    @property
    def guidelines(self) -> str:
        """What a grade means, as a file beside the pool says; empty without one, or for a link."""
        path = self.path.with_name(judgements.GUIDELINES)
        try:
            return "" if path.is_symlink() else text_of(path, most=MAX_GUIDELINES_BYTES)
        except (OSError, Malformed):
            return ""

    @property
    def judged(self) -> int:
        return len(self.pool.judgements)

    @property
    def trail(self) -> str:
        """``done`` as it stands in addresses and forms."""
        return ".".join(map(str, self.done))

    @property
    def url(self) -> str:
        where = urlencode({"at": self.at, "done": self.trail})
        return f"/judge/{quote(self.key)}?{where}"

    def after(self) -> "Sitting":
        """Go on to the next open pair."""
        following = (at for at in self.pool.open if at > self.at)
        at = next(following, len(self.pool.pairs))
        return replace(self, at=at, done=(*self.done, self.at)[-REMEMBERED:])


def sit(key: str, path: Path, asked: Mapping[str, str]) -> Sitting:
    """Sit down where the address says, at the first open pair where it says nothing."""
    found = judgements.read_pool(path)
    places = range(len(found.pairs))
    said = _number(asked.get("at", ""))
    first = min(found.open, default=len(places))
    at = first if said is None else min(said, len(places))
    settles = ""
    try:
        if not found.open and (seen := standing(path)):
            settles = seen.words
    except HarnessError as exc:
        settles = str(exc)
    return Sitting(key, path, found, at, _trail(asked.get("done", ""), places), "", settles)


def press(key: str, path: Path, body: bytes) -> Sitting:
    """Apply a key of the form; return the new position, with a notice if nothing is done."""
    sent = _fields(body)
    found = judgements.read_pool(path)
    at = _place(found, sent["pair"])
    here = Sitting(key, path, found, at, _trail(sent["done"], range(len(found.pairs))))
    pair, pressed, was = found.pairs[at], sent["key"], _number(sent["was"])
    if sent["was"] and was is None:
        raise BadForm(f"{sent['was']!r} is not a grade")
    if pressed == SKIP:
        return here.after()
    grade = None if pressed == BACK else _number(pressed)
    if pressed != BACK and grade not in pair.scale:
        raise BadForm(f"{pressed!r} is not a key")
    try:
        graded = judgements.regrade(path, pair, was, grade)
    except Overtaken as exc:  # the pair is shown again, as it is judged by now
        now = judgements.read_pool(path)
        return replace(here, pool=now, at=_place(now, sent["pair"]), notice=str(exc))
    if pressed == BACK:
        return replace(here, pool=graded)
    with suppress(HarnessError):  # the page says why, if its gate has no more pairs
        if not graded.open and (seen := following(path)):
            graded = seen.pool
    return replace(here, pool=graded).after()


def _fields(body: bytes) -> Mapping[str, str]:
    try:
        found = dict(
            parse_qsl(
                body.decode("ascii"), keep_blank_values=True, strict_parsing=True,
                errors="strict", max_num_fields=len(FIELDS),
            )
        )  # fmt: skip
    except ValueError as exc:
        raise BadForm("it cannot be read") from exc
    if set(found) != FIELDS:
        raise BadForm(f"its fields are {', '.join(sorted(FIELDS))}")
    return found


def word_for(pair: JudgingPair) -> str:
    """Name a pair in a form, whatever characters its ids have."""
    return of_json([pair.query_id, pair.doc_id])


def _place(pool: Pool, word: str) -> int:
    """Find a pair where it stands now; lines may have been moved since it was shown."""
    found = (at for at, pair in enumerate(pool.pairs) if word_for(pair) == word)
    at = next(found, None)
    if at is None:
        raise BadForm("the pair is not in this pool any more; begin again from the front page")
    return at


def _trail(text: str, places: range) -> tuple[int, ...]:
    """Read places with dots between; what is none is left out."""
    found = map(_number, text.split(".")[-REMEMBERED:])
    return tuple(at for at in found if at is not None and at in places)


def _number(text: str) -> int | None:
    return int(text) if len(text) <= DIGITS and text.isdecimal() else None


SEE_OTHER, BAD_REQUEST, NOT_FOUND, CONFLICT, TOO_LARGE, BROKEN = 303, 400, 404, 409, 413, 500


def application(served: Mapping[str, Path], url: str) -> Guard:
    """Serve folders at ``url``, which names scheme, host and port; to those with the token."""
    desk = Desk(served)
    routes = [
        Route("/", desk.front),
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

    served: Mapping[str, Path]
    """Folders by their labels."""

    def front(self, _: Request) -> Response:
        shelf = look(self.served)
        found = entries(shelf, datetime.now(UTC))
        return _page("front", "front.js", entries=found, pools=progress(shelf))

    def file(self, request: Request) -> Response:
        """Return a file as it lies there."""
        sheet = look(self.served).sheets.get(request.path_params["key"])
        content = sheet.content() if sheet else None
        if sheet is None or content is None:
            raise HTTPException(NOT_FOUND)
        policy = of_a_report() if sheet.media_type == HTML else NOTHING
        headers = {"content-security-policy": policy}
        return Response(content, media_type=sheet.media_type, headers=headers)

    def sit(self, request: Request) -> Response:
        pool = self._pool(request)
        return judging(sit(pool.key, pool.path, request.query_params))

    async def press(self, request: Request) -> Response:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > FORM_BYTES:
                raise HTTPException(TOO_LARGE)

        def pressed() -> Response:
            pool = self._pool(request)
            then = press(pool.key, pool.path, bytes(body))
            if then.notice:
                return judging(then)
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


OWN = Path(__file__).with_name("templates")
REPORTS_RUN = ("page.js", "explore.js")
"""Scripts of the pages of a report."""


@cache
def _environment() -> Environment:
    made = environment().overlay(loader=FileSystemLoader([OWN, TEMPLATES]))
    made.filters = {
        **made.filters, "address": quote, "called": lambda sheet: PAGES.get(sheet.name, sheet.name),
        "tone": cards.tone, "answer": cards.answer, "counts": cards.counts,
    }  # fmt: skip
    return made


def judging(sitting: Sitting) -> HTMLResponse:
    """Return the form for the pair that is shown; 409 where it is shown for a second time."""
    status = CONFLICT if sitting.notice else 200
    merge = shlex.join(["harness", "judge", str(sitting.path), "--merge", "NAME", "--by", "WHO"])
    keys = {"skip": SKIP, "back": BACK, "quit": QUIT}
    return _page("judge", "judge.js", status, sitting=sitting, keys=keys, merge=merge)


def refused(status: int, title: str, text: str) -> HTMLResponse:
    """Draw, in place of a page, why it is absent and what to do."""
    return _page("word", "", status, title=title, text=text, go="")


def of_a_report() -> str:
    """Return what a page of a report may do here at most, whatever its own policy says.

    Only the scripts that this program writes into such pages run. A foreign script could send
    requests and judge in the name of the person who opened the page.
    """
    own = " ".join(script_source((TEMPLATES / name).read_text("utf-8")) for name in REPORTS_RUN)
    return (
        f"script-src {own}; object-src 'none'; frame-src 'none'; connect-src 'none';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _page(name: str, script: str, status: int = 200, **values: Any) -> HTMLResponse:  # noqa: ANN401
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    style += (OWN / "serve.css").read_text(encoding="utf-8")
    run = (OWN / script).read_text(encoding="utf-8") if script else ""
    text = (
        _environment()
        .get_template(f"{name}.html.j2")
        .render(style=Markup(style), script=Markup(run), **values)  # noqa: S704  our own files
    )
    policy = (
        f"default-src 'none'; style-src {script_source(style)}; script-src {script_source(run)};"
        " connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none';"
        " frame-ancestors 'none'"
    )
    return HTMLResponse(text, status, {"content-security-policy": policy})
