"""The history of decisions, and the page of its trends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Annotated, Any

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator
from pydantic import BaseModel, ConfigDict, Field

from harness.core.digest import of_json
from harness.core.errors import BadFile, EvidenceError
from harness.core.files import held, write_text
from harness.core.formats import Moment
from harness.core.gate import Outcome, Verdict
from harness.core.reading import Malformed, opened
from harness.core.scores import Estimate
from harness.core.store import Journal, JsonLines
from harness.policy.age import check_past
from harness.report.html import TEMPLATES, environment
from harness.report.rounding import interval
from harness.report.rounding import number as number_text
from harness.report.svg import ARMS, LINE, MARKS, MUTED, draw, label, quiet

FORMAT = 1
HINT = "Bring the file back (git), or take the line out"
Json = Mapping[str, Any]


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Interval(_Kept):
    """A number with its interval; an end that is not there is infinite."""

    value: float
    low: float | None
    high: float | None
    n: int


class PolicyKept(_Kept):
    """Which policy decided."""

    name: str
    version: str
    sha256: str


class StepKept(_Kept):
    """What was decided of one step."""

    step: str
    control: str
    candidate: str
    verdict: Verdict
    outcome: Outcome
    gates: dict[str, Verdict]
    ratios: dict[str, Interval]
    """Time of the candidate over that of the control: p50, p95 and mean; empty without a race."""


class Entry(_Kept):
    """One decision."""

    format: Annotated[int, Field(ge=FORMAT, le=FORMAT)] = FORMAT
    decision_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    decided_at: Moment
    dataset: str
    commit: str
    """Of the project, with a plus sign where files differed from it; empty without git."""
    code: str
    """Digest of the harness and the engines."""
    python: str
    packages: dict[str, str]
    data: dict[str, str]
    """Digests of corpus, queries and qrels."""
    policy: PolicyKept | None
    measure: str
    """What arms are compared by first."""
    steps: tuple[StepKept, ...]
    means: dict[str, dict[str, Interval]]
    """By arm and measure."""
    engines: dict[str, str] = {}
    """Fingerprint of each arm; what was kept by earlier versions has none."""
    settings: dict[str, str] = {}
    """Digest of what each stage was set to; as ``engines``."""


ENTRIES: Journal[Entry] = JsonLines("an entry of a history", Entry, remedy=HINT)


def entry_of(about: Json, *, decision_sha256: str, commit: str) -> Entry:
    """Keep what ``decision.json`` says of one data set."""
    of, latency = about["provenance"], about["latency"]
    ratios = latency["ratios"] if latency else {}
    return Entry(
        decision_sha256=decision_sha256,
        decided_at=of["decided_at"],
        dataset=about["dataset"],
        commit=commit,
        code=of["code_version"],
        python=of["python"],
        packages=of["packages"],
        data=of["sha256"],
        policy=PolicyKept(**about["policy"]) if about["policy"] else None,
        measure=about["quality"]["measure"],
        steps=tuple(
            StepKept(
                step=step["step"],
                control=step["control"],
                candidate=step["candidate"],
                verdict=step["verdict"],
                outcome=step["outcome"],
                gates={finding["gate"]: finding["verdict"] for finding in step["findings"]},
                ratios=_intervals(ratios.get(step["step"], {})),
            )
            for step in about["steps"]
        ),
        means={arm: _intervals(row) for arm, row in about["quality"]["means"].items()},
        engines={arm: one["fingerprint"] for arm, one in of["arms"].items()},
        settings={stage: of_json(how) for stage, how in of.get("settings", {}).items()},
    )


def _intervals(row: Mapping[str, Json | None]) -> dict[str, Interval]:
    return {name: Interval(**found) for name, found in row.items() if found is not None}


def read(path: Path) -> tuple[Entry, ...]:
    """Read a history, by time; one that is not there is empty.

    Raises:
        BadFile: a line is not an entry or is from the future, or a decision is repeated.
    """
    if not path.exists():
        return ()
    found: dict[str, Entry] = {}
    for number, _, entry in ENTRIES.lines(path):
        try:
            check_past(entry.decided_at)
        except EvidenceError as exc:
            raise BadFile(path, str(exc), HINT, number) from exc
        if entry.decision_sha256 in found:
            raise BadFile(path, "this decision is there already", HINT, number)
        found[entry.decision_sha256] = entry
    return tuple(sorted(found.values(), key=lambda entry: entry.decided_at))


def add(path: Path, entry: Entry) -> bool:
    """Add an entry, and tell whether it was new; it is on the disk then.

    Raises:
        BadFile: as ``read``.
    """
    with held(path):
        known = read(path)
        if any(entry.decision_sha256 == one.decision_sha256 for one in known):
            return False
        entries: Sequence[Entry] = sorted((*known, entry), key=lambda one: one.decided_at)
        write_text(path, ENTRIES.text(entries), durable=True)
        return True


def changed(before: Entry, after: Entry) -> tuple[str, ...]:
    """Say what differs between two decisions beside their numbers, in words."""
    found = [f"the engine {arm}" for arm in _other(before.engines, after.engines)]
    for key, what in (("corpus", "documents"), ("queries", "queries"), ("qrels", "judgements")):
        if before.data[key] != after.data[key]:
            found.append(f"other {what}")
    if before.policy != after.policy:
        names = [one.policy.name if one.policy else "none" for one in (before, after)]
        found.append("the policy's text" if names[0] == names[1] else f"policy {names[1]}")
    for name in sorted({*before.packages, *after.packages}):
        old, new = before.packages.get(name, "absent"), after.packages.get(name, "absent")
        if old != new:
            found.append(f"{name} {old} → {new}")
    if before.python != after.python:
        found.append(f"Python {before.python} → {after.python}")
    if before.code != after.code:
        found.append("the code")
    found += [f"the settings of {stage}" for stage in _other(before.settings, after.settings)]
    for word, arms in (
        ("new arm", after.means.keys() - before.means.keys()),
        ("gone arm", before.means.keys() - after.means.keys()),
    ):
        found += [f"{word} {arm}" for arm in sorted(arms)]
    return tuple(found)


def _other(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Name what both have and hold to be another."""
    return [name for name in sorted(before.keys() & after.keys()) if before[name] != after[name]]


