"""What is accepted does not block; what diverged is asked again."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from harness.agreement import Class
from harness.core.engine import Answer
from harness.core.errors import BadPolicy, EvidenceError
from harness.shadow.divergences import (
    ACCEPTABLE,
    Accepted,
    Again,
    Diverging,
    Judged,
    Now,
    Standing,
    Suppressions,
    again,
    questions,
)
from harness.shadow.record import Divergence, query_key
from harness.shadow.settings import accept, read_suppressions
from tests.make.shadow.attempts import ROOT, attempt, divergence
from tests.shadow.arms import OTHER, Arm, hits

TODAY = date(2026, 11, 22)


KEY = query_key("a query", {})


TIES = Accepted.of("ties are broken by id", "Ada", TODAY, kind=Class.TIE_ORDER)


@pytest.mark.parametrize(
    ("entry", "kind", "slices", "query", "said"),
    [
        (TIES, Class.TIE_ORDER, (), KEY, Standing.ACCEPTED),
        (TIES, Class.REORDER, (), KEY, Standing.OPEN),
        (Accepted.of("r", "b", TODAY, slice="id", kind=Class.REORDER), Class.REORDER, ("id",), KEY,
         Standing.ACCEPTED),
        (Accepted.of("r", "b", TODAY, slice="id", kind=Class.REORDER), Class.REORDER, ("words",),
         KEY, Standing.OPEN),
        (Accepted.of("r", "b", TODAY, query=KEY), Class.DISJOINT, (), KEY, Standing.ACCEPTED),
        (Accepted.of("r", "b", TODAY, query=KEY), Class.DISJOINT, (), "f" * 32, Standing.OPEN),
        (Accepted.of("r", "b", TODAY, query=KEY, kind=Class.OVERLAP), Class.DISJOINT, (), KEY,
         Standing.OPEN),
        (Accepted.of("r", "b", date(2026, 11, 21), query=KEY), Class.DISJOINT, (), KEY,
         Standing.EXPIRED),
    ],
)  # fmt: skip
def test_an_entry_covers_what_it_names(
    entry: Accepted, kind: Class, slices: tuple[str, ...], query: str, said: Standing
) -> None:
    assert Suppressions(accepted=(entry,)).standing(kind, slices, query, today=TODAY) is said


def test_a_later_entry_renews_one_that_expired() -> None:
    old = Accepted.of("r", "b", date(2026, 1, 1), kind=Class.TIE_ORDER)
    assert Suppressions(accepted=(old, TIES)).standing(Class.TIE_ORDER, (), KEY, today=TODAY) is (
        Standing.ACCEPTED
    )
    assert Suppressions(accepted=(TIES, old)).standing(Class.TIE_ORDER, (), KEY, today=TODAY) is (
        Standing.ACCEPTED
    )


def test_a_failure_is_no_class_that_can_be_accepted() -> None:
    assert not ACCEPTABLE & {Class.ERROR, Class.TIMEOUT, Class.EXACT, Class.SHED, Class.STALE}
    assert {Class.TIE_ORDER, Class.DISJOINT, Class.SHADOW_EMPTY} <= ACCEPTABLE


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("[[accepted]\n", 1, "is not TOML"),
        ('[[accepted]]\nclass = "tie_order"\nby = "A"\nuntil = 2027-01-01\n', 1, "reason: is miss"),
        ('[[accepted]]\nclass = "ties"\nreason = "r"\nby = "A"\nuntil = 2027-01-01\n', 2,
         "can be accepted are disjoint, exp"),
        ('[[accepted]]\nclass = "error"\nreason = "r"\nby = "A"\nuntil = 2027-01-01\n', 2,
         "can be accepted are"),
        ('[[accepted]]\nclass = "reorder"\nreason = " "\nby = "A"\nuntil = 2027-01-01\n', 3,
         "reason"),
        ('[[accepted]]\nquery = "12"\nreason = "r"\nby = "A"\nuntil = 2027-01-01\n', 2, "query"),
        ('[[accepted]]\nslice = "id"\nreason = "r"\nby = "A"\nuntil = 2027-01-01\n', 1,
         "name a class or a query"),
        ('[[accepted]]\nclass = "reorder"\nreason = "r"\nby = "A"\nuntil = "soon"\n', 5, "until"),
        ('[[accepted]]\nclass = "reorder"\nreason = "r"\nby = "A"\nuntill = 2027-01-01\n', 5,
         "untill: unknown key"),
        ('[[acepted]]\nclass = "reorder"\n', 1, "acepted: unknown key"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(
    tmp_path: Path, text: str, line: int, says: str
) -> None:
    path = tmp_path / "accepted.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadPolicy, match=says) as raised:
        read_suppressions(path)
    assert raised.value.line == line
    assert raised.value.hint


def test_an_entry_is_added_and_nothing_else_changes(tmp_path: Path) -> None:
    path = tmp_path / "accepted.toml"
    path.write_text("# ours\n", encoding="utf-8")
    odd = Accepted.of('say "why"\\\n\x7f é [x]', "Bea", date(2027, 1, 1), query=KEY, slice="a=b")
    accept(path, TIES, today=TODAY)
    found = accept(path, odd, today=TODAY)
    assert found.entries == (TIES, odd)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# ours\n\n[[accepted]]\nclass = ")
    assert len(tomllib.loads(text)["accepted"]) == 2


def test_the_same_entry_once_more_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "accepted.toml"
    accept(path, TIES, today=TODAY)
    before = path.read_bytes()
    assert accept(path, TIES, today=TODAY).entries == (TIES,)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (
            lambda: TIES.model_copy(update={"by": "Bea"}),
            "is accepted until 2026-11-22 already, by Ada",
        ),
        (
            lambda: Accepted.of("r", "b", date(2026, 11, 21), query=KEY),
            "until 2026-11-21 has passed",
        ),
        (lambda: Accepted.of(" ", "b", TODAY, query=KEY), "reason"),
        (lambda: Accepted.of("r", "", TODAY, query=KEY), "by"),
        (lambda: Accepted.of("r", "b", TODAY, slice="id"), "name a class or a query"),
        (lambda: Accepted.of("r", "b", TODAY, query="xyz"), "query"),
        (lambda: Accepted.of("r", "b", TODAY, kind=Class.ERROR), "class: can be accepted are"),
    ],
)
def test_an_entry_that_is_impossible_leaves_the_register_alone(
    tmp_path: Path, entry: Callable[[], Accepted], says: str
) -> None:
    path = tmp_path / "accepted.toml"
    accept(path, TIES, today=TODAY)
    before = path.read_bytes()
    with pytest.raises(EvidenceError, match=says):
        accept(path, entry(), today=TODAY)
    assert path.read_bytes() == before


def test_the_register_that_ships_accepts_nothing() -> None:
    assert read_suppressions(ROOT / "policy" / "accepted.toml").entries == ()


def test_a_register_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadPolicy, match="Write an empty file"):
        read_suppressions(tmp_path / "none.toml")


def test_traces_are_held_against_the_register_the_worst_first() -> None:
    found = Diverging()
    for number in range(1, 4):
        found.see(attempt(number, text="ties", outcome=Class.TIE_ORDER))
    found.see(attempt(4, text="other", outcome=Class.DISJOINT, jaccard=0.0))
    found.see(attempt(5, text="half", outcome=Class.OVERLAP, jaccard=0.5))
    found.see(attempt(6, text="half", outcome=Class.OVERLAP, jaccard=0.2))
    found.see(attempt(7, text="same"))
    found.see(attempt(8, text="late", outcome=Class.TIMEOUT, jaccard=None))
    found.tell(divergence(4, Class.DISJOINT, ["a"], ["b"], text="other"))
    judged = Judged.of(found.traces(), Suppressions(accepted=(TIES,)), today=TODAY)
    assert [trace.outcome for trace, _ in judged.standing] == [
        "disjoint", "overlap", "tie_order", "timeout",
    ]  # fmt: skip
    assert [trace.text for trace in judged.blocking] == ["other", ""]
    assert judged.blocking[1].jaccard == 0.2
    assert judged.blocking[1].times == 2
    assert judged.counts == {Standing.OPEN: 3, Standing.ACCEPTED: 3, Standing.FAILED: 1}


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
