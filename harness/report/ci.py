"""A decision for build servers: comment, notes on lines, and ``junit.xml``."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from xml.etree import ElementTree as ET

from harness.core.gate import StepDecision, Verdict, together
from harness.core.printable import many, one_line, printable
from harness.core.scores import Estimate
from harness.report import doc
from harness.report.doc import Block, Items, Num, Section, TableBlock, Text, Value, table
from harness.report.inputs import ReportInput
from harness.report.page.cards import answer, measured, outcome_word
from harness.report.rounding import markdown, number

CHECK = "search-harness"


Level = Literal["error", "warning"]
"""How loud a note is."""


class Annotation(NamedTuple):
    """One note."""

    level: Level
    title: str
    message: str
    key: str
    """What stays the same from run to run while the note is about the same thing."""
    file: str = ""
    """As seen from the root of the repository; empty where no file is known."""
    line: int | None = None
    """From 1; None where no line is known."""


def github(note: Annotation) -> str:
    """Write a note as a workflow command: one line, whatever the texts hold."""
    given = {"file": note.file, "line": note.line, "title": one_line(note.title)}
    escaped = {
        name: _data(str(value)).replace(":", "%3A").replace(",", "%2C")
        for name, value in given.items()
        if value
    }
    said = ",".join(f"{name}={value}" for name, value in escaped.items())
    return f"::{note.level} {said}::{_data(one_line(note.message))}"


def gitlab(notes: Iterable[Annotation]) -> list[dict[str, Any]]:
    """Write notes as a Code Quality report; those without a line have no place in one."""
    return [
        {
            "description": one_line(f"{note.title}: {note.message}"),
            "check_name": CHECK,
            "fingerprint": hashlib.sha256(note.key.encode()).hexdigest(),
            "severity": {"error": "major", "warning": "minor"}[note.level],
            "location": {"path": note.file, "lines": {"begin": note.line}},
        }
        for note in notes
        if note.file and note.line
    ]


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


TEXT, WHY = 80, 300
"""Longest texts shown, in characters."""
FAR = "∅"
"""Instead of a number where there is none."""
HALF, FULL = 0.5, 100
"""Part of a value, and most queries in a comment, which a server cuts at 65,536 characters."""


@dataclass(frozen=True, slots=True)
class Loss:
    """One query that an arm answers worse than its reference."""

    query_id: str
    text: str
    before: float
    now: float | None
    """None where the arm gave no answer that could be measured."""
    instead: str
    """Reason for a missing value, as in the scores; empty with a value."""

    @property
    def by(self) -> float:
        """The change of its value; without an answer all is lost."""
        return (self.now or 0.0) - self.before

    @property
    def is_collapse(self) -> bool:
        """Whether the query lost more than half of its value."""
        return (self.now or 0.0) < self.before * HALF


@dataclass(frozen=True, slots=True)
class Held:
    """An arm and its reference, with the queries that lost: unanswered first, then by loss."""

    arm: str
    against: str
    """In words: another arm, or itself in the baseline."""
    losses: tuple[Loss, ...]
    verdict: Verdict | None
    """Of the gates on this comparison; None where none judges it."""


@dataclass(frozen=True, slots=True)
class MeasureOutcome:
    """Outcome of one measure of an arm."""

    arm: str
    measure: str
    then: float
    now: float
    difference: Estimate


@dataclass(frozen=True, slots=True)
class Against:
    """Each arm of a data set against itself in an earlier release."""

    dataset: str
    decisions: tuple[StepDecision, ...] = ()
    """One an arm."""
    moved: tuple[MeasureOutcome, ...] = ()
    held: tuple[Held, ...] = ()
    same: frozenset[str] = frozenset()
    """Arms whose answers are the same, hit for hit."""
    changed: tuple[str, ...] = ()
    """What differs in the index of an arm."""
    gone: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    incomparable: str = ""
    """Why the two are of different things; empty where they are compared."""

    @property
    def open(self) -> tuple[StepDecision, ...]:
        """Decisions of the arms whose answers are not the same; these are no worse."""
        return tuple(one for one in self.decisions if one.candidate not in self.same)

    @property
    def verdict(self) -> Verdict:
        """Verdict of all arms."""
        judged = [Verdict.INCONCLUSIVE] if self.incomparable else [one.verdict for one in self.open]
        return together(judged or [Verdict.PASS])


@dataclass(frozen=True, slots=True)
class CiResult:
    """What a change did."""

    place: str
    """Of the run, as seen from the root of the repository."""
    dataset: str
    measure: str
    """What arms are compared by first."""
    means: Mapping[str, float | None]
    """Of that measure, by arm; None where no query has a value."""
    decisions: tuple[StepDecision, ...]
    """Of the run: arms against their control; empty where it has none."""
    held: tuple[Held, ...]
    against: Against | None = None
    """None without a baseline."""
    report: str = ""
    """Where the page of the run can be read; empty where that is not known."""
    file: str = ""
    """Of the queries, as seen from the root of the repository."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Of each query in that file, from 1."""

    @property
    def verdict(self) -> Verdict | None:
        """FAIL if anything fails, else INCONCLUSIVE if anything is; None with nothing judged."""
        judged = [one.verdict for one in self.decisions]
        judged += [self.against.verdict] if self.against else []
        return together(judged) if judged else None


