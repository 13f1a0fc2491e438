"""``surface.hints``: what is a hint, what stays text, and what may have been meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.stacks.agent_mail.mcp_tools import arguments
from engines.stacks.agent_mail.mcp_tools.arguments import HINT_ALIASES, HintField, Slip, distance


def all_of(text: str) -> arguments.Typed:
    return arguments.read_hints(text, lambda _: True)


@pytest.mark.parametrize(
    ("name", "field"),
    [(name, field) for field, names in HINT_ALIASES.items() for name in (field.value, *names)],
)
def test_every_name_of_a_field_is_taken_out(name: str, field: HintField) -> None:
    found = all_of(f"plan {name.upper()}:x token")
    assert found.text == "plan token"
    assert [(hint.field, hint.value, hint.typed) for hint in found.taken] == [
        (field, "x", f"{name.upper()}:x")
    ]
    assert found.slips == ()


@pytest.mark.parametrize(
    ("text", "left", "values"),
    [
        ('thread:"a b" plan', "plan", ["a b"]),
        ("from:Ann from:Bob", "", ["Ann", "Bob"]),
        ("a  from:Ann  b", "a b", ["Ann"]),
        ("after:2026-05-01T10:00", "", ["2026-05-01T10:00"]),
        ('"from:Ann" plan', '"from:Ann" plan', []),
        ("-from:Ann", "-from:Ann", []),
        ("xfrom:Ann", "xfrom:Ann", []),
        ("from: Ann", "from: Ann", []),
        ('from:"" x', 'from:"" x', []),
        ('from:Ann"x"', 'from:Ann"x"', []),
        ("from", "from", []),
        ("http://from:80", "http://from:80", []),
        ("  untouched   text ", "  untouched   text ", []),
        ("", "", []),
    ],
)
def test_a_hint_stands_by_itself(text: str, left: str, values: list[str]) -> None:
    typed = all_of(text)
    assert (typed.text, [hint.value for hint in typed.taken]) == (left, values)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("form:Ann", "from:Ann"),
        ("fron:Ann", "from:Ann"),
        ("frm:Ann", "from:Ann"),
        ("tread:t1", "thread:t1"),
        ("importnce:high", "importance:high"),
        ("befor:2026-05-01", "before:2026-05-01"),
        ("afterr:2026-05-01", "after:2026-05-01"),
        ("Projekt:x", "project:x"),
        ('tread:"a b"', 'thread:"a b"'),
    ],
)
def test_a_near_miss_stays_text_and_is_pointed_at(typed: str, meant: str) -> None:
    found = all_of(f"plan {typed}")
    assert found.text == f"plan {typed}"
    assert found.taken == ()
    assert found.slips == (Slip(typed, meant),)


@pytest.mark.parametrize("text", ["note:x", "http:x", "subject:plan", "a:b", "f:x", "cc:Ann"])
def test_a_far_miss_is_text(text: str) -> None:
    assert all_of(text) == arguments.Typed(text, (), ())


def test_of_equally_near_fields_the_first_by_name_is_meant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arguments, "distance", lambda *_: 2)
    assert all_of("x:y").slips == (Slip("x:y", "after:y"),)


def test_a_hint_that_is_not_taken_stays() -> None:
    found = arguments.read_hints("after:soon from:Ann", lambda hint: hint.field is HintField.FROM)
    assert found.text == "after:soon"


WORDS = st.text("abc", max_size=5)


@given(WORDS, WORDS, WORDS)
def test_edit_distance_is_a_metric(a: str, b: str, c: str) -> None:
    assert (distance(a, b) == 0) == (a == b)
    assert distance(a, b) == distance(b, a)
    assert distance(a, c) <= distance(a, b) + distance(b, c)


@pytest.mark.parametrize(
    ("one", "other", "away"), [("kitten", "sitting", 3), ("", "abc", 3), ("flaw", "lawn", 2)]
)
def test_edit_distance_by_hand(one: str, other: str, away: int) -> None:
    assert distance(one, other) == away


@given(st.text(max_size=60))
def test_no_text_is_an_error(text: str) -> None:
    typed = all_of(text)
    assert typed.taken or typed.text == text
