"""What sessions prefer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.core.errors import EvidenceError
from harness.shadow.clicks.log import Clicks, ShownList
from harness.shadow.clicks.sessions import preferences
from harness.stats.sequential.anytime import sign_test
from tests.shadow.clicks.test_log import AT, shown

ALONE = ShownList("alone", AT, "s", "q", ("fts5",), ("a",), (0,))


def test_lists_of_a_session_count_together() -> None:
    lists = (shown("1"), shown("2"), shown("3", "t"), shown("4", "u"))
    on = {"1": frozenset("a"), "2": frozenset("b"), "3": frozenset("a")}
    found = preferences(Clicks(lists, on, 0), confidence=0.95)
    one = found.candidates["tantivy"]
    assert (one.wins, one.losses, one.ties) == (1, 0, 2)
    assert one.estimate.value == pytest.approx(1 / 3)
    assert (found.sessions, found.lists, found.clicks) == (3, 4, 3)


def test_failed_and_unmixed_lists_give_no_credit_and_are_counted() -> None:
    failed = replace(shown("2", "t"), failed="tantivy: down", teams=(0, 0))
    on = {"1": frozenset("a"), "2": frozenset("b"), "alone": frozenset("a")}
    found = preferences(Clicks((shown("1"), failed, ALONE), on, 1), confidence=0.95)
    assert (found.sessions, found.failed, found.unmixed, found.strays) == (1, 1, 1, 1)
    assert found.candidates["tantivy"].losses == 0


def test_several_candidates_are_corrected() -> None:
    arms = ("a0", "a1", "a2")
    lists = tuple(
        ShownList(f"{at}", AT, f"{at}", "q", arms, ("x", "y", "z"), (0, 1, 2)) for at in range(8)
    )
    found = preferences(
        Clicks(lists, {f"{at}": frozenset("y") for at in range(8)}, 0), confidence=0.9
    )
    won, tied = found.candidates["a1"], found.candidates["a2"]
    assert (won.wins, tied.ties) == (8, 8)
    assert won.p_value == pytest.approx(2 * sign_test(8, 0))
    alone = tuple(replace(one, arms=arms[:2], documents=("x", "y"), teams=(0, 1)) for one in lists)
    pair = preferences(
        Clicks(alone, {f"{at}": frozenset("y") for at in range(8)}, 0), confidence=0.95
    )
    assert won.estimate == pair.candidates["a1"].estimate


def test_a_log_without_a_comparison_is_refused() -> None:
    with pytest.raises(EvidenceError, match=r"no mixed list; switch interleaving on"):
        preferences(Clicks((ALONE,), {}, 0), confidence=0.95)
    other = replace(shown("2"), arms=("fts5", "dense"))
    with pytest.raises(EvidenceError, match="lists of fts5, tantivy and of fts5, dense are in one"):
        preferences(Clicks((shown("1"), other), {}, 0), confidence=0.95)
