"""``load.html``: one load on one page, which loads nothing and runs no script."""

from __future__ import annotations

from markupsafe import Markup

from harness.report.html import TEMPLATES, environment
from harness.report.load.figures import load_curve, percentile_curves
from harness.report.load.headline import headline
from harness.report.load.inputs import LoadReport
from harness.report.load.tables import notes, tables


def to_page(report: LoadReport) -> str:
    """Give the page; the same bytes for the same load."""
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    figures = (
        (load_curve("curve", report), "Response time against the rate."),
        (percentile_curves("percentiles", report), "The whole distribution, on an axis of nines."),
    )
    text = (
        environment()
        .get_template("load.html.j2")
        .render(
            report=report,
            style=Markup(style),  # noqa: S704  our own file
            figures=[
                (Markup(drawn), caption)  # noqa: S704  our own figure, its texts are escaped
                for drawn, caption in figures
                if drawn
            ],
            tables=tables(report),
            notes=notes(report),
            headline=headline(report),
        )
    )
    return text.rstrip() + "\n"
