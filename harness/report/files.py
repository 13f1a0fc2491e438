"""All five files of a report, written from one input."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from harness.core import files
from harness.report import html
from harness.report.ci import to_junit
from harness.report.decision import to_json
from harness.report.doc import to_markdown
from harness.report.explorer import to_explorer
from harness.report.html import PAGE
from harness.report.inputs import ReportInput
from harness.report.page.view import document
from harness.report.printed import located


class ReportFiles(NamedTuple):
    """Where the files of a report are."""

    page: Path
    explorer: Path
    markdown: Path
    decision: Path
    junit: Path


def write_reports(reports: Sequence[ReportInput], out: Path) -> ReportFiles:
    """Write the two pages, ``report.md``, ``decision.json`` and ``junit.xml`` into ``out``."""
    written = texts(reports)
    for name, text in written.items():
        files.write_text(out / name, text)
    return ReportFiles(*(out / name for name in written))


def texts(reports: Sequence[ReportInput]) -> dict[str, str]:
    """Return the text of each report file by its name; the same input gives the same bytes."""
    typed = [
        replace(one, decisions=located(one.decisions, one.dataset, one.place)) for one in reports
    ]
    shown = document(typed)
    return {
        "index.html": html.to_page(shown, scripted=True),
        PAGE: to_explorer(reports),
        "report.md": to_markdown(shown),
        "decision.json": files.json_text(to_json(reports)),
        "junit.xml": to_junit(typed),
    }
