"""The page of a shadow log: figures, and divergences side by side."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import FuncFormatter, MaxNLocator

from harness.core.printable import counted, one_line
from harness.core.run import Status
from harness.core.scores import Estimate
from harness.report import doc
from harness.report.page.figures import WIDTH
from harness.report.page.tables import DEPTH, TITLE, move
from harness.report.page.tables import QUERY as PAGE_QUERY
from harness.report.rounding import milliseconds, number, watched
from harness.report.svg import ARMS, INK, MUTED, draw, logarithmic, quiet
from harness.shadow import words
from harness.shadow.divergences import Trace
from harness.shadow.record import Divergence, LoggedAnswer
from harness.shadow.summary import LogState, TrackPoint

SIZE = WIDTH, 4.6
"""Inches of the picture of the sequences."""
TITLES = {
    "overlap": "overlap (mean Jaccard)",
    "failures": "failures of the candidate",
    "slow": "slow pairs",
    "ratio": "median time ratio",
}
RATIO = "ratio"
OPEN_END = 4
"""An axis whose upper end is unbounded reaches so many times as far as the value."""
ROOM = 0.01
"""Height of an axis on which nothing moves."""
Tracks = Mapping[str, Sequence[TrackPoint]]


def drawn(tracks: Tracks) -> Tracks:
    """Return the sequences that are drawn and have a point; noise is in the table alone."""
    return {what: points for what in TITLES if (points := tracks.get(what, ()))}


def say(shown: Tracks) -> str:
    """Describe what ``paint`` draws."""
    said = "; ".join(
        f"{TITLES[what]} {number(points[-1].estimate.value)} {watched(points[-1].estimate)}"
        for what, points in shown.items()
    )
    return f"Confidence sequences, as they stand: {said}"


def paint(shown: Tracks, figure: Drawing) -> None:
    """Paint each estimate and its confidence sequence over the pairs seen, a panel each."""
    panels = figure.subplots(2, 2, squeeze=True).ravel()
    for axes, (what, points) in zip(panels, shown.items(), strict=False):
        _panel(axes, what, points)
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    figure.subplots_adjust(0.07, 0.10, 0.98, 0.93, wspace=0.18, hspace=0.5)


def _panel(axes: Axes, what: str, points: Sequence[TrackPoint]) -> None:
    quiet(axes, grid="y")
    pairs = [point.estimate.n for point in points]
    values = [point.estimate.value for point in points]
    floor, ceiling = _range(points)
    floor = max(floor, ceiling / 1e3) if what == RATIO else floor
    low = [max(point.estimate.low, floor) for point in points]
    high = [min(point.estimate.high, ceiling) for point in points]
    axes.fill_between(pairs, low, high, color=ARMS[0], alpha=0.22, linewidth=0)
    axes.plot(pairs, low, color=ARMS[0], linewidth=0.8)
    axes.plot(pairs, high, color=ARMS[0], linewidth=0.8)
    axes.plot(pairs, values, color=INK, linewidth=1.5)
    if what == RATIO:
        logarithmic(axes, "y")
        axes.axhline(1, color=MUTED, linewidth=0.8, linestyle=(0, (3, 2)))
    else:
        axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set(xlim=(0, max(pairs)), ylim=(floor, ceiling), title=TITLES[what], xlabel="pairs")


def _range(points: Sequence[TrackPoint]) -> tuple[float, float]:
    later = [point.estimate for point in points[len(points) // 4 :]]
    low = min(min(one.low, one.value) for one in later)
    ends = [max(one.high, one.value) for one in later if math.isfinite(one.high)]
    high = max(ends, default=OPEN_END * max(one.value for one in later))
    return low, high if high > low else low + ROOM


@dataclass(frozen=True, slots=True)
class Both:
    """One query that diverged in one class, with both rankings where the log has them."""

    trace: Trace
    divergence: Divergence | None

    @property
    def about(self) -> str:
        """How often it came, and with what."""
        trace = self.trace
        about = [counted(trace.times, "time")]
        if trace.jaccard is not None:
            about.append(f"lowest Jaccard {number(trace.jaccard)}")
        about += [*trace.slices, trace.query]
        if self.divergence:
            about += [f"{k} = {value}" for k, value in sorted(self.divergence.params.items())]
        return " · ".join(about)

    @property
    def text(self) -> str:
        """The class, and what was typed."""
        return f"{self.trace.outcome}: {words.what_was_typed(self.trace, PAGE_QUERY)}"

    def shown(self) -> doc.Section:
        """Show both answers under the text."""
        rankings: list[doc.Block] = [doc.Text("The log does not hold this divergence.", "instead")]
        if one := self.divergence:
            both = one.control, one.candidate
            rankings = [_ranking("control", *both), _ranking("candidate", *both[::-1])]
        meta = doc.Text(f"{self.trace.register} · {self.about}", "meta")
        return doc.Section(self.text, (meta, *rankings), kind="moved", fold="closed")


def side_by_side(
    shown: Sequence[Trace], divergences: Mapping[tuple[str, int], Divergence]
) -> tuple[Both, ...]:
    """Join traces with their divergences, by writer and number."""
    return tuple(Both(trace, divergences.get((trace.writer, trace.number))) for trace in shown)


def _ranking(arm: str, side: LoggedAnswer, other: LoggedAnswer) -> doc.Block:
    took = "time unknown" if side.elapsed_ns is None else f"{milliseconds(side.elapsed_ns)} ms"
    parts = [took, counted(len(side.hits), "hit"), one_line(side.note, PAGE_QUERY)]
    about = " · ".join(filter(None, parts))
    if not side.hits:
        instead = {
            Status.ANSWERED: "found nothing",
            Status.FAILED: f"failed: {side.error or 'no reason given'}",
            Status.TIMED_OUT: f"was given up: {side.error or 'too slow'}",
        }.get(side.status, "was not asked")
        return doc.Text(f"{arm}: {one_line(instead, PAGE_QUERY)} ({about})", "instead")
    ranks = {hit.doc_id: at for at, hit in reversed([*enumerate(other.hits, start=1)])}
    rows = [
        (str(rank), one_line(hit.doc_id, TITLE),
         move(rank, ranks.get(hit.doc_id), candidate=arm == "candidate"), number(hit.score))
        for rank, hit in enumerate(side.hits[:DEPTH], start=1)
    ]  # fmt: skip
    return doc.table(f"{arm}: {about}", ("rank", "document", "move", "score"), rows)


QUERY = 200
LISTED = 100
"""Queries in the table; all are in the JSON."""
Percentiles = Mapping[str, Mapping[str, Estimate | None]]
ALARMS = (
    "None of them needs a judgement. An alarm on a share is raised when its whole confidence"
    " sequence lies beyond the bound. An alarm on change is raised when a window differs from the"
    " first by more than the bound, and significantly."
)
BAND = (
    "The line: the mean, or the median, so far. The band: where it lies, over all times together"
    " with the confidence of the table above. Each panel shows what the later three quarters need."
)
CLOCKS = (
    "Pairs in which both arms were timed, each on its own clock; the control was timed as it"
    " served, the candidate beside it. A candidate that was given up counts with the time after"
    " which it was. Intervals are for one look."
)
WORST = (
    "Open divergences come first, the severest at the top: lost answers, and lists that share"
    " nothing. Failures come last; their share is bounded by itself."
)


def document(
    shadowed: LogState,
    sides: Sequence[Both],
    percentiles: Percentiles,
    today: date,
    commands: Sequence[str],
) -> doc.Section:
    """Describe the state of a log, the answer first."""
    summary = shadowed.summary
    tracks = drawn({name: one.points for name, one in summary.tracks.items()})
    band: doc.Block = doc.Text("Nothing was compared yet.", "instead")
    if tracks and (svg := draw("sequences", say(tracks), SIZE, partial(paint, tracks))):
        band = doc.Figure(svg, BAND)
    names = tuple(dict.fromkeys(name for row in percentiles.values() for name in row))
    times = doc.table(
        "Milliseconds per query, each arm on its own clock",
        ("arm", *names),
        [
            (arm, *(doc.time_cell(row.get(name)) for name in names))
            for arm, row in percentiles.items()
        ],
    )
    accepted, wrong = words.accepted(shadowed, today.isoformat()), words.troubles(summary)
    shown = tuple(one.shown() for one in sides)
    typed = doc.Section("To reproduce it", (doc.CodeBlock(tuple(commands)),))
    parts: Sequence[tuple[str, str, Sequence[doc.Block]]] = (
        ("Alarms", "alarms", (doc.Text(ALARMS, "lead"), words.alarms(shadowed))),
        ("Over time", "sequences", (band,)),
        ("Classes", "classes", (words.classes(summary, by_slice=True),)),
        ("Latency", "latency", (doc.Text(CLOCKS, "lead"), times)),
        ("Divergences", "divergences", (
            doc.Text(WORST, "lead"), words.divergences(shadowed, LISTED, text=QUERY),
            *([doc.Section("Side by side", shown)] if shown else []))),
        ("Register", "register", (
            doc.Text(words.standing_counts(shadowed), "lead"),
            accepted if accepted.rows else doc.Text("Nothing is accepted."))),
        ("The rest", "rest", (
            *((wrong,) if wrong.rows else ()), words.who(summary),
            *((typed,) if commands else ()))),
    )  # fmt: skip
    return doc.Section(
        words.title(shadowed),
        (
            doc.Text(words.headline(shadowed), "headline"),
            doc.Text(f"{words.span(summary)}. The register as of {today.isoformat()}.", "about"),
            words.tally(summary),
            words.estimates(summary),
            *(doc.Section(title, tuple(blocks), anchor) for title, anchor, blocks in parts),
        ),
    )
