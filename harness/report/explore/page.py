"""``explore.html``: any two arms, query by query, in one file that loads nothing.

The data of each set lie in the page twice packed (gzip, base64): a table that is unpacked at once,
and the rankings, unpacked when the table stands. Queries and documents are untrusted input. The
script shows every text as text and is allowed only by its digest. The content security policy
(``default-src 'none'``) forbids every request.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass

from markupsafe import Markup

from harness.core.errors import HarnessError
from harness.report.explore.hits import hits
from harness.report.explore.values import values
from harness.report.html import TEMPLATES, environment, script_source
from harness.report.inputs import ReportInput
from harness.report.links import named
from harness.report.page.merged import merged

BEST = 9
"""Of gzip: the page is written once and sent to many."""
PALETTE = re.compile(r":root \{\n(?P<light>.*?)\n\}\n.*?:root \{\n(?P<dark>.*?)\n  \}\n", re.DOTALL)
"""The colours of ``page.css``, light and dark."""


@dataclass(frozen=True, slots=True)
class Packed:
    """One data set, ready for the page."""

    number: int
    dataset: str
    values: Markup
    hits: Markup


def to_explorer(reports: Sequence[ReportInput]) -> str:
    """Give the page of all data sets; the same bytes for the same input and the same zlib."""
    script = (TEMPLATES / "explore.js").read_text(encoding="utf-8")
    base = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    style = base + themes(base) + (TEMPLATES / "explore.css").read_text(encoding="utf-8")
    text = (
        environment()
        .get_template("explore.html.j2")
        .render(
            datasets=tuple(map(_packed, reports, range(len(reports)))),
            script=Markup(script),  # noqa: S704  our own file
            style=Markup(style),  # noqa: S704  our own files
            script_source=Markup(script_source(script)),  # noqa: S704  our own digest
        )
    )
    return text.rstrip() + "\n"


def pack(value: object) -> Markup:
    """Write columns as JSON, gzip without a time, base64: letters that no page need escape."""
    text = json.dumps(value, default=_by_name, separators=(",", ":"), allow_nan=False)
    packed = base64.b64encode(gzip.compress(text.encode(), BEST, mtime=0))
    return Markup(packed.decode())  # noqa: S704  nothing but base64


def themes(style: str) -> str:
    """Give rules that hold a page to one of the two palettes of ``style``, for the screen.

    Raises:
        HarnessError: the palettes are unknown.
    """
    match = PALETTE.search(style)
    if match is None:
        raise HarnessError("page.css: begins without two palettes; see themes() in explore.py")
    rules = [
        f':root[data-theme="{name}"] {{\n{colours}\n  color-scheme: {name};\n}}\n'
        for name, colours in match.groupdict().items()
    ]
    return f"@media screen {{\n{''.join(rules)}}}\n"


def _packed(report: ReportInput, number: int) -> Packed:
    return Packed(
        number, named(report.provenance.dataset), pack(values(merged(report))), pack(hits(report))
    )


def _by_name(value: object) -> dict[str, object]:
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    raise TypeError(f"{type(value).__name__} has no place on the page")
