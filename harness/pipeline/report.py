"""Stage ``report``: the pages that people read, of every data set that was decided."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from harness.core import digest
from harness.core.errors import BadFile, EvidenceError
from harness.core.files import seen_from, write_json, write_text
from harness.core.formats import json_file
from harness.core.names import checked
from harness.core.parts import kinds
from harness.pipeline.decompose import kept
from harness.pipeline.evidence import ReportSubject
from harness.pipeline.gate import check_decision, read_decision
from harness.pipeline.layout import Layout
from harness.pipeline.receipts import git
from harness.report.files import ReportFiles, write_reports
from harness.report.inputs import ReportInput

SUFFIX = ".jsonl"


def add(layout: Layout, folder: Path, *, commit: str, held: Callable[[], object]) -> bool:
    """Add the decision in ``layout`` to its history below ``folder``; tell whether it was new."""
    from harness.report import trends

    read_decision(layout)
    held()
    (about,) = json_file(layout.decision)["datasets"]
    sha256 = digest.of_file(layout.decision)
    entry = trends.entry_of(about, decision_sha256=sha256, commit=commit)
    name = checked("a data set", entry.dataset)
    return trends.add(folder / f"{name}{SUFFIX}", entry)


def page(folder: Path, to: Path) -> int:
    """Write the page of all histories below ``folder``, and give how many decisions it shows."""
    from harness.report import trends

    files = sorted(folder.glob(f"*{SUFFIX}"))
    found = {path.stem: trends.read(path) for path in files}
    if not found:
        raise EvidenceError(f"{folder}: holds no history. Run: harness history add")
    write_text(to, trends.to_page(found))
    return sum(map(len, found.values()))


def is_history(folder: Path) -> bool:
    """Return whether all lines of a folder's files, of which there are some, are histories."""
    from harness.report import trends

    files = sorted(folder.glob(f"*{SUFFIX}"))
    try:
        return all(map(trends.read, files)) and bool(files)
    except BadFile:
        return False


def commit_of(root: Path) -> str:
    """Name the commit of a project, a plus sign after it where files differ; empty without git."""
    head = git(root, "rev-parse", "--short=12", "HEAD").strip()
    if not head:
        return ""
    return f"{head}+" if git(root, "status", "--porcelain", "--untracked-files=no") else head


TRENDS = "trends.html"


def report(subjects: Mapping[Layout, ReportSubject], out: Path, receipt: Path) -> ReportFiles:
    """Write the page, its Markdown, the decision and the JUnit file into ``out``."""
    now = datetime.now(UTC)
    reports = [
        linked(check_decision(layout, subject, now=now).report(subject), layout, out)
        for layout, subject in subjects.items()
    ]
    written = write_reports(reports, out)
    made_from = {layout.root.name: digest.of_file(layout.findings) for layout in subjects}
    write_json(receipt, {"pages": sorted(path.name for path in written), "from": made_from})
    return written


def linked(report: ReportInput, layout: Layout, out: Path) -> ReportInput:
    """Add what was left to a report: evidence of slices, differences taken apart, a history."""
    prints = {arm: one.fingerprint for arm, one in report.provenance.arms.items()}
    described = (one.section(layout, prints, out) for one in kinds() if one.section)
    return replace(
        report,
        apart=kept(layout),
        beside=tuple(one for one in described if one is not None),
        history=seen_from(out, out / TRENDS),
    )
