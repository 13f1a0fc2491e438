"""Divergences asked again: still there, fixed, or changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.agreement import Class
from harness.core.engine import Answer
from harness.shadow.divergences import Again, Now, again, questions
from harness.shadow.record import Divergence
from tests.make.shadow.attempts import divergence
from tests.shadow.arms import OTHER, Arm, hits

LIMIT_NS = 10**10


def shows(ids: str) -> Arm:
    return Arm(act=lambda *_: Answer(hits(ids), OTHER.fingerprint))


def once(found: Divergence, control: str, candidate: str) -> Again:
    arms = shows(control), shows(candidate)
    (one,) = again(questions([found]), *arms, time_limit_ns=LIMIT_NS)
    return one


@pytest.mark.parametrize(
    ("control", "candidate", "outcome", "now"),
    [
        ("ab", "ba", Class.REORDER, Now.STILL),
        ("ab", "ab", Class.EXACT, Now.FIXED),
        ("", "", Class.BOTH_EMPTY, Now.FIXED),
        ("ab", "cd", Class.DISJOINT, Now.CHANGED),
        ("ab", "", Class.SHADOW_EMPTY, Now.CHANGED),
    ],
)
def test_what_became_of_a_reordering(
    control: str, candidate: str, outcome: Class, now: Now
) -> None:
    one = once(divergence(1, Class.REORDER, "ab", "ba"), control, candidate)
    assert (one.outcome, one.now) == (outcome, now)
    assert one.control_moved is (control != "ab")


def test_the_order_of_the_control_counts_as_moved() -> None:
    assert once(divergence(1, Class.REORDER, "ab", "ba"), "ba", "ab").control_moved


def test_a_failure_that_fails_again_is_still_there() -> None:
    def broken(*_: object) -> Answer:
        raise RuntimeError("it broke")

    found = replace(divergence(1, Class.ERROR, "ab", ""), outcome=Class.ERROR)
    (one,) = again(questions([found]), Arm(), Arm(act=broken), time_limit_ns=LIMIT_NS)
    assert (one.outcome, one.now) == (Class.ERROR, Now.STILL)
    assert "it broke" in one.candidate.error


def test_only_the_first_k_are_compared_and_params_are_handed_on() -> None:
    control, candidate = Arm(), Arm()
    found = replace(divergence(1, Class.DISJOINT, "a", "b", text="abc", k=2), params={"x": 1})
    (one,) = again(questions([found]), control, candidate, time_limit_ns=LIMIT_NS)
    assert one.now is Now.FIXED
    assert control.asked == candidate.asked == [("abc", 2, {"x": 1})]


def test_what_asks_the_same_is_asked_once_by_its_latest_record() -> None:
    old, new = (divergence(n, Class.REORDER, "ab", "ba", text="twice") for n in (1, 2))
    other = replace(divergence(3, Class.REORDER, "ab", "ba", text="twice"), params={"x": 1})
    deep = divergence(4, Class.REORDER, "ab", "ba", text="twice", k=50)
    found = questions([new, other, deep, old])
    assert [(one.times, one.latest.number) for one in found] == [(2, 2), (1, 3), (1, 4)]
