"""No cell of a table is a formula."""

from __future__ import annotations

import re

import pytest

from harness.core.formats import cell
from tests.source import imported, known

RUN = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "-", "=", "--1"]
SHOWN = ["", "a", "a=1", " =1", "-1.5", "+2e3", "'=1", -1.5, 0, None, True]


@pytest.mark.parametrize("text", RUN)
def test_what_a_spreadsheet_would_run_is_quoted(text: str) -> None:
    assert cell(text) == f"'{text}"


@pytest.mark.parametrize("value", SHOWN)
def test_what_it_would_not_is_left_alone(value: object) -> None:
    assert cell(value) is value


def test_whoever_writes_a_table_asks_for_its_cells() -> None:
    writers = [
        module
        for module in known().values()
        if re.search(r"csv\.(writer|DictWriter)\(|\.to_csv\(", module.path.read_text("utf-8"))
    ]
    assert len(writers) >= 3
    without = [m.file for m in writers if "harness.core.formats" not in set(imported(m.tree))]
    assert without == []
