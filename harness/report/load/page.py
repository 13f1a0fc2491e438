"""``load.html``: one load on one page, which loads nothing and runs no script."""

from __future__ import annotations

from markupsafe import Markup

from harness.core.gate import Verdict
from harness.report.html import TEMPLATES, environment
from harness.report.load.figures import load_curve, percentile_curves
from harness.report.load.inputs import LoadReport
from harness.report.load.tables import notes, tables
from harness.report.rounding import milliseconds, three_digits

P99 = 99.0


def headline(report: LoadReport) -> str:
    """Give the highest sustained rate of each arm, or its latency at the highest rate tried."""
    if report.highest and report.budget_ns:
        budget = milliseconds(report.budget_ns)
        return f"With 99 of 100 answers within {budget} ms, {_highest(report)}."
    for rate in reversed(report.rates):
        if said := _times(report, rate):
            noise = report.noise.get(rate)
            open_ = noise is not None and noise.verdict is not Verdict.PASS
            why = f" Nothing is concluded: {noise.reason}." if noise and open_ else ""
            return f"At {rate:g} a second, 99 of 100 answers come within {said}.{why}"
    return "No trial at a rate counts, so nothing is said about load."


def _highest(report: LoadReport) -> str:
    return ", ".join(
        f"{arm} sustains {three_digits(found.estimate.value)} queries a second"
        if found.estimate
        else f"the highest rate of {arm} was not found"
        for arm, found in report.highest.items()
    )


def _times(report: LoadReport, rate: float) -> str:
    points = [(arm, report.point(arm, rate)) for arm in report.arms]
    return ", ".join(
        f"{milliseconds(point.overall.percentile(P99))} ms ({arm})"
        for arm, point in points
        if point and point.overall.count
    )


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
