"""Promises held against a run of the tests by several processes, of which none sees all tests.

The process that started them hears how every test came out. It asks when all are done, in the
place of ``test_a_promise_is_kept``, which the others leave to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.docs.contract import PAGE, faults, known, rows
from tests.docs.outcomes import ASKED_LAST, Outcomes
from tests.docs.pages import ROOT

ASKED = f"{ASKED_LAST}::test_a_promise_is_kept"
ENDED = {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}


class Promises:
    """Asks how the tests of the promises came out, once no process is running any."""

    def __init__(self, outcomes: Outcomes, page: Path = PAGE, root: Path = ROOT) -> None:
        self.outcomes, self.page, self.root = outcomes, page, root
        self.asked = False
        self.said: list[str] = []

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        if hasattr(config, "workerinput"):
            items[:] = [item for item in items if not item.nodeid.startswith(ASKED)]

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self.asked = any(name.startswith(ASKED_LAST) for name in ids)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not (self.asked and self.outcomes.seen) or session.exitstatus not in ENDED:
            return
        said, option = session.config.args, session.config.option
        part = option.markexpr or option.keyword or any("::" in argument for argument in said)
        found = rows(self.page.read_text(encoding="utf-8"))
        seen = known(found, self.root, {} if part else self.outcomes.results())
        self.said = [fault for row in found for fault in faults(row, self.root, seen)]
        if self.said:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.said:
            terminalreporter.section(f"promises of {self.page.name} that are not kept", red=True)
            terminalreporter.write("\n".join([*self.said, ""]))
