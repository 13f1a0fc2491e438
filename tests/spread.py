"""Who runs what where several processes run the tests: a file stays whole, the longest go first.

The tests in a browser stay together, so that one is started.

How long a file takes is in ``tests/costs.csv``, which a run with ``--costs`` writes. To begin with
the longest is Graham's rule, "Bounds on multiprocessing timing anomalies", SIAM Journal on Applied
Mathematics 17, 1969: at most a third longer than the best order.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

import pytest
from xdist.scheduler import LoadScopeScheduling

FAMILY = re.compile(
    r"tests/engines/(?:contract/test_every_arm|stacks/test_explained)\.py::\w+\[(\w+)"
)
"""Tests of arms of one name's beginning, which share their models, and of an arm its index."""

BROWSER = "tests/browser"
"""To start one takes a second, and it ends where another folder's tests follow."""
EACH = "tests/mutants/test_all.py"
"""Each test of it is a run of tests."""
WAITING = 1
"""Processes beyond one a processor: a test that waits for a server leaves its processor idle."""


def usable() -> int:
    """Give the number of processors that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processes() -> int:
    """Give the number of processes that share the tests: of processors it may use, and waiting."""
    return usable() + WAITING


def scope(node: str) -> str:
    """Name what a test is given to a process with: its file, its browser, its family of engines."""
    if node.startswith(EACH):
        return node
    if node.startswith(f"{BROWSER}/"):
        return BROWSER
    family = FAMILY.match(node)
    return family[1] if family else node.partition("::")[0]


class Spread(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Gives a process the tests of one scope."""

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)


def longest_first(items: list[pytest.Item], costs: Mapping[str, int]) -> None:
    """Put what takes long before the rest, so that no process is left with it at the end.

    A file that the table does not know comes before the short ones where it holds a slow test.
    """
    slow = {scope(item.nodeid) for item in items if item.get_closest_marker("slow")}

    def share(item: pytest.Item) -> int:
        name = scope(item.nodeid)
        return costs.get(name, int(name in slow))

    items.sort(key=share, reverse=True)
