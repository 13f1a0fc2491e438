"""Stage ``report``: the pages that people read, of every data set that was decided."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from harness.core import digest
from harness.core.errors import BadFile, EvidenceError
from harness.core.files import seen_from, write_json, write_text
from harness.core.formats import json_file
from harness.core.gate import StepDecision
from harness.core.names import checked
from harness.core.parts import kinds
from harness.core.printable import many
from harness.core.reading import numbered
from harness.core.records import Query
from harness.core.scores import Paired, Scores
from harness.corpus import beir
from harness.corpus.prepared import QUERIES
from harness.corpus.runs import read_scores
from harness.pipeline.decompose import kept
from harness.pipeline.evidence import Subject, evidence_of, measured
from harness.pipeline.gate import as_stated, check_decision, read_decision
from harness.pipeline.layout import Layout
from harness.pipeline.pins import of_decision
from harness.pipeline.report_inputs import assemble
from harness.report import trends
from harness.report.ci import Checked, Held, Loss, gitlab, notes, to_markdown
from harness.report.decision import decision_json
from harness.report.files import Written, write_reports
from harness.report.inputs import ReportInput
from harness.report.trends import Entry, changed, comparable, entry_of, to_page

DECISION, VALUES = "decision.json", "per_query.parquet"
COMMENT, QUALITY = "ci.md", "gl-code-quality-report.json"
HINT = "Give the folder that was --out of one harness run with a control or a policy"
DIGITS = 1e-8
"""``decision.json`` keeps ten significant digits of a mean."""
BEFORE = " before"


class Left(NamedTuple):
    """What a ``harness run`` left, as far as a build server shows it."""

    entry: Entry
    decisions: tuple[StepDecision, ...]
    scores: Mapping[str, Scores]
    """Of the first measure, by arm."""


def read(folder: Path) -> Left:
    """Read the decision in ``folder`` and the values of each query that it rests on."""
    path = folder / DECISION
    try:
        whole: dict[str, Any] = json_file(path)
    except (OSError, ValueError) as exc:
        raise BadFile(path, f"no decision ({exc})", HINT) from exc
    decisions = tuple(one.decision for one in decision_json.from_json(whole, path))
    if len(whole["datasets"]) != 1:
        raise BadFile(path, f"is of {len(whole['datasets'])} data sets, not of one", HINT)
    (about,) = whole["datasets"]
    entry = entry_of(about, decision_sha256=digest.of_file(path), commit="")
    by_arm = read_scores(folder / VALUES, ["arm"])
    scores = {
        arm: found[entry.measure] for (arm,), found in by_arm.items() if entry.measure in found
    }
    for arm, means in entry.means.items():
        mean = scores[arm].mean if arm in scores else None
        said = means[entry.measure].value if entry.measure in means else None
        if (mean is None) != (said is None) or (
            mean is not None
            and said is not None
            and not math.isclose(mean, said, rel_tol=DIGITS, abs_tol=DIGITS)
        ):
            raise EvidenceError(f"{folder / VALUES}: not the values that {path} rests on. {HINT}")
    return Left(entry, decisions, scores)


def check(folder: Path, baseline: Path | None, queries: Path | None) -> Checked:
    """Assemble what a ``harness run`` left in ``folder`` and, if named, in ``baseline``.

    ``queries`` is the file with the queries whose lines are noted, JSON lines that are not packed.
    """
    now, then = read(folder), read(baseline) if baseline else None
    texts = {query.query_id: query for query in beir.queries(folder / QUERIES)}
    lines = _lines(queries, texts) if queries else {}
    return Checked(
        place=seen_from_root(folder),
        entry=now.entry,
        decisions=now.decisions,
        held=_held(now, then, texts),
        baseline=then.entry if then else None,
        changed=changed(then.entry, now.entry) if then else (),
        file=seen_from_root(queries) if queries else "",
        lines=lines,
    )


def write(checked: Checked, folder: Path, most: int) -> Path:
    """Write the comment and the Code Quality report into ``folder``; give the comment's path."""
    write_text(folder / COMMENT, to_markdown(checked, most))
    write_json(folder / QUALITY, gitlab(notes(checked, most)))
    return folder / COMMENT


def seen_from_root(path: Path) -> str:
    """Name a file as its repository does; as it is given without a repository."""
    whole = path.resolve()
    root = next((folder for folder in whole.parents if (folder / ".git").exists()), None)
    return whole.relative_to(root).as_posix() if root else path.as_posix()


def _lines(path: Path, asked: Mapping[str, Query]) -> Mapping[str, int]:
    pairs = zip(numbered(path), beir.queries(path), strict=True)
    found = {query.query_id: number for (number, _), query in pairs}
    missing = sorted(asked.keys() - found.keys())
    if missing:
        problem = f"it lacks {many(len(missing), 'query')} of the run, for example {missing[0]}"
        raise BadFile(path, problem, "Give the queries.jsonl of the run")
    return found


