"""How tests came out: recorded in the process that runs them, or in one of its own.

    python -m tests.docs.outcomes OUT.json tests/core/test_run.py::test_name ...

runs the tests named and writes for each how it came out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

NAME = "outcomes"
ASKED_LAST = "tests/docs/test_contract.py"
Results = Mapping[str, frozenset[str]]
"""By test, without its parameters: every way in which one of its cases came out."""


class Outcomes:
    """Watches a run of pytest, and puts last what asks how the others came out."""

    def __init__(self, only: Iterable[str] = ()) -> None:
        self.only = frozenset(only)
        """Tests to run of the files that are collected; all where none is named."""
        self.seen: dict[str, set[str]] = {}
        self.whole = True
        """Whether every case of a test that was collected is run."""

    def results(self) -> Results:
        """Give what is known; nothing where cases of a test may have been left out."""
        return {test: frozenset(ways) for test, ways in self.seen.items()} if self.whole else {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        if self.only:
            items[:] = [item for item in items if _bare(item.nodeid) in self.only]
        self.whole = self.whole and not any("::" in argument for argument in config.args)
        items.sort(key=lambda item: item.nodeid.startswith(ASKED_LAST))

    def pytest_deselected(self) -> None:
        self.whole = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        way = f"{report.outcome} in {report.when}" if report.when != "call" else report.outcome
        if hasattr(report, "wasxfail"):
            way = "xpassed" if report.passed else "xfailed"
        self.seen.setdefault(_bare(report.nodeid), set()).add(way)


def _bare(node: str) -> str:
    return node.partition("[")[0]


def run(tests: Iterable[str], root: Path, scratch: Path) -> Results:
    """Run tests of the project in ``root`` in another process; absent is what did not run."""
    out = scratch / "outcomes.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs.outcomes", str(out), *sorted(tests)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if not out.exists():
        raise RuntimeError(f"the tests did not run:\n{done.stdout}{done.stderr}")
    found = json.loads(out.read_text(encoding="utf-8"))
    return {test: frozenset(ways) for test, ways in found.items()}


def main(out: str, *tests: str) -> None:
    """Run the tests named and write how they came out; a file that is broken stops no other."""
    watched = Outcomes(tests)
    quiet = ["-q", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    files = sorted({test.partition("::")[0] for test in tests})
    pytest.main([*quiet, *files], plugins=[watched])
    found = {test: sorted(ways) for test, ways in watched.seen.items()}
    Path(out).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
