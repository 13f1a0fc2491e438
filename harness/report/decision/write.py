"""All five files of a report, written from one input."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from harness.core import files
from harness.report.decision.decision_json import to_json
from harness.report.decision.junit import to_junit
from harness.report.decision.markdown import to_markdown
from harness.report.explore.page import to_explorer
from harness.report.inputs import ReportInput
from harness.report.links import PAGE
from harness.report.page.page import to_page


class Written(NamedTuple):
    """Where the files of a report are."""

    page: Path
    explorer: Path
    markdown: Path
    decision: Path
    junit: Path


def write_reports(reports: Sequence[ReportInput], out: Path) -> Written:
    """Write the two pages, ``report.md``, ``decision.json`` and ``junit.xml`` into ``out``."""
    written = Written(
        out / "index.html", out / PAGE, out / "report.md", out / "decision.json", out / "junit.xml"
    )
    files.write_text(written.page, to_page(reports))
    files.write_text(written.explorer, to_explorer(reports))
    files.write_text(written.markdown, to_markdown(reports))
    files.write_json(written.decision, to_json(reports))
    files.write_text(written.junit, to_junit(reports))
    return written
