"""``index.html`` of a shadow log: one file that loads nothing and runs nothing.

What people typed is hostile input: every text is escaped, and the page forbids every request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from markupsafe import Markup

from harness.core.scores import Estimate
from harness.report.html import TEMPLATES, environment
from harness.report.rows import Cell, Table, time_cell
from harness.report.shadow import figures, words
from harness.report.shadow.sides import side_by_side
from harness.report.shadow.troubles import troubles
from harness.report.shadow.words import Shadowed
from harness.shadow.log.record import Divergence
from harness.shadow.watch.alarms import ARMS

QUERY = 200
"""Longest text of a query in the table."""
LISTED = 100
"""Queries in the table; all are in the JSON."""
Percentiles = Mapping[str, Mapping[str, Estimate | None]]


def to_page(
    shadowed: Shadowed,
    divergences: Mapping[tuple[str, int], Divergence],
    percentiles: Percentiles,
    *,
    today: date,
    top: int,
    commands: Sequence[str],
) -> str:
    """Give the page; the same bytes for the same log, register and day.

    ``divergences`` holds those of the first ``top`` queries at least, by writer and number;
    ``percentiles`` by arm and name, nanoseconds.
    """
    summary = shadowed.summary
    tracks = {name: track.points for name, track in summary.tracks.items()}
    times = {arm: summary.elapsed_ns(arm) for arm in ARMS}
    text = (
        environment()
        .get_template("shadow.html.j2")
        .render(
            style=Markup((TEMPLATES / "page.css").read_text(encoding="utf-8")),  # noqa: S704  ours
            title=words.title(shadowed),
            headline=words.headline(shadowed),
            tone=_tone(shadowed),
            standing=words.standing_counts(shadowed),
            span=words.span(summary),
            today=today.isoformat(),
            tally=words.tally(summary),
            estimates=words.estimates(summary),
            sequences=_markup(figures.sequences("sequences", tracks)),
            alarms=words.alarms(shadowed),
            classes=words.classes(summary, by_slice=True),
            percentiles=_percentiles(percentiles),
            curves=_markup(figures.curves("curves", times)),
            divergences=words.divergences(shadowed, LISTED, text=QUERY),
            sides=side_by_side(shadowed.judged.standing[:top], divergences),
            accepted=words.accepted(shadowed, today.isoformat()),
            troubles=troubles(summary),
            who=words.who(summary),
            commands=tuple(commands),
        )
    )
    return text.rstrip() + "\n"


def _tone(shadowed: Shadowed) -> str:
    """Red is for alarms: answers that differ may be as good, and wait for a person."""
    if shadowed.raised:
        return "hold"
    return "unsure" if shadowed.early or shadowed.judged.blocking else "promote"


def _percentiles(percentiles: Percentiles) -> Table:
    names = tuple(dict.fromkeys(name for row in percentiles.values() for name in row))

    rows = tuple(
        (Cell(arm), *(time_cell(row.get(name)) for name in names))
        for arm, row in percentiles.items()
    )
    return Table("Milliseconds per query, each arm on its own clock", ("arm", *names), rows)


def _markup(figure: str | None) -> Markup:
    return Markup(figure or "")  # noqa: S704  our own figure, its texts are escaped