def notes(checked: CiResult, most: int) -> tuple[Annotation, ...]:
    """Note the ``most`` largest losses of each comparison; errors where one of its gates fails."""
    found = []
    for held in checked.held:
        level: Level = "error" if held.verdict is Verdict.FAIL else "warning"
        for loss in held.losses[:most]:
            line = checked.lines.get(loss.query_id)
            now = loss.instead if loss.now is None else number(loss.now)
            said = f"{one_line(loss.text, TEXT)}): {number(loss.before)} → {now}"
            found.append(
                Annotation(
                    level=level,
                    title=f"{held.arm} loses {checked.measure} against {held.against}",
                    message=f"{loss.query_id} ({said}",
                    key=f"{checked.dataset}\n{held.arm}\n{held.against}\n{loss.query_id}",
                    file=checked.file if line else "",
                    line=line,
                )
            )
    return tuple(found)


def to_markdown(checked: CiResult, most: int) -> str:
    """Write the comment; its first line is a mark, by which a program finds it again."""
    mark = f"<!-- search-harness {markdown(checked.place)} -->"
    title, _, rest = doc.to_markdown(document(checked, most), 2).partition("\n")
    link = f"\n[The report, with every query]({checked.report})\n" if checked.report else ""
    return f"{mark}\n{title}\n{link}{rest}"


WORDS = {
    Verdict.PASS: "no worse than the baseline",
    Verdict.FAIL: "WORSE than the baseline",
    Verdict.INCONCLUSIVE: "not sure whether it is worse than the baseline",
}
FIRST = "A baseline is missing: this run becomes one where it is kept."


def document(checked: CiResult, most: int) -> Section:
    """Describe what a change did: the verdict, means, the largest losses, and what changed."""
    against = checked.against
    title = f"Search: {WORDS[against.verdict]} ({checked.dataset})" if against else (
        f"Search: {checked.dataset}"
    )  # fmt: skip
    judged = (*(against.open if against else ()), *checked.decisions)
    way = []
    for decision in judged:
        for finding in decision.blocking:
            remedy = f". To reach a decision: {finding.remedy}" if finding.remedy else ""
            short = (one_line(finding.reason, WHY) + one_line(remedy, WHY)).replace("….", "…")
            way.append(f"{finding.verdict.upper()} {decision.step}, {finding.gate}: {short}")
    way += [f"{one.step} waits for {one.blocked_by}" for one in judged if one.blocked_by]
    why = () if against is None or not against.incomparable else (Text(against.incomparable),)
    inside: tuple[Block, ...] = (
        *(() if against else (Text(FIRST),)),
        *why,
        _means(checked),
        *([Items(tuple(way))] if way else []),
        *_changed(checked),
        *([_steps(checked)] if checked.decisions else []),
        *(_losses(checked, held, most) for held in checked.held if held.losses),
    )
    return Section(title, inside)


def _steps(checked: CiResult) -> TableBlock:
    rows = []
    for one in checked.decisions:
        passed = sum(found.verdict is Verdict.PASS for found in one.findings)
        arms, short = f"{one.control} → {one.candidate}", f"{passed} of {len(one.findings)}"
        rows.append((one.step, arms, outcome_word(one), f"{short} gates pass"))
    return table("", ("step", "arms", "outcome", "in short"), rows)