def comparable(before: Entry, after: Entry) -> bool:
    """Tell whether measures of the two are of the same documents, queries and judgements."""
    return before.data == after.data


WIDTH, HEIGHT = 7.6, 3.2
TICKS = 8
"""Most dates written below."""
SPREAD = 0.4
"""Share of the way to the next decision over which the lines lie beside each other."""
Points = Mapping[int, Interval]
"""Interval by number of the decision; a decision that has none is left out."""


def measures(name: str, entries: Sequence[Entry]) -> str:
    """Draw the mean of the first measure of each arm with its interval."""
    measure = entries[-1].measure
    arms = dict.fromkeys(arm for entry in entries for arm in entry.means)
    lines = {
        arm: {
            at: entry.means[arm][measure]
            for at, entry in enumerate(entries)
            if measure in entry.means.get(arm, {})
        }
        for arm in arms
    }
    about = f"Mean {measure} of {len(arms)} arms at {len(entries)} decisions"
    return draw(name, about, (WIDTH, HEIGHT), partial(_paint, entries, lines, measure, ratio=False))


def ratios(name: str, entries: Sequence[Entry], percent: str) -> str:
    """Draw candidate over control of each step's times; the line at 1 is as fast as the control.

    Empty where no decision has such a ratio.
    """
    steps = dict.fromkeys(step.step for entry in entries for step in entry.steps)
    lines = {
        name_of: {
            at: step.ratios[percent]
            for at, entry in enumerate(entries)
            for step in entry.steps
            if step.step == name_of and percent in step.ratios
        }
        for name_of in steps
    }
    kept = {step: points for step, points in lines.items() if points}
    if not kept:
        return ""
    about = f"Ratio of {percent} times, candidate over control, of {len(kept)} steps"
    what = f"{percent} time, candidate / control"
    return draw(name, about, (WIDTH, HEIGHT), partial(_paint, entries, kept, what, ratio=True))


