"""The last load in short, for the page of a decision: all of it is on the page of the load."""

from __future__ import annotations

from dataclasses import dataclass, replace

from markupsafe import Markup

from harness.report.load.figures import load_curve
from harness.report.load.inputs import LoadReport
from harness.report.load.tables import notes, response
from harness.report.rows import Table


@dataclass(frozen=True, slots=True)
class LoadView:
    """The last load in short."""

    table: Table
    curve: Markup
    notes: tuple[str, ...]
    loaded_at: str


def load_view(report: LoadReport, figure: str) -> LoadView:
    """Show the highest rate that every arm bore, and the curve over all rates."""
    return LoadView(
        highest_shared(report),
        Markup(load_curve(figure, report) or ""),  # noqa: S704  our own figure, its texts are escaped
        notes(report),
        report.loaded_at,
    )


def highest_shared(report: LoadReport) -> Table:
    """Keep of the response times those at the highest rate at which every arm has some."""
    shared = [
        rate
        for rate in report.rates
        if all((found := report.point(arm, rate)) and found.overall.count for arm in report.arms)
    ]
    kept = tuple(point for point in report.points if shared and point.rate == shared[-1])
    return response(replace(report, points=kept))
