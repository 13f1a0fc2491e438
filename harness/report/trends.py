"""The history of decisions, and the page of its trends."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from harness.core.digest import of_json
from harness.core.errors import BadFile, EvidenceError
from harness.core.files import held, write_text
from harness.core.formats import Moment
from harness.core.gate import Outcome, Verdict
from harness.core.names import KeptModel
from harness.core.scores import Estimate
from harness.core.store import Journal, JsonLines
from harness.policy.validity import check_past
from harness.report import doc, html
from harness.report.decision import IntervalPart, Intervals
from harness.report.inputs import PolicyPart
from harness.report.page.cards import listed
from harness.report.rounding import interval, number, signed
from harness.report.svg import ARMS, LINE, MARKS, draw, label, quiet

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

FORMAT = 1
HINT = "Bring the file back (git), or take the line out"
Json = Mapping[str, Any]


class StepKept(KeptModel):
    """What was decided of one step."""

    step: str
    control: str
    candidate: str
    verdict: Verdict
    outcome: Outcome
    gates: dict[str, Verdict]
    ratios: Intervals
    """Time of the candidate over that of the control: p50, p95 and mean; empty without a race."""
    gain: IntervalPart | None = None
    """Candidate - control in the first measure; earlier files have none."""

    @property
    def tone(self) -> str:
        """How it looks: as its outcome, but for a step that is open or waits."""
        if self.verdict is Verdict.INCONCLUSIVE:
            return "unsure"
        waits = self.verdict is Verdict.PASS and self.outcome is Outcome.HOLD
        return "waits" if waits else self.outcome.value

    @property
    def p95(self) -> doc.Num | None:
        """How its 95th percentiles of a race stand to each other; None without a race."""
        found = self.ratios["p95"].estimate if "p95" in self.ratios else None
        return doc.Num.of(found, "ratio") if found else None

    @property
    def word(self) -> str:
        """Its outcome, and why the step is not decided."""
        beside = {"unsure": " (inconclusive)", "waits": " (waits)"}
        return self.outcome.upper() + beside.get(self.tone, "")


class TrendEntry(KeptModel):
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
    policy: PolicyPart | None
    measure: str
    """What arms are compared by first."""
    steps: tuple[StepKept, ...]
    means: dict[str, Intervals]
    """By arm and measure."""
    engines: dict[str, str]
    """Fingerprint of each arm."""
    settings: dict[str, str]
    """Digest of what each stage was set to."""

    def mean(self, arm: str, measure: str) -> Estimate | None:
        """Return an arm's mean; None where it has none."""
        found = self.means.get(arm, {}).get(measure)
        return found.estimate if found else None

    @property
    def day(self) -> str:
        """When it was decided."""
        return self.decided_at.strftime("%Y-%m-%d %H:%M")

    def step(self, name: str) -> StepKept | None:
        """Return what was decided of a step; None where nothing was."""
        return next((step for step in self.steps if step.step == name), None)


KEPT = ("step", "control", "candidate", "verdict", "outcome")
ENTRIES: Journal[TrendEntry] = JsonLines("an entry of a history", TrendEntry, remedy=HINT)


def entry_of(about: Json, *, decision_sha256: str, commit: str) -> TrendEntry:
    """Keep what ``decision.json`` says of one data set."""
    of, latency, measure = about["provenance"], about["latency"], about["quality"]["measure"]
    ratios = latency["ratios"] if latency else {}
    gains = {one["name"]: one["differences"].get(measure) for one in about["comparisons"]}
    return TrendEntry.model_validate({
        "decision_sha256": decision_sha256,
        "decided_at": of["decided_at"],
        "dataset": about["dataset"],
        "commit": commit,
        "code": of["code_version"],
        "python": of["python"],
        "packages": of["packages"],
        "data": of["sha256"],
        "policy": about["policy"],
        "measure": measure,
        "steps": [
            {
                **{name: step[name] for name in KEPT},
                "gates": {finding["gate"]: finding["verdict"] for finding in step["findings"]},
                "ratios": ratios.get(step["step"], {}),
                "gain": gains.get(step["step"]),
            }
            for step in about["steps"]
        ],
        "means": about["quality"]["means"],
        "engines": {arm: one["fingerprint"] for arm, one in of["arms"].items()},
        "settings": {stage: of_json(how) for stage, how in of["settings"].items()},
    })


def read(path: Path) -> tuple[TrendEntry, ...]:
    """Read a history, by time; one that is not there is empty."""
    if not path.exists():
        return ()
    found: dict[str, TrendEntry] = {}
    for line, _, entry in ENTRIES.lines(path):
        try:
            check_past(entry.decided_at)
        except EvidenceError as exc:
            raise BadFile(path, str(exc), HINT, line) from exc
        if entry.decision_sha256 in found:
            raise BadFile(path, "this decision already exists", HINT, line)
        found[entry.decision_sha256] = entry
    return tuple(sorted(found.values(), key=lambda entry: entry.decided_at))


