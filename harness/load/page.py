"""``load.html``: one load on one page, with its tables and figures."""

from collections.abc import Iterator
from statistics import median

from matplotlib.figure import Figure as Drawing

from harness.core.scores import Estimate
from harness.load.results import P99, LoadReport, RatePoint
from harness.load.trial import Histogram
from harness.report import html
from harness.report.doc import (
    Cell,
    CodeBlock,
    Figure,
    Items,
    Num,
    Section,
    TableBlock,
    Text,
    Value,
    measured,
    table,
)
from harness.report.page.figures import WIDTH
from harness.report.rounding import NS_PER_MS, milliseconds, minute, share, three_digits
from harness.report.svg import ARMS, MARKS, MUTED, PAPER, draw, key, logarithmic, note, quiet

DASHED, DOTTED = "--", ":"


def load_curve(name: str, report: LoadReport) -> str | None:
    """Draw p99 and p50 of each arm against the rate; None where no trial at a rate counts.

    A point is all rounds together, the line through it where they lie.
    """
    shown = [p for p in report.points if p.rate is not None and not p.twin and p.response.count]
    if not shown:
        return None

    def paint(figure: Drawing) -> None:
        axes = figure.add_axes((0.09, 0.15, 0.64, 0.79))
        quiet(axes, grid="y")
        logarithmic(axes, "y")
        for at, arm in enumerate(report.arms):
            of = [point for point in shown if point.arm == arm]
            colour, mark = ARMS[at % len(ARMS)], MARKS[at % len(MARKS)]
            rates = [point.rate or 0.0 for point in of]
            for percent, style, face in ((P99, "-", colour), (50.0, DASHED, PAPER)):
                for rate, point in zip(rates, of, strict=True):
                    rounds = [_ms(one.trial.response.percentile(percent)) for one in point.records]
                    if len(rounds) > 1:
                        ends = [min(rounds), max(rounds)]
                        axes.plot([rate, rate], ends, color=colour, linewidth=1)
                whole = [_ms(point.response.percentile(percent)) for point in of]
                axes.plot(rates, whole, f"{mark}{style}", markersize=4.5, color=colour,
                          linewidth=1.6, markerfacecolor=face)  # fmt: skip
            key(axes, at, arm)
        if report.budget_ns is not None:
            axes.axhline(report.budget_ns / NS_PER_MS, color=MUTED, linewidth=1, linestyle=DOTTED)
        note(axes, 0, "full: p99, hollow: p50")
        note(axes, 1, "bars: lowest to highest round")
        axes.set(xlabel="arrivals a second", xlim=(0, None), ylabel="milliseconds (log scale)")

    about = f"Response times of {', '.join(report.arms)} against the rate; numbers are in the table"
    return draw(name, about, (WIDTH, 3.4), paint)


def _ms(time_ns: float | None) -> float:
    return (time_ns or 0) / NS_PER_MS


FEW = "too few rounds"
CLOSED = "closed loop"


def tables(report: LoadReport) -> tuple[TableBlock, ...]:
    """Return all tables of a load; the page and the terminal show the same."""
    made = (response(report), cost(report), searched(report))
    return tuple(table for table in made if table.rows)


def name_of(point: RatePoint) -> str:
    """Name an arm, and say whether this is its second opening."""
    return f"{point.arm} (A/A)" if point.twin else point.arm


def at(rate: float | None) -> str:
    """Name a rate."""
    return CLOSED if rate is None else f"{rate:g} /s"


def response(report: LoadReport) -> TableBlock:
    """Show response times of each arm at each rate, and beside them what a closed loop sees."""
    return table(
        "Response time from the intended start",
        ("rate", "arm", "p50 ms", "p95 ms", "p99 ms", "max ms", "service p99 ms",
         "p99 / first arm's", "answers /s", "lost"),
        (_response(report, point) for point in _in_order(report)),
    )  # fmt: skip


def _in_order(report: LoadReport) -> Iterator[RatePoint]:
    """Yield the points by rate, the closed loop first."""
    for rate in (None, *report.rates):
        yield from (point for point in report.points if point.rate == rate)


def _response(report: LoadReport, point: RatePoint) -> tuple[Value | str, ...]:
    times, out = point.response, len(point.objections)
    every = out + len(point.records)
    why = f"{out} of {every} rounds do not count: {point.objections[0]}" if out else ""
    name = Cell(name_of(point), why)
    if not times.count:
        return (at(point.rate), name, *("not shown" for _ in range(8)))
    trials = [record.trial for record in point.records]
    arrivals = sum(trial.arrivals for trial in trials)
    return (
        at(point.rate), name, _time(times, 50.0, point.p50), _time(times, 95.0),
        _time(times, P99, point.p99), _time(times, 100.0), _time(point.service, P99),
        _ratio(report, point), three_digits(point.answered / sum(t.seconds for t in trials)),
        share(arrivals - point.answered, arrivals),
    )  # fmt: skip