def _paint(
    entries: Sequence[Entry], lines: Mapping[str, Points], what: str, figure: Figure, *, ratio: bool
) -> None:
    axes = figure.subplots()
    figure.subplots_adjust(left=0.09, right=0.77, top=0.95, bottom=0.14)
    quiet(axes, grid="y")
    for at, (named, points) in enumerate(lines.items()):
        aside = SPREAD * (at + 0.5 - len(lines) / 2) / len(lines)
        _line(axes, entries, points, named=label(named), number=at, aside=aside)
    if ratio:
        axes.set_yscale("log")
        axes.axhline(1, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_locator(NullLocator())
    for at, (before, after) in enumerate(pairwise(entries), start=1):
        if not comparable(before, after):
            axes.axvline(at - 0.5, color=LINE, linewidth=1.2)
    step = max(1, -(-len(entries) // TICKS))
    ticks = list(range(len(entries) - 1, -1, -step))[::-1]
    axes.set_xticks(ticks, [entries[at].decided_at.strftime("%d %b %Y") for at in ticks])
    axes.set_xlim(-0.5, len(entries) - 0.5)
    axes.set_ylabel(what)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))


def _line(
    axes: Axes, entries: Sequence[Entry], points: Points, *, named: str, number: int, aside: float
) -> None:
    """Draw one line, broken where the data became others or a decision has no value.

    It lies ``aside`` of its dates, so that intervals do not hide each other.
    """
    colour, mark = ARMS[number % len(ARMS)], MARKS[number % len(MARKS)]
    for first, run in enumerate(_runs(entries, points)):
        low = [one.value if one.low is None else one.low for one in map(points.__getitem__, run)]
        high = [one.value if one.high is None else one.high for one in map(points.__getitem__, run)]
        values = [points[at].value for at in run]
        beside = [at + aside for at in run]
        shown = "_" if first else named
        axes.plot(beside, values, mark, linestyle="-", color=colour, linewidth=1.6, markersize=4.5,
                  label=shown)  # fmt: skip
        axes.vlines(beside, low, high, color=colour, linewidth=1.2, alpha=0.7)


def _runs(entries: Sequence[Entry], points: Points) -> list[list[int]]:
    """Split the decisions where two that follow one another cannot be compared."""
    found: list[list[int]] = []
    for at in points:
        joined = found and found[-1][-1] == at - 1 and comparable(entries[at - 1], entries[at])
        if joined:
            found[-1].append(at)
        else:
            found.append([at])
    return found


COLUMNS = 8
"""Most decisions side by side: the latest ones, the very latest first."""
PREFIX = 12
GENERATOR = '<meta name="generator" content="harness history page">'
HEAD = 2_000
"""Bytes within which a page names what made it."""


@dataclass(frozen=True, slots=True)
class Said:
    """What one decision said of a step."""

    word: str
    tone: str
    against: tuple[str, ...]
    """Gates that do not pass."""


@dataclass(frozen=True, slots=True)
class Row:
    """One decision, and what was other than at the one before."""

    at: str
    decision: str
    commit: str
    changed: tuple[str, ...]
    comparable: bool


@dataclass(frozen=True, slots=True)
class Latest:
    """An arm now and at the decision before."""

    arm: str
    before: str
    now: str
    ends: str


@dataclass(frozen=True, slots=True)
class TrendView:
    """What the page shows of one data set."""

    dataset: str
    measure: str
    count: int
    headline: str
    """Where each step of the latest decision stands; empty without steps."""
    latest: tuple[Latest, ...]
    quality: Markup
    times: Markup
    columns: tuple[str, ...]
    steps: Mapping[str, tuple[Said | None, ...]]
    rows: tuple[Row, ...]
    """The latest first."""


def is_page(file: Path) -> bool:
    """Tell whether a file is such a page, so that a new one may take its place."""
    try:
        with opened(file) as found:
            return GENERATOR.encode() in found.read(HEAD)
    except (OSError, Malformed):
        return False


def view(name: str, entries: Sequence[Entry]) -> TrendView:
    """Put together what is shown; ``name`` is unique on the page.

    Raises:
        EvidenceError: the history is empty.
    """
    if not entries:
        raise EvidenceError("the history is empty. Run: harness history add")
    shown = entries[: -COLUMNS - 1 : -1]
    names = dict.fromkeys(step.step for entry in shown for step in entry.steps)
    firsts = [Row(_day(entries[0]), _short(entries[0]), entries[0].commit, (), comparable=True)]
    later = [
        Row(_day(b), _short(b), b.commit, changed(a, b), comparable(a, b))
        for a, b in pairwise(entries)
    ]
    return TrendView(
        dataset=entries[-1].dataset,
        measure=entries[-1].measure,
        count=len(entries),
        headline=headline(entries),
        latest=_latest(entries),
        quality=Markup(measures(f"{name}-quality", entries)),  # noqa: S704  drawn by us
        times=Markup(ratios(f"{name}-times", entries, "p95")),  # noqa: S704  drawn by us
        columns=tuple(_day(entry) for entry in shown),
        steps={step: tuple(_said(entry, step) for entry in shown) for step in names},
        rows=tuple(reversed([*firsts, *later])),
    )


def headline(entries: Sequence[Entry]) -> str:
    """Say where each step of the latest decision stands, and since when."""
    return "; ".join(f"{step.step}: {_since(entries, step)}" for step in entries[-1].steps)


def _since(entries: Sequence[Entry], step: StepKept) -> str:
    now = _said(entries[-1], step.step)
    alike = list(takewhile(lambda one: _same(_said(one, step.step), now), reversed(entries)))
    unsure = " (inconclusive)" if now and now.tone == "unsure" else ""
    since = f" since {_day(alike[-1])}" if len(alike) > 1 else ""
    return f"{step.outcome.upper()}{unsure}{since}"


def _same(a: Said | None, b: Said | None) -> bool:
    return (a and (a.word, a.tone)) == (b and (b.word, b.tone))


def to_page(histories: Mapping[str, Sequence[Entry]]) -> str:
    """Give the page; the same bytes for the same histories.

    Raises:
        EvidenceError: a history is missing or empty.
    """
    if not histories:
        raise EvidenceError("the history is missing. Run: harness history add")
    style = "".join(
        (TEMPLATES / name).read_text(encoding="utf-8") for name in ("page.css", "trends.css")
    )
    views = [view(f"t{at}", histories[name]) for at, name in enumerate(sorted(histories))]
    text = (
        environment()
        .get_template("trends.html.j2")
        .render(
            style=Markup(style),  # noqa: S704  our own files
            views=views,
        )
    )
    return text.rstrip() + "\n"


def _latest(entries: Sequence[Entry]) -> tuple[Latest, ...]:
    """Give each arm's mean now, best first, and before, where the two may be compared."""
    last = entries[-1]
    before = entries[-2] if len(entries) > 1 and comparable(entries[-2], last) else None
    found = []
    for arm, row in last.means.items():
        if last.measure in row:
            now = row[last.measure]
            was = before.means.get(arm, {}).get(last.measure) if before else None
            said = number_text(was.value) if was else ("not comparable" if entries[1:] else "none")
            found.append((now.value, Latest(arm, said, number_text(now.value), _ends(now))))
    return tuple(one for _, one in sorted(found, key=lambda pair: -pair[0]))


def _ends(found: Interval) -> str:
    low = -float("inf") if found.low is None else found.low
    high = float("inf") if found.high is None else found.high
    return interval(Estimate(found.value, low, high, found.n))


def _said(entry: Entry, name: str) -> Said | None:
    step = next((one for one in entry.steps if one.step == name), None)
    if step is None:
        return None
    return Said(step.outcome.upper(), _tone(step), _against(step))


def _tone(step: StepKept) -> str:
    unsure = step.verdict is Verdict.INCONCLUSIVE
    waits = step.verdict is Verdict.PASS and step.outcome.value == "hold"
    return "waits" if waits else "unsure" if unsure else step.outcome.value


def _against(step: StepKept) -> tuple[str, ...]:
    return tuple(
        f"{verdict.upper()}: {gate}"
        for gate, verdict in step.gates.items()
        if verdict is not Verdict.PASS
    )


def _day(entry: Entry) -> str:
    return entry.decided_at.strftime("%Y-%m-%d %H:%M")


def _short(entry: Entry) -> str:
    return entry.decision_sha256[:PREFIX]
