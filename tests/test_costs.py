"""What a run with ``--costs`` writes and prints, and what the table of the suite says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import costs
from tests.source import ROOT

WATCHED = """
from pathlib import Path
from tests.costs import Costs
from tests.spread import scope
def pytest_configure(config): config.pluginmanager.register(Costs(Path("costs.csv"), scope))
"""
SPENDS = """
import subprocess, sys, time
WORK = "import time; end = time.process_time() + 0.6\\nwhile time.process_time() < end: pass"
def test_waits(): time.sleep(0.4)
def test_starts_a_process_that_works(): subprocess.run([sys.executable, "-c", WORK], check=True)
"""


@pytest.mark.slow
def test_a_run_writes_what_files_take_and_prints_what_tests_work(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(WATCHED, encoding="utf-8")
    (tmp_path / "test_it.py").write_text(SPENDS, encoding="utf-8")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", "."),
            *("-p", "xdist", "-n", "1"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert costs.read(tmp_path / "costs.csv") == {"test_it.py": 1000}
    assert "| 1 | `test_it.py::test_starts_a_process_that_works` |" in done.stdout
    assert "| 0 | `test_it.py::test_waits` |" in done.stdout


def test_a_phase_is_the_seconds_between_two_moments() -> None:
    found = costs.Cost(5.0, 9.0).since(costs.Cost(2.0, 1.0))
    assert found == costs.Cost(processor=3.0, clock=8.0)


def test_what_takes_less_than_a_thousandth_is_not_written(tmp_path: Path) -> None:
    table = tmp_path / "costs.csv"
    costs.write(table, {"b": 9.0, "a": 990.9, "c": 0.1})
    assert table.read_text(encoding="utf-8") == "file,per_mille\na,991\nb,9\n"
    assert costs.read(table) == {"a": 991, "b": 9}


def test_the_table_of_the_suite_is_of_files_that_are_there() -> None:
    """A few may have moved since."""
    found = costs.read(costs.TABLE)
    there = [name for name in found if (ROOT / name).exists() or not name.startswith("tests/")]
    assert len(there) > 0.8 * len(found) > 50
    assert 800 < sum(found.values()) <= 1050