def _time(of: Histogram, percent: float, rounds: Estimate | None = None) -> Value:
    low, high = (rounds.low, rounds.high) if rounds else (None, None)
    return Num(of.percentile(percent), "ns", low, high, bare=True)


def _ratio(report: LoadReport, point: RatePoint) -> Value:
    if point.arm == report.arms[0] and not point.twin:
        return Cell("1")
    if point.ratio is None:
        return Cell("no interval", FEW)
    return Num.of(point.ratio, more="too noisy to conclude" if report.noisy(point.rate) else "")


def cost(report: LoadReport) -> TableBlock:
    """Show processor time, memory and disk of each arm at its lowest and highest rate."""
    tried = {arm: [p for p in report.points if p.arm == arm and not p.twin and p.records]
             for arm in report.arms}  # fmt: skip
    return table(
        f"What it costs ({report.workers})",
        ("arm", "at", "processor ms an answer", "memory added, MiB", "resident MiB", "peak MiB",
         "index MiB", "generator late, p99 ms"),
        (
            _cost(report, point)
            for points in tried.values()
            for point in (points[:1] + points[-1:] if len(points) > 1 else points)
        ),
    )  # fmt: skip


def _cost(report: LoadReport, point: RatePoint) -> tuple[Value | str, ...]:
    trials = [record.trial for record in point.records]
    lag = max(trial.lag_ns for trial in trials)
    late = "no schedule" if point.rate is None else milliseconds(lag) if lag else "0"
    spent = sum(trial.cpu_ns for trial in trials) / max(point.answered, 1)
    memory = (
        max(sizes) for sizes in zip(
            *((t.opened_bytes, t.resident_bytes, t.peak_bytes) for t in trials), strict=True
        )
    )  # fmt: skip
    return (point.arm, at(point.rate), Num(spent, "ns", bare=True), *map(_mib, memory),
            _mib(report.index_bytes[point.arm]), late)  # fmt: skip


def _mib(size: int) -> str:
    return three_digits(size / (1 << 20))


def searched(report: LoadReport) -> TableBlock:
    """Show the highest rate of each arm that keeps the budget, by verdict."""
    budget = milliseconds(report.budget_ns) if report.budget_ns else ""
    return table(
        f"Highest rate with 99 of 100 answered within {budget} ms",
        ("arm", "queries a second", "trials", "verdict", "why"),
        (
            (arm, measured(found.estimate, "ratio", instead="none", bare=True), len(found.tried),
             found.verdict.value, found.reason)
            for arm, found in report.highest.items()
        ),
    )  # fmt: skip


def notes(report: LoadReport) -> tuple[str, ...]:
    """Describe what the tables stand on, a sentence each."""
    said = [f"At {rate:g} a second, {found.reason}." for rate, found in report.noise.items()]
    if any(map(report.noisy, report.noise)):
        said.append("Where the first arm differs from itself by more, nothing is concluded.")
    elif not report.noise:
        said.append("The first arm was not loaded twice at a rate, so nothing is concluded.")
    closed = [p for p in report.points if p.rate is None and not p.twin and p.response.count]
    for point in closed:
        p99 = milliseconds(point.response.percentile(P99))
        said.append(f"In a closed loop {point.arm} has a p99 of {p99} ms, without queueing delay.")
    busy = share(round(1000 * report.busy), 1000)
    said.append(f"{report.machine}, {busy} busy with other processes before the trials.")
    records = (record for point in report.points for record in point.records)
    if reference := [ns for record in records for ns in record.about.get("reference_ns", ())]:
        said.append(f"The reference work took {milliseconds(median(reference))} ms.")
    return tuple(said)


def document(report: LoadReport) -> Section:
    """Describe a load: what the tables stand on, the figure, every rate and what it costs."""
    about = ", ".join(f"{name}: {value}" for name, value in report.about.items())
    svg = load_curve("curve", report)
    drawn = Figure(svg, "Response time against the rate.") if svg else None
    nothing = Text("No trial at a rate counts, so there is nothing to draw.", "instead")
    said = f"{report.workers}; {about}. Loaded {minute(report.loaded_at)}."
    return Section(
        f"{report.dataset} under load",
        (
            Text(said, "about"),
            Items(notes(report)),
            drawn or nothing,
            *tables(report),
            Section("To reproduce it", (CodeBlock((report.command,)),)),
        ),
    )


def to_page(report: LoadReport) -> str:
    """Write the page; the same bytes for the same load."""
    return html.to_page(document(report))
