"""All files of a report, beside each other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.report.decision.decision_json import from_json
from harness.report.decision.files import write_reports
from tests.make import report_inputs

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("undrawn")
def test_five_files_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "reports"
    written = write_reports([report_inputs.report()], out)
    assert {path.name for path in out.iterdir()} == {
        "index.html", "explore.html", "report.md", "decision.json", "junit.xml",
    }  # fmt: skip
    assert set(written) == set(out.iterdir())
    decision = json.loads(written.decision.read_text(encoding="utf-8"))
    assert len(from_json(decision, written.decision)) == 3


def test_the_same_bytes_in_every_file(tmp_path: Path) -> None:
    one = write_reports([report_inputs.report()], tmp_path / "one")
    two = write_reports([report_inputs.report()], tmp_path / "two")
    for left, right in zip(one, two, strict=True):
        assert left.read_bytes() == right.read_bytes()
