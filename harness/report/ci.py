"""A decision for build servers: comment, notes on lines, and ``junit.xml``."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

from harness.core.gate import Finding, StepDecision, Verdict
from harness.core.printable import one_line, printable
from harness.report import doc
from harness.report.doc import Block, Items, Num, Section, Table, Text, Value, table
from harness.report.inputs import ReportInput
from harness.report.page.cards import answer, measured
from harness.report.rounding import markdown, number
from harness.report.trends import Entry, comparable

CHECK = "search-harness"


class Level(StrEnum):
    """How loud a note is."""

    ERROR = "error"
    WARNING = "warning"


SEVERITY = {Level.ERROR: "major", Level.WARNING: "minor"}


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
    said = ",".join(f"{name}={_property(str(value))}" for name, value in given.items() if value)
    return f"::{note.level} {said}::{_data(one_line(note.message))}"


def gitlab(notes: Iterable[Annotation]) -> list[dict[str, Any]]:
    """Write notes as a Code Quality report; those without a line have no place in one."""
    return [
        {
            "description": one_line(f"{note.title}: {note.message}"),
            "check_name": CHECK,
            "fingerprint": hashlib.sha256(note.key.encode()).hexdigest(),
            "severity": SEVERITY[note.level],
            "location": {"path": note.file, "lines": {"begin": note.line}},
        }
        for note in notes
        if note.file and note.line
    ]


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


TEXT = 80
WHY = 300
"""Longest texts shown, in characters."""
FAR = "∅"
"""Instead of a number where there is none."""


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


@dataclass(frozen=True, slots=True)
class Held:
    """An arm and its reference, with the queries that lost.

    Those without an answer come first, then the largest loss.
    """

    arm: str
    against: str
    """In words: another arm, or itself in the baseline."""
    losses: tuple[Loss, ...]
    verdict: Verdict | None
    """Of the step; None where no gate judges this comparison."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What a change did."""

    place: str
    """Of the run, as seen from the root of the repository."""
    entry: Entry
    decisions: tuple[StepDecision, ...]
    held: tuple[Held, ...]
    baseline: Entry | None = None
    changed: tuple[str, ...] = ()
    """What is other than in the baseline, beside numbers."""
    file: str = ""
    """Of the queries, as seen from the root of the repository."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Of each query in that file, from 1."""


def notes(checked: Checked, most: int) -> tuple[Annotation, ...]:
    """Return the ``most`` largest losses of every comparison as notes on their queries' lines.

    A note is an error if a gate of its step fails, because the loss then blocks the step.
    """
    found = []
    for held in checked.held:
        level = Level.ERROR if held.verdict is Verdict.FAIL else Level.WARNING
        for loss in held.losses[:most]:
            line = checked.lines.get(loss.query_id)
            found.append(
                Annotation(
                    level=level,
                    title=f"{held.arm} loses {checked.entry.measure} against {held.against}",
                    message=f"{loss.query_id} ({loss.text[:TEXT]}): {_fell(loss)}",
                    key=f"{checked.entry.dataset}\n{held.arm}\n{held.against}\n{loss.query_id}",
                    file=checked.file if line else "",
                    line=line,
                )
            )
    return tuple(found)


def to_markdown(checked: Checked, most: int) -> str:
    """Write the comment; its first line is a mark, by which a program finds it again."""
    mark = f"<!-- search-harness {markdown(checked.place)} -->"
    return f"{mark}\n{doc.to_markdown(document(checked, most), 2)}"


def document(checked: Checked, most: int) -> Section:
    """Describe what a change did: each step, what is in its way, means and the largest losses."""
    waits = (f"{one.step} waits for {one.blocked_by}" for one in checked.decisions
             if one.blocked_by)  # fmt: skip
    way = (line for decision in checked.decisions for line in _in_the_way(decision))
    losses = (_losses(checked, held, most) for held in checked.held if held.losses)
    inside = (_steps(checked), Items((*way, *waits)), *_means(checked), *losses)
    return Section(f"Search: {checked.entry.dataset}", inside)


