"""Who runs what where several processes run the tests: a file stays whole, slow ones go first."""

from __future__ import annotations

import re

import pytest
from xdist.scheduler import LoadScopeScheduling

FAMILY = re.compile(
    r"tests/engines/(?:contract/test_every_arm|stacks/test_explained)\.py::\w+\[(\w+)"
)
"""Tests of arms of one name's beginning, which share their models, and of an arm its index."""

EACH = "tests/mutants/test_all.py"
"""Each test of it is a run of tests."""


class Spread(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Gives a process the tests of one file; of the contract of engines, those of one family."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(EACH):
            return nodeid
        family = FAMILY.match(nodeid)
        return family[1] if family else nodeid.partition("::")[0]


def slow_first(items: list[pytest.Item]) -> None:
    """Put files with slow tests before the others, so that no process is left with one at last."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
