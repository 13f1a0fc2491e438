"""What is accepted does not block, what has expired does again."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from harness.agreement import Class
from harness.core.errors import BadPolicy, EvidenceError
from harness.shadow.divergences import (
    ACCEPTABLE,
    Accepted,
    Diverging,
    Judged,
    Standing,
    Suppressions,
)
from harness.shadow.files import accept, read_suppressions
from harness.shadow.record import query_key
from tests.make.shadow.attempts import ROOT, attempt, divergence

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
