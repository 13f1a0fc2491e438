"""Documents and templates into pages, with all text escaped, and links into the explorer."""

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.core.printable import one_line, printable
from harness.report.doc import Block, Section, kind_of
from harness.report.rounding import minute

PAGE = "explore.html"
NAME = 400
"""Longest name that an address holds, in characters."""


def explore_link(dataset: str, control: str, candidate: str, query_id: str = "") -> str:
    """Return the address of a comparison, relative to the page beside it; of a query, if named."""
    state = {"d": dataset, "a": control, "b": candidate}
    state |= {"q": query_id} if query_id else {}
    said = {key: named(value) for key, value in state.items()}
    return f"{PAGE}#{urlencode(said, quote_via=quote, safe='')}"


def named(name: str) -> str:
    """Write the name of anything as the explorer knows it: printable, on one line, and not long."""
    return one_line(name, NAME)


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
    made.filters |= {"minute": minute, "is": kind_of, "ours": Markup}
    return made


def to_page(doc: Section, *, scripted: bool = False) -> str:
    """Write a document as one file; a scripted page opens what an address behind it names."""
    style, script = ((TEMPLATES / f"page.{kind}").read_text("utf-8") for kind in ("css", "js"))
    script = script if scripted else ""
    text = (
        environment()
        .get_template("page.html.j2")
        .render(
            doc=doc,
            style=Markup(style),  # noqa: S704  our own file
            script=Markup(script),  # noqa: S704  our own file
            script_source=Markup(script_source(script)),  # noqa: S704  our own digest
        )
    )
    return text.rstrip() + "\n"


def fragment(blocks: Iterable[Block]) -> str:
    """Write blocks as a part of somebody else's page, such as a notebook."""
    module: Any = environment().get_template("macros.html.j2").module
    return str(module.blocks(tuple(blocks), 4)).strip()


def _finalize(value: object) -> object:
    """Make every text that is not markup of ours short and printable before it is escaped."""
    if type(value) is not str:
        return value
    return printable(value if len(value) <= LONGEST else f"{value[:LONGEST]}…")