def add(path: Path, entry: TrendEntry) -> bool:
    """Add an entry, and tell whether it was new; it is on the disk then."""
    with held(path):
        known = read(path)
        if any(entry.decision_sha256 == one.decision_sha256 for one in known):
            return False
        entries: Sequence[TrendEntry] = sorted((*known, entry), key=lambda one: one.decided_at)
        write_text(path, ENTRIES.text(entries), durable=True)
        return True


def changed(before: TrendEntry, after: TrendEntry) -> tuple[str, ...]:
    """Describe what differs between two decisions beside their numbers, in words."""
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


def comparable(before: TrendEntry, after: TrendEntry) -> bool:
    """Return whether measures of the two are of the same documents, queries and judgements."""
    return before.data == after.data


WIDTH, HEIGHT = 7.6, 3.2
Points = Mapping[int, Estimate]
"""Estimate by number of the decision; a decision that has none is left out."""


def measures(name: str, entries: Sequence[TrendEntry]) -> str:
    """Draw the mean of the first measure of each arm with its interval."""
    arms, what = dict.fromkeys(arm for entry in entries for arm in entry.means), entries[-1].measure
    lines = {
        arm: {at: found for at, entry in enumerate(entries) if (found := entry.mean(arm, what))}
        for arm in arms
    }
    about = f"Mean {what} of {len(lines)} arms at {len(entries)} decisions"
    return draw(name, about, (WIDTH, HEIGHT), partial(_paint, entries, lines, what))


def _paint(
    entries: Sequence[TrendEntry],
    lines: Mapping[str, Points],
    what: str,
    figure: Drawing,
) -> None:
    axes = figure.subplots()
    figure.subplots_adjust(left=0.09, right=0.77, top=0.95, bottom=0.14)
    quiet(axes, grid="y")
    for nth, (named, points) in enumerate(lines.items()):
        aside = 0.4 * (nth + 0.5 - len(lines) / 2) / len(lines)  # lines lie beside each other
        colour, mark = ARMS[nth % len(ARMS)], MARKS[nth % len(MARKS)]
        for first, run in enumerate(_runs(entries, points)):
            found = [points[at] for at in run]
            low = [one.low if math.isfinite(one.low) else one.value for one in found]
            high = [one.high if math.isfinite(one.high) else one.value for one in found]
            beside = [at + aside for at in run]
            axes.plot(
                beside, [one.value for one in found], mark, linestyle="-", color=colour,
                linewidth=1.6, markersize=4.5, label="_" if first else label(named),
            )  # fmt: skip
            axes.vlines(beside, low, high, color=colour, linewidth=1.2, alpha=0.7)
    for at, (before, after) in enumerate(pairwise(entries), start=1):
        if not comparable(before, after):
            axes.axvline(at - 0.5, color=LINE, linewidth=1.2)
    step = max(1, -(-len(entries) // 8))  # at most eight dates are written below
    ticks = list(range(len(entries) - 1, -1, -step))[::-1]
    axes.set_xticks(ticks, [entries[at].decided_at.strftime("%d %b %Y") for at in ticks])
    axes.set_xlim(-0.5, len(entries) - 0.5)
    axes.set_ylabel(what)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))


def _runs(entries: Sequence[TrendEntry], points: Points) -> list[list[int]]:
    """Split the decisions where two that follow one another cannot be compared."""
    found: list[list[int]] = []
    for at in points:
        joined = found and found[-1][-1] == at - 1 and comparable(entries[at - 1], entries[at])
        if joined:
            found[-1].append(at)
        else:
            found.append([at])
    return found


PREFIX = 12


def headline(entries: Sequence[TrendEntry]) -> str:
    """Return where each step of the latest decision stands, and since when."""
    return "; ".join(f"{one.step}: {one.word}{_since(entries, one)}" for one in entries[-1].steps)


def _since(entries: Sequence[TrendEntry], step: StepKept) -> str:
    def stood(entry: TrendEntry) -> bool:
        then = entry.step(step.step)
        return then is not None and (then.outcome, then.tone) == (step.outcome, step.tone)

    alike = list(takewhile(stood, reversed(entries)))
    return f" since {alike[-1].day}" if len(alike) > 1 else ""


def to_page(histories: Mapping[str, Sequence[TrendEntry]]) -> str:
    """Write the page; the same bytes for the same histories."""
    return html.to_page(document(histories))


