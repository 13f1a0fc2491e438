"""Which tests a run leaves to ``--all``, and what it keeps in their place.

``whole(kept)`` marks a test that is like another of every run, named ``kept``, only larger.
``sampled(n)`` keeps ``n`` cases of a test, spread over its list from the first to the last;
``sampled`` alone keeps as many as it takes to try each value of each parameter once. A test that is
named by its id is run as it stands. Of a property ``examples(n)`` are drawn: a fifth, and ``n``
under ``--all``.
"""

from collections.abc import Iterable, Iterator, Sequence

import pytest
from hypothesis import settings

WHOLE, SAMPLED = "whole", "sampled"
PART = 5
PROFILES = {False: "untimed", True: "untimed, all"}
"""Of Hypothesis, by whether all is run; they are told apart by their names."""


def examples(named: int) -> int:
    """Return how many examples of a property are drawn in this run."""
    return named if settings.get_current_profile_name() == PROFILES[True] else named // PART


def thin(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out of a run what it leaves to ``--all``."""
    if config.getoption("--all") or any("::" in asked for asked in config.args):
        return
    out = {id(item) for item in left(items)}
    items[:] = [item for item in items if id(item) not in out]


def left(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Name the tests that are left to ``--all``."""
    kept = {id(item) for item in _kept(items)}
    return [item for item in items if id(item) not in kept]


def spread(count: int, few: int) -> frozenset[int]:
    """Return ``few`` places of a list of ``count``, its first and its last among them."""
    if few >= count:
        return frozenset(range(count))
    return frozenset(at * (count - 1) // max(few - 1, 1) for at in range(few))


def covering(cases: Sequence[frozenset[tuple[str, str]]]) -> frozenset[int]:
    """Return places of cases that have between them each value of each parameter."""
    seen: set[tuple[str, str]] = set()
    kept = set()
    for wanted in (all, any):
        for at, case in enumerate(cases):
            if at not in kept and wanted(value not in seen for value in case):
                kept.add(at)
                seen |= case
    return frozenset(kept)


def _kept(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    of_test: dict[str, list[pytest.Item]] = {}
    for item in items:
        if not item.get_closest_marker(WHOLE):
            of_test.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in of_test.values():
        mark = cases[0].get_closest_marker(SAMPLED)
        if mark is None:
            yield from cases
        else:
            tried = [_tried(case) for case in cases]
            few = spread(len(cases), *mark.args) if mark.args else covering(tried)
            yield from (cases[at] for at in sorted(few))


def _tried(item: pytest.Item) -> frozenset[tuple[str, str]]:
    """Name the parameters of a case, each with its value."""
    found = getattr(item, "callspec", None)
    return (
        frozenset((name, repr(value)) for name, value in found.params.items())
        if found
        else frozenset()
    )
