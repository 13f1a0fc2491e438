"""The page of trends: one file that loads nothing, from the histories of several data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path

from markupsafe import Markup

from harness.core.errors import EvidenceError
from harness.core.gate import Verdict
from harness.core.reading import Malformed, opened
from harness.core.scores import Estimate
from harness.report.html import TEMPLATES, environment
from harness.report.rounding import interval, number
from harness.report.trends.figures import measures, ratios
from harness.report.trends.history import Entry, Interval, StepKept, changed, comparable

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
            said = number(was.value) if was else ("not comparable" if entries[1:] else "none")
            found.append((now.value, Latest(arm, said, number(now.value), _ends(now))))
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
