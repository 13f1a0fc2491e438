"""One class a query."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.agreement import Class, Pair, Tally, classify, tally
from harness.core.errors import EvidenceError
from harness.core.run import Run, Status
from tests.agreement.strategies import rankings
from tests.make.runs import run_of


def classes(control: Run, candidate: Run, depth: int = 10) -> tuple[Class, ...]:
    pair = Pair.of(control, candidate)
    return classify(control, candidate, pair, depth=depth, shed=(), stale=())


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        ("", "", Class.BOTH_EMPTY),
        ("", "a", Class.SERVING_EMPTY),
        ("a", "", Class.SHADOW_EMPTY),
        ("abc", "abc", Class.EXACT),
        ("abc", "acb", Class.REORDER),
        ("abc", "bacd", Class.EXPANSION),
        ("abc", "ab", Class.TRUNCATION),
        ("abc", "c", Class.TRUNCATION),
        ("abc", "abx", Class.OVERLAP),
        ("abc", "xyz", Class.DISJOINT),
    ],
)
def test_how_two_lists_differ(a: str, b: str, wanted: Class) -> None:
    assert classes(run_of({"q": a}), run_of({"q": b})) == (wanted,)


@pytest.mark.parametrize(
    ("a", "b", "depth", "wanted"),
    [
        ("abcd", "abdc", 2, Class.EXACT),
        ("abcd", "abdc", 3, Class.OVERLAP),
        ("abcd", "bacx", 3, Class.REORDER),
        ("abcd", "ab", 2, Class.EXACT),
        ("ab", "abcd", 3, Class.EXPANSION),
    ],
)
def test_only_what_lies_within_the_depth_counts(a: str, b: str, depth: int, wanted: Class) -> None:
    assert classes(run_of({"q": a}), run_of({"q": b}), depth) == (wanted,)


@pytest.mark.parametrize(
    ("control", "candidate", "wanted"),
    [
        ([3, 2, 2, 1], [3, 2, 2, 1], Class.TIE_ORDER),
        ([3, 2, 2, 1], [9, 7, 7, 7], Class.TIE_ORDER),
        ([3, 2, 1, 0], [3, 2, 2, 1], Class.REORDER),
        ([3, 2, 2, 1], [3, 2, 1, 0], Class.REORDER),
        ([3, 3, 2, 2], [3, 3, 2, 2], Class.REORDER),
        ([2, 1, 2, 1], [2, 1, 2, 1], Class.REORDER),
    ],
)
def test_tie_order_is_a_move_among_equals_of_both_arms(
    control: list[float], candidate: list[float], wanted: Class
) -> None:
    a = run_of({"q": "abcd"}, scores={"q": control})
    b = run_of({"q": "acbd"}, scores={"q": candidate})
    assert classes(a, b) == (wanted,)


def test_lists_of_other_queries_do_not_matter() -> None:
    control = run_of({"p": "ab", "q": "abcdef", "r": ""})
    candidate = run_of({"q": "abcde", "p": "ab", "r": "abcdefgh"})
    wanted = (Class.EXACT, Class.TRUNCATION, Class.SERVING_EMPTY)
    assert classes(control, candidate) == wanted


A = Status.ANSWERED


@pytest.mark.parametrize(
    ("control", "candidate", "wanted"),
    [
        (Status.FAILED, A, Class.ERROR),
        (A, Status.FAILED, Class.ERROR),
        (Status.FAILED, Status.FAILED, Class.ERROR),
        (Status.TIMED_OUT, Status.FAILED, Class.ERROR),
        (Status.TIMED_OUT, A, Class.TIMEOUT),
        (A, Status.TIMED_OUT, Class.TIMEOUT),
        (A, Status.NOT_ASKED, Class.SKIPPED),
        (Status.NOT_ASKED, Status.FAILED, Class.SKIPPED),
    ],
)
def test_an_arm_that_did_not_answer_is_no_empty_answer(
    control: Status, candidate: Status, wanted: Class
) -> None:
    a, b = (run_of({"q": []}, ended={"q": status}) for status in (control, candidate))
    assert classes(a, b) == (wanted,)


def test_shed_and_stale_queries_are_named_by_who_saw_them() -> None:
    run = run_of({"p": "ab", "q": "ab", "r": "ab"}, ended={"q": Status.FAILED})
    pair = Pair.of(run, run)
    found = classify(run, run, pair, depth=10, shed=["q"], stale=["p", "q"])
    assert found == (Class.STALE, Class.SHED, Class.EXACT)
    with pytest.raises(EvidenceError, match="not in the runs"):
        classify(run, run, pair, depth=10, shed=["x"], stale=())


@settings(deadline=None)
@given(a=rankings, b=rankings)
def test_swapping_the_arms_mirrors_the_class(a: list[str], b: list[str]) -> None:
    mirror = {
        Class.EXPANSION: Class.TRUNCATION,
        Class.TRUNCATION: Class.EXPANSION,
        Class.SERVING_EMPTY: Class.SHADOW_EMPTY,
        Class.SHADOW_EMPTY: Class.SERVING_EMPTY,
    }
    (here,) = classes(run_of({"q": a}), run_of({"q": b}))
    (there,) = classes(run_of({"q": b}), run_of({"q": a}))
    assert there == mirror.get(here, here)


@given(st.lists(st.sampled_from(list(Class))))
def test_no_comparison_is_lost_or_counted_twice(found: list[Class]) -> None:
    counts = tally(found)
    assert counts.attempted == len(found)
    assert counts.compared + counts.errored + counts.skipped + counts.shed == len(found)


def test_a_skipped_comparison_is_not_an_equal_one() -> None:
    found = [Class.EXACT, Class.BOTH_EMPTY, Class.SKIPPED, Class.STALE, Class.TIMEOUT, Class.SHED]
    assert tally(found) == Tally(attempted=6, compared=2, errored=1, skipped=2, shed=1)


def test_counts_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(EvidenceError, match="does not add up"):
        tally(["exact", "equalish"])
    with pytest.raises(EvidenceError, match="does not add up"):
        Tally(attempted=3, compared=3, errored=0, skipped=1, shed=0)
