"""What is accepted does not block; what diverged is asked again."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from harness.agreement import Class
from harness.core.engine import Answer
from harness.core.errors import BadPolicy
from harness.shadow.divergences import (
    AcceptedDivergence,
    DivergenceReview,
    Diverging,
    Now,
    Suppressions,
    SuppressionStatus,
    again,
    questions,
)
from harness.shadow.record import query_key
from harness.shadow.settings import accept, read_suppressions
from tests.make.shadow_records import attempt, divergence
from tests.shadow.arms import OTHER, Arm, hits

TODAY = date(2026, 11, 22)
KEY = query_key("a query", {})
TIES = AcceptedDivergence.of("ties are broken by id", "Ada", TODAY, kind=Class.TIE_ORDER)


OLD = date(2026, 11, 21)


def entry(until: date = TODAY, **about: str) -> AcceptedDivergence:
    return AcceptedDivergence.of("r", "b", until, **about)


IDS, OVER = entry(slice="id", kind="reorder"), entry(OLD, kind="tie_order")


@pytest.mark.parametrize(
    ("entries", "kind", "slices", "query", "said"),
    [
        ((TIES,), Class.TIE_ORDER, (), KEY, SuppressionStatus.ACCEPTED),
        ((TIES,), Class.REORDER, (), KEY, SuppressionStatus.OPEN),
        ((IDS,), Class.REORDER, ("id",), KEY, SuppressionStatus.ACCEPTED),
        ((IDS,), Class.REORDER, ("words",), KEY, SuppressionStatus.OPEN),
        ((entry(query=KEY),), Class.DISJOINT, (), KEY, SuppressionStatus.ACCEPTED),
        ((entry(query=KEY),), Class.DISJOINT, (), "f" * 32, SuppressionStatus.OPEN),
        ((entry(query=KEY, kind="overlap"),), Class.DISJOINT, (), KEY, SuppressionStatus.OPEN),
        ((entry(OLD, query=KEY),), Class.DISJOINT, (), KEY, SuppressionStatus.EXPIRED),
        ((OVER, TIES), Class.TIE_ORDER, (), KEY, SuppressionStatus.ACCEPTED),
        ((TIES, OVER), Class.TIE_ORDER, (), KEY, SuppressionStatus.ACCEPTED),
    ],
)
def test_an_entry_covers_what_it_names_until_its_day(
    entries: tuple[AcceptedDivergence, ...],
    kind: Class,
    slices: tuple[str, ...],
    query: str,
    said: SuppressionStatus,
) -> None:
    assert Suppressions(accepted=entries).standing(kind, slices, query, today=TODAY) is said


WHOLE = {
    "class": '"reorder"', "reason": '"r"', "by": '"A"', "until": "2027-01-01",
}  # fmt: skip


def written(**changed: str) -> str:
    """Write an entry; empty texts leave a key out."""
    lines = [f"{key} = {text}" for key, text in {**WHOLE, **changed}.items() if text]
    return "\n".join(["[[accepted]]", *lines, ""])


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (written(reason=""), 1, "reason: is miss"),
        (written(**{"class": '"error"'}), 2, "can be accepted are"),
        (written(**{"class": "", "slice": '"id"'}), 1, "name a class or a query"),
        (written(until="", untill="2027-01-01"), 5, "untill: unknown key"),
        (None, None, "Write an empty file"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    tmp_path: Path, text: str | None, line: int | None, says: str
) -> None:
    path = tmp_path / "accepted.toml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(BadPolicy, match=says) as raised:
        read_suppressions(path)
    assert raised.value.line == line
    assert raised.value.hint


def test_an_entry_is_added_once_and_nothing_else_changes(tmp_path: Path) -> None:
    path = tmp_path / "accepted.toml"
    path.write_text("# ours\n", encoding="utf-8")
    odd = AcceptedDivergence.of(
        'say "why"\\\n\x7f é [x]', "Bea", date(2027, 1, 1), query=KEY, slice="a=b"
    )
    accept(path, TIES, today=TODAY)
    for _ in range(2):
        found = accept(path, odd, today=TODAY)
        assert found.entries == (TIES, odd)
        text = path.read_text(encoding="utf-8")
        assert text.startswith("# ours\n\n[[accepted]]\nclass = ")
        assert len(tomllib.loads(text)["accepted"]) == 2


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
    judged = DivergenceReview.of(found.traces(), Suppressions(accepted=(TIES,)), today=TODAY)
    assert [trace.outcome for trace, _ in judged.standing] == [
        "disjoint", "overlap", "tie_order", "timeout",
    ]  # fmt: skip
    assert [trace.text for trace in judged.blocking] == ["other", ""]
    assert judged.blocking[1].jaccard == 0.2
    assert judged.blocking[1].times == 2
    assert judged.counts == {
        SuppressionStatus.OPEN: 3,
        SuppressionStatus.ACCEPTED: 3,
        SuppressionStatus.FAILED: 1,
    }


LIMIT_NS = 10**10


def shows(ids: str) -> Arm:
    return Arm(act=lambda *_: Answer(hits(ids), OTHER.fingerprint))


@pytest.mark.parametrize(
    ("control", "candidate", "outcome", "now"),
    [
        ("ab", "ba", Class.REORDER, Now.STILL),
        ("ab", "ab", Class.EXACT, Now.FIXED),
        ("ba", "ab", Class.REORDER, Now.STILL),
        ("", "", Class.BOTH_EMPTY, Now.FIXED),
        ("ab", "cd", Class.DISJOINT, Now.CHANGED),
        ("ab", "", Class.SHADOW_EMPTY, Now.CHANGED),
    ],
)
def test_what_became_of_a_reordering(
    control: str, candidate: str, outcome: Class, now: Now
) -> None:
    found = questions([divergence(1, Class.REORDER, "ab", "ba")])
    (one,) = again(found, shows(control), shows(candidate), time_limit_ns=LIMIT_NS)
    assert (one.outcome, one.now) == (outcome, now)
    assert one.control_moved is (control != "ab"), "another order counts as moved"


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
