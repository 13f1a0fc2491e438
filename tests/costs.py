"""What tests cost: seconds of a processor, children that ended included, and seconds by the clock.

    python3 run.py test --costs tests/costs.csv

writes the share of the clock that each costly file took, for ``tests/spread.py``, and prints the
tests that work longest as rows for CONTRIBUTING. The machine should do nothing else meanwhile.
"""

from __future__ import annotations

import csv
import os
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.terminal import TerminalReporter

from harness.core.files import write_text

TABLE = Path(__file__).parent / "costs.csv"
HEAD = ("file", "per_mille")
LONGEST = 20
PROCESSOR, CLOCK = "processor", "clock"


class Cost(NamedTuple):
    """Seconds up to now, or between two moments."""

    processor: float
    clock: float

    def since(self, before: Cost) -> Cost:
        """Give the seconds between."""
        return Cost(self.processor - before.processor, self.clock - before.clock)


def now() -> Cost:
    """Read both clocks of this process."""
    used = os.times()
    children = used.children_user + used.children_system
    return Cost(used.user + used.system + children, time.perf_counter())


class Costs:
    """Adds to each report what its phase cost, and writes the table where the run ends."""

    def __init__(self, out: Path, scope: Callable[[str], str]) -> None:
        self.out, self.scope = out, scope
        self.processor: dict[str, float] = defaultdict(float)
        """By test."""
        self.clock: dict[str, float] = defaultdict(float)
        """By what is given to a process as a whole."""
        self._last = now()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        self._last = now()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self,
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        at = now()
        cost = at.since(self._last)
        report.user_properties += [(PROCESSOR, cost.processor), (CLOCK, cost.clock)]
        self._last = at
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        costs = {name: at for name, at in report.user_properties if isinstance(at, float)}
        self.processor[report.nodeid] += costs.get(PROCESSOR, 0.0)
        self.clock[self.scope(report.nodeid)] += costs.get(CLOCK, 0.0)

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Print the longest; only the process that shares the work has a terminal."""
        terminalreporter.section("seconds of a processor")
        for test, seconds in most(self.processor)[:LONGEST]:
            terminalreporter.write_line(f"| {seconds:.0f} | `{test}` |")
        write(self.out, self.clock)
        terminalreporter.write_line(f"wrote {self.out}")


def most(seconds: Mapping[str, float]) -> list[tuple[str, float]]:
    """Put the largest first."""
    return sorted(seconds.items(), key=lambda of: of[1], reverse=True)


def write(out: Path, clock: Mapping[str, float]) -> None:
    """Write what took a thousandth of all or more, the longest first."""
    whole = sum(clock.values())
    shares = ((scope, round(1000 * seconds / whole)) for scope, seconds in most(clock))
    rows = [HEAD, *((scope, share) for scope, share in shares if share)]
    write_text(out, "".join(f"{scope},{share}\n" for scope, share in rows))


def read(table: Path) -> dict[str, int]:
    """Give the share of each file of the table, in thousandths."""
    with table.open(encoding="utf-8", newline="") as rows:
        return {row[HEAD[0]]: int(row[HEAD[1]]) for row in csv.DictReader(rows)}
