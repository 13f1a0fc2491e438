"""Counts are the same in memory and on disk."""

from __future__ import annotations

import pytest

from harness.logs.querylog import Counted, Tally


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_counts_do_not_depend_on_what_is_held_in_memory(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.logs.querylog.AT_ONCE", at_once)
    with Tally.open() as tally:
        for key, results in (("b", 0), ("a", None), ("b", 3), ("c", 0), ("b", 0)):
            tally.add(key, key.upper(), masked=key == "c", results=results)
        assert [*tally.by_frequency()] == [
            Counted("b", "B", masked=False, requests=3, known=3, empty=2),
            Counted("a", "A", masked=False, requests=1, known=0, empty=0),
            Counted("c", "C", masked=True, requests=1, known=1, empty=1),
        ]
        assert [one.finds_nothing for one in tally.by_frequency()] == [True, False, True]
        assert (tally.count_of("b"), tally.count_of("x")) == (3, 0)
