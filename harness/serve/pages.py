"""The server's own pages: the front page, the judging form, and words in place of a page.

What they show of reports and pools is hostile input: every text is escaped by jinja2; script and
style are allowed by their digests alone.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup
from starlette.responses import HTMLResponse

from harness.core.digest import of_bytes
from harness.report.html import TEMPLATES, environment, script_source
from harness.serve.afterwards import afterwards
from harness.serve.entries import Entry, Progress
from harness.serve.form import Sitting
from harness.serve.shelf import PAGES, Sheet
from harness.stages.judging.judge import BACK, QUIT, SKIP

OWN = Path(__file__).with_name("templates")
REPORTS_RUN = ("page.js", "explore.js")
"""Scripts of the pages of a report."""
CONFLICT = 409


@cache
def _environment() -> Environment:
    made = environment().overlay(loader=FileSystemLoader([OWN, TEMPLATES]))
    made.filters = {**made.filters, "address": _address, "called": _called}
    return made


def _address(key: str) -> str:
    return quote(key)


def _called(sheet: Sheet) -> str:
    return PAGES.get(sheet.name, sheet.name)


def listing(found: tuple[Entry, ...], pools: tuple[Progress, ...]) -> tuple[str, str]:
    """Give the list of the front page, and a word that is another one whenever the list is."""
    text = _environment().get_template("list.html.j2").render(entries=found, pools=pools)
    return text, of_bytes(text.encode())


def front(found: tuple[Entry, ...], pools: tuple[Progress, ...]) -> HTMLResponse:
    """Give the front page."""
    text, stamp = listing(found, pools)
    body = Markup(text)  # noqa: S704  our own template, its texts are escaped
    return _page("front", "front.js", listed=body, stamp=stamp)


def judging(sitting: Sitting, harness: str) -> HTMLResponse:
    """Give the form for the pair that is shown; 409 where it is shown for a second time.

    ``harness`` is the program as the reader calls it.
    """
    status = CONFLICT if sitting.notice else 200
    advice = () if sitting.pool.open else afterwards(sitting.path, harness)
    keys = {"skip": SKIP, "back": BACK, "quit": QUIT}
    return _page("judge", "judge.js", status, sitting=sitting, keys=keys, advice=advice)


def refused(status: int, title: str, text: str) -> HTMLResponse:
    """Say in place of a page why there is none, and what to do."""
    return _page("word", "", status, title=title, text=text, go="")


def welcome() -> HTMLResponse:
    """Go on to the front page.

    The page itself moves on; it is not a redirection. If a page of another site opened the address,
    a browser would not send a strict cookie along a redirection.
    """
    return _page("word", "", title="The pages are open", text="", go="/")


def of_a_report() -> str:
    """Give what a page of a report may do here at most, whatever its own policy says.

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
