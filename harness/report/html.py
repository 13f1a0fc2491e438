"""Templates into pages: all that is not markup of ours is made printable and escaped."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from harness.core.printable import printable
from harness.report.links import explore_link
from harness.report.plain import minute

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
    made.filters["minute"] = minute
    return made


def _finalize(value: object) -> object:
    """Make every text that is not markup of ours short and printable before it is escaped."""
    if type(value) is not str:
        return value
    return printable(value if len(value) <= LONGEST else f"{value[:LONGEST]}…")
