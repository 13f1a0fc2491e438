"""``index.html``: one file that loads nothing, from which a release manager decides.

Queries and documents are hostile input: every text is escaped by jinja2, the script is allowed by
its digest alone, and the policy of the page (``default-src 'none'``) forbids every request.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from markupsafe import Markup

from harness.report.html import TEMPLATES, environment, script_source
from harness.report.inputs import ReportInput
from harness.report.page.view import ALIKE as ALIKE  # noqa: PLC0414  shared with the explorer
from harness.report.page.view import view


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
