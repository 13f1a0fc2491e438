"""``index.html``: one file that loads nothing, from which a release manager decides.

Queries and documents are hostile input: every text is escaped by jinja2, the script is allowed by
its digest alone, and the policy of the page (``default-src 'none'``) forbids every request.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.core.printable import printable
from harness.report.explore_link import explore_link
from harness.report.inputs import ReportInput
from harness.report.page_view import ALIKE as ALIKE  # noqa: PLC0414  shared with the explorer
from harness.report.page_view import view

TEMPLATES = Path(__file__).with_name("templates")
LONGEST = 2_000
"""Characters of the longest text on a page; the files for machines hold it whole."""


def script_source(script: str) -> str:
    """Allow one script, by its digest."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"


@cache
def environment() -> Environment:
    """Make templates into pages: all that is not markup of ours is made printable and escaped."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    made.globals["explore_link"] = explore_link
    return made


def to_page(reports: Sequence[ReportInput]) -> str:
    """Give the page of all datasets; the same bytes for the same input."""
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    views = tuple(map(view, reports, range(len(reports))))
    render = partial(environment().get_template("page.html.j2").render, datasets=views)
    text = render(
        script=Markup(script),  # noqa: S704  our own file
        style=Markup(style),  # noqa: S704  our own file
        script_source=Markup(script_source(script)),  # noqa: S704  our own digest
    )
    return text.rstrip() + "\n"


def _finalize(value: object) -> object:
    """Make every text that is not markup of ours short and printable before it is escaped."""
    if type(value) is not str:
        return value
    return printable(value if len(value) <= LONGEST else f"{value[:LONGEST]}…")