def _held(now: Left, then: Left | None, texts: Mapping[str, Query]) -> tuple[Held, ...]:
    found = []
    for step in now.decisions:
        if {step.control, step.candidate} <= now.scores.keys():
            pair = now.scores[step.control], now.scores[step.candidate]
            losses = lost(*pair, texts)
            found.append(Held(step.candidate, step.control, losses, step.verdict))
    if then and comparable(then.entry, now.entry) and then.entry.measure == now.entry.measure:
        for arm, scores in now.scores.items():
            if arm in then.scores:
                losses = lost(then.scores[arm], scores, texts)
                found.append(Held(arm, arm + BEFORE, losses, None))
    return tuple(found)


def lost(before: Scores, now: Scores, texts: Mapping[str, Query]) -> tuple[Loss, ...]:
    """Find queries that lost; a query without an answer comes before all that have one."""
    old = before.by_query
    gone = [
        Loss(query_id, texts[query_id].text, old[query_id], None, why)
        for why, ids in now.undefined.items()
        for query_id in ids
        if query_id in old
    ]
    pairs = Paired.of(before, now)
    rows = zip(
        pairs.difference.tolist(),
        pairs.query_ids,
        pairs.control.tolist(),
        pairs.candidate.tolist(),
        strict=True,
    )
    fell = sorted(row for row in rows if row[0] < 0)
    return (
        *sorted(gone, key=lambda loss: loss.query_id),
        *(Loss(name, texts[name].text, was, value, "") for _, name, was, value in fell),
    )


SUFFIX = ".jsonl"


def add(layout: Layout, folder: Path, *, commit: str, held: Callable[[], object]) -> bool:
    """Add the decision in ``layout`` to its history below ``folder``; tell whether it was new.

    ``held`` counts every digest below the decision again, and raises where one differs.
    """
    read_decision(layout)
    held()
    (about,) = json_file(layout.decision)["datasets"]
    sha256 = digest.of_file(layout.decision)
    entry = trends.entry_of(about, decision_sha256=sha256, commit=commit)
    name = checked("a data set", entry.dataset)
    return trends.add(folder / f"{name}{SUFFIX}", entry)


def page(folder: Path, to: Path) -> int:
    """Write the page of all histories below ``folder``, and give how many decisions it shows."""
    files = sorted(folder.glob(f"*{SUFFIX}"))
    found = {path.stem: trends.read(path) for path in files}
    if not found:
        raise EvidenceError(f"{folder}: holds no history. Run: harness history add")
    write_text(to, to_page(found))
    return sum(map(len, found.values()))


def is_history(folder: Path) -> bool:
    """Return whether all lines of a folder's files, of which there are some, are histories."""
    files = sorted(folder.glob(f"*{SUFFIX}"))
    try:
        return all(map(trends.read, files)) and bool(files)
    except BadFile:
        return False


def commit_of(root: Path) -> str:
    """Name the commit of a project, a plus sign after it where files differ; empty without git."""
    head = _git(root, "rev-parse", "--short=12", "HEAD")
    if not head:
        return ""
    return f"{head}+" if _git(root, "status", "--porcelain", "--untracked-files=no") else head


def _git(root: Path, *words: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603  our own words
            ["git", "-C", str(root), *words],  # noqa: S607  the one on the path
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return done.stdout.strip() if not done.returncode else ""


TRENDS = "trends.html"


def report(subjects: Mapping[Layout, Subject], out: Path, receipt: Path) -> Written:
    """Write the page, its Markdown, the decision and the JUnit file into ``out``.

    ``receipt`` names what the pages were made from, without times, so that it can be tracked.
    """
    for layout, subject in subjects.items():
        check_decision(layout, subject, now=datetime.now(UTC))
    reports = [as_decided(layout, subject, out) for layout, subject in subjects.items()]
    written = write_reports(reports, out)
    made_from = {layout.root.name: digest.of_file(layout.findings) for layout in subjects}
    write_json(receipt, {"pages": sorted(path.name for path in written), "from": made_from})
    return written


def as_decided(layout: Layout, subject: Subject, out: Path) -> ReportInput:
    """Assemble what the pages in ``out`` say of a decision, with its own day and machine."""
    decisions, decided_at = read_decision(layout)
    evidence = evidence_of(layout, subject)
    custody = of_decision(layout, subject, measured(layout, subject, evidence))
    found = assemble(layout, subject, evidence, decisions, decided_at, custody=custody)
    stated = json_file(layout.decision)["datasets"][0]["provenance"]
    return linked(as_stated(found, stated), layout, out)


def linked(report: ReportInput, layout: Layout, out: Path) -> ReportInput:
    """Add what was left to a report: evidence of slices, differences taken apart, a history."""
    prints = {arm: one.fingerprint for arm, one in report.provenance.manifests.items()}
    described = (one.section(layout, prints, out) for one in kinds() if one.section)
    return replace(
        report,
        apart=kept(layout),
        beside=tuple(one for one in described if one is not None),
        history=seen_from(out, out / TRENDS),
    )
