"""What was written before and stands beside a page: the last load, and pages to be followed to."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from harness.report.inputs import Links, ReportInput
from harness.stages.compare.decomposition import kept
from harness.stages.layout import Layout
from harness.stages.load.files import page_of
from harness.stages.load.last import last_load

TRENDS = "trends.html"


def linked(report: ReportInput, layout: Layout, out: Path) -> ReportInput:
    """Put to a report what was left: a load, differences taken apart, the addresses of pages.

    Raises:
        BadFile: the history of loads, or what ``harness decompose`` left, cannot be read.
    """
    arms = report.provenance.manifests.items()
    return replace(
        report,
        apart=kept(layout),
        load=last_load(layout, {arm: found.fingerprint for arm, found in arms}),
        links=Links(load=_seen_from(out, page_of(layout)), history=_seen_from(out, out / TRENDS)),
    )


def _seen_from(folder: Path, page: Path) -> str:
    """Give the relative address of a page; empty where there is none."""
    return quote(Path(os.path.relpath(page, folder)).as_posix()) if page.is_file() else ""