def _fell(loss: Loss) -> str:
    return f"{number(loss.before)} → {number(loss.now) if loss.now is not None else loss.instead}"


def _word(outcome: str, verdict: Verdict) -> str:
    more = " (inconclusive)" if verdict is Verdict.INCONCLUSIVE else ""
    return f"{outcome.upper()}{more}"


def _steps(checked: Checked) -> Table:
    then = {step.step: step for step in checked.baseline.steps} if checked.baseline else {}
    before = {one.step: _word(old.outcome, old.verdict) if (old := then.get(one.step))
              else "not there" for one in checked.decisions}  # fmt: skip
    return table(
        "",
        ("step", "arms", "now", *(["before"] if checked.baseline else []), "in short"),
        (
            (one.step, f"{one.control} → {one.candidate}", _word(one.outcome, one.verdict),
             *([before[one.step]] if checked.baseline else []),
             f"{_passed(one)} of {len(one.findings)} gates pass")
            for one in checked.decisions
        ),
    )  # fmt: skip


def _passed(decision: StepDecision) -> int:
    return sum(found.verdict is Verdict.PASS for found in decision.findings)


def _in_the_way(decision: StepDecision) -> Iterator[str]:
    for finding in decision.blocking:
        remedy = f" To reach a decision: {finding.remedy}" if finding.remedy else ""
        why = one_line(finding.reason + remedy, WHY)
        yield f"{finding.verdict.upper()} {decision.step}, {finding.gate}: {why}"


def _means(checked: Checked) -> Iterator[Block]:
    entry, before = checked.entry, checked.baseline
    same = before is not None and comparable(before, entry)
    rows: list[tuple[Value | str, ...]] = []
    for arm, means in entry.means.items():
        now = means.get(entry.measure)
        old = before.means.get(arm, {}).get(entry.measure) if before else None
        moved = Num(now.value - old.value, signed=True) if now and old else FAR
        then = [Num(old.value) if old else FAR, moved] if same else []
        rows.append((arm, Num(now.value) if now else FAR, *then))
    yield table("", ("arm", entry.measure, *(["before", "difference"] if same else [])), rows)
    if before:
        yield Text(f"Other than in the baseline: {', '.join(checked.changed) or 'nothing'}.")
        if not same:
            yield Text("Its means are of other data, and are not compared.")


def _losses(checked: Checked, held: Held, most: int) -> Section:
    shown = held.losses[:most]
    said = f"{len(held.losses)} in {checked.entry.measure}; shown: {len(shown)}."
    rows = table(
        "",
        ("query", "line", "text", held.against, held.arm),
        (
            (loss.query_id, str(checked.lines.get(loss.query_id, "")), loss.text[:TEXT],
             Num(loss.before), loss.instead if loss.now is None else Num(loss.now))
            for loss in shown
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


def _details(finding: Finding) -> str:
    shown = measured(finding)
    rests = f" {shown.note} over {finding.estimate.n:,}" if finding.estimate else ""
    lines = [
        finding.reason,
        f"cause: {finding.cause.value}",
        f"bound: {finding.bound}",
        f"measured: {shown.text}{rests}",
    ]
    return printable("\n".join(lines))


def _suite(report: ReportInput, decision: StepDecision) -> ET.Element:
    suite = ET.Element("testsuite")
    suite.set("name", one_line(f"{report.provenance.dataset}/{decision.step}"))
    for finding in decision.findings:
        case = _case(suite, finding.gate, finding.verdict, finding.reason, finding.remedy)
        ET.SubElement(case, "system-out").text = _details(finding)
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
    for name, value in (
        ("outcome", decision.outcome.value),
        ("control", decision.control),
        ("candidate", decision.candidate),
    ):
        ET.SubElement(properties, "property", {"name": name, "value": one_line(value)})
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