def document(histories: Mapping[str, Sequence[TrendEntry]]) -> doc.Section:
    """Describe what was decided over time, the latest first."""
    if not histories or not all(histories.values()):
        what = "is missing" if not histories else "is empty"
        raise EvidenceError(f"the history {what}. Run: harness history add")
    parts = (
        doc.Section(histories[name][-1].dataset, tuple(_history(f"t{at}", histories[name])),
                f"t{at}", "dataset")
        for at, name in enumerate(sorted(histories))
    )  # fmt: skip
    return doc.Section("Decisions and measures over time", tuple(parts))


def _history(name: str, entries: Sequence[TrendEntry]) -> Iterator[doc.Block]:
    last, several = entries[-1], len(entries) > 1
    if said := headline(entries):
        yield doc.Text(said, "headline")
    first = f"from {entries[0].day} to {last.day}"
    alone = (
        "so there is nothing to compare it with yet. Run after the next one: harness history add"
    )
    yield doc.Text(
        f"{len(entries)} decisions, {first}." if several else f"1 decision, {alone}", "about"
    )
    if last.steps:
        yield doc.Cards(tuple(_card(entries, step) for step in last.steps))
    yield _latest(entries)
    if several:
        yield doc.Figure(
            measures(f"{name}-quality", entries),
            "Means with the intervals of each decision. A line breaks, and a rule stands, where"
            " documents, queries or judgements changed: its two sides cannot be compared.",
        )
    yield _decisions(entries)


def _card(entries: Sequence[TrendEntry], step: StepKept) -> doc.Card:
    """Show where a step stands, its gain and time, and what stands in its way now."""
    last = entries[-1]
    control, candidate = (last.mean(arm, last.measure) for arm in (step.control, step.candidate))
    blocks: list[doc.Block] = [doc.Text(f"{step.control} → {step.candidate}", "arms")]
    if control and candidate:
        found = step.gain.estimate if step.gain else None
        more = f": {signed(found.value)} {interval(found)}" if found else ""
        both = f"{number(control.value)} → {number(candidate.value)}"
        blocks.append(doc.Text(f"{last.measure} {both}{more}", "measured"))
    if step.p95:
        blocks.append(doc.Text(f"p95 {step.p95.text} {step.p95.note}", "measured"))
    before = entries[-2].step(step.step) if len(entries) > 1 else None
    old = before.gates if before else {}
    moved = tuple(
        f"{gate}: {old[gate]} → {now}"
        for gate, now in step.gates.items()
        if gate in old and old[gate] is not now
    )
    blocks.append(doc.Items(moved, "Other than at the decision before"))
    against = tuple(
        f"{verdict}: {listed(gates)}"
        for verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE)
        if (gates := [gate for gate, found in step.gates.items() if found is verdict])
    )
    blocks.append(doc.Items(against, "In its way", "remains"))
    return doc.Card(step.step, step.word + _since(entries, step), tuple(blocks), step.tone)


def _latest(entries: Sequence[TrendEntry]) -> doc.TableBlock:
    """Show each arm's mean now, best first, and before, where the two may be compared."""
    last = entries[-1]
    before = entries[-2] if len(entries) > 1 and comparable(entries[-2], last) else None
    none = doc.Cell("not comparable" if entries[1:] else "none")
    found = []
    for arm in last.means:
        if now := last.mean(arm, last.measure):
            was = before.mean(arm, last.measure) if before else None
            found.append((now.value, (arm, doc.Num.of(now), doc.Num(was.value) if was else none)))
    rows = (cells for _, cells in sorted(found, key=lambda pair: -pair[0]))
    return doc.table(f"{last.measure} of every arm", ("arm", "latest", "before"), rows)


def _decisions(entries: Sequence[TrendEntry]) -> doc.TableBlock:
    """Show each decision, the latest first: outcome of each step, and what changed before it."""
    names = tuple(dict.fromkeys(step.step for entry in reversed(entries) for step in entry.steps))
    said = ["the first"]
    for before, after in pairwise(entries):
        cut = "" if comparable(before, after) else "not comparable with the one before: "
        said.append(cut + (", ".join(changed(before, after)) or "nothing"))

    def cell(step: StepKept | None) -> doc.Cell:
        if step is None:
            return doc.Cell("not there", tone="quiet")
        found = Counter(step.gates.values())
        said = [f"{found[one]} {one}" for one in Verdict if one is not Verdict.PASS and found[one]]
        said += [f"p95 {step.p95.text}"] if step.p95 else []
        return doc.Cell(step.word, ", ".join(said), step.tone)

    rows = tuple(
        (
            doc.Cell(one.day, one.decision_sha256[:PREFIX]),
            *(cell(one.step(name)) for name in names),
            doc.Cell(one.commit or "none"),
            doc.Cell(what),
        )
        for one, what in reversed([*zip(entries, said, strict=True)])
    )
    caption = "Decisions, the latest first, and what changed since the previous decision"
    return doc.TableBlock(caption, ("decided", *names, "commit", "changed"), rows, "changes")