def _means(checked: CiResult) -> TableBlock:
    """Show the first measure of arms without a past, and every measure of the others."""
    moved = checked.against.moved if checked.against else ()
    compared = {one.arm for one in moved}
    rows: list[tuple[Value | str, ...]] = [
        (one.arm, one.measure, Num(one.then), Num(one.now), Num.of(one.difference, signed=True))
        for one in moved
    ]
    for arm, mean in checked.means.items():
        if arm not in compared:
            now = FAR if mean is None else Num(mean)
            rows.append((arm, checked.measure, *([FAR] if moved else []), now,
                         *([FAR] if moved else [])))  # fmt: skip
    beside = ("baseline", "now", "difference") if moved else ("now",)
    return table("", ("arm", "measure", *beside), rows)


def _changed(checked: CiResult) -> Iterator[Block]:
    """Name what changed; where nothing was found, only what was looked at."""
    if not (against := checked.against):
        return
    same = checked.means.keys() <= against.same
    if against.changed:
        yield Items(against.changed, "Changed since the baseline")
    elif not same:
        yield Text(
            "No change was found in the indexes, and yet the answers differ: a package, a service,"
            " a model, a clock or chance may be behind it."
        )
    if same:
        yield Text("The answers are the same, hit for hit.")


def _losses(checked: CiResult, held: Held, most: int) -> Section:
    """Show the ``most`` worst queries and all that lost more than half, at most ``FULL``."""
    losses, collapsed = held.losses, sum(loss.is_collapse for loss in held.losses)
    shown = [loss for at, loss in enumerate(losses) if at < most or loss.is_collapse]
    more = len(shown) - FULL
    said = (
        f"{many(len(losses), 'query')} lost in {checked.measure}, {collapsed} of them more than"
        f" half; the worst {len(losses[:most])} and all of these"
        f"{f', but {more:,} that are in explore.html' if more > 0 else ''}:"
    )
    rows = table(
        "",
        ("query", "line", "text", held.against, held.arm),
        (
            (loss.query_id, str(checked.lines.get(loss.query_id, "")), one_line(loss.text, TEXT),
             Num(loss.before), loss.instead if loss.now is None else Num(loss.now))
            for loss in shown[:FULL]
        ),
    )  # fmt: skip
    return Section(f"Queries that lost: {held.arm} against {held.against}", (Text(said), rows))


ELEMENT = {Verdict.FAIL: "failure", Verdict.INCONCLUSIVE: "error"}


def _case(suite: ET.Element, name: str, verdict: Verdict, reason: str, remedy: str) -> ET.Element:
    about = {"classname": suite.get("name", ""), "name": one_line(name)}
    case = ET.SubElement(suite, "testcase", about)
    if verdict is not Verdict.PASS:
        said = {"type": verdict.value, "message": one_line(reason)}
        text = printable(f"{reason}\nTo reach a decision: {remedy}" if remedy else reason)
        ET.SubElement(case, ELEMENT[verdict], said).text = text
    return case


def _suite(report: ReportInput, decision: StepDecision) -> ET.Element:
    suite = ET.Element("testsuite")
    suite.set("name", one_line(f"{report.dataset}/{decision.step}"))
    for finding in decision.findings:
        case = _case(suite, finding.gate, finding.verdict, finding.reason, finding.remedy)
        shown = measured(finding)
        rests = f" {shown.note} over {finding.estimate.n:,}" if finding.estimate else ""
        cause, bound = f"cause: {finding.cause.value}", f"bound: {finding.bound}"
        said = "\n".join((finding.reason, cause, bound, f"measured: {shown.text}{rests}"))
        ET.SubElement(case, "system-out").text = printable(said)
    if not decision.findings:
        _case(suite, "evidence", Verdict.INCONCLUSIVE, answer(decision), "judge the step's gates")
    if decision.blocked_by:
        case = _case(suite, "order of steps", Verdict.PASS, "", "")
        message = one_line(f"waits for {decision.blocked_by}")
        ET.SubElement(case, "skipped", {"message": message})
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(suite.findall("testcase"))))
    properties = ET.Element("properties")
    for name in ("outcome", "control", "candidate"):
        value = one_line(str(getattr(decision, name)))
        ET.SubElement(properties, "property", {"name": name, "value": value})
    suite.insert(0, properties)
    return suite


def to_junit(reports: Sequence[ReportInput]) -> str:
    """Return the decisions of all datasets as JUnit XML."""
    root = ET.Element("testsuites", {"name": "search-harness"})
    for report in reports:
        root.extend(_suite(report, decision) for decision in report.decisions)
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"
