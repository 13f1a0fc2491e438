"""The last try finds what was typed in texts, also within words, and says where."""

from __future__ import annotations

import pytest

from engines.lexical.query import Like


@pytest.mark.parametrize(
    ("query", "text", "has"),
    [
        ("eal", "a Real thing", True),
        ("real  thing", "a Real\nthing", True),
        ("thing -real", "a Real thing", False),
        ("猫", "黒猫がいる", True),
        ("cafe\u0301", "Le CAFÉ noir", True),
        ("operate", "co\xadop\xaderate", True),
        ("::", "std::vector", True),
        ("", "anything", False),
    ],
)
def test_what_contains_a_query(query: str, text: str, *, has: bool) -> None:
    assert Like.of(query).has(text) is has


@pytest.mark.parametrize(
    ("query", "text", "there"),
    [
        ("noir", "Le cafe\u0301 noir", "noir"),
        ("cafe", "Un ﬁlet, cafe\u0301", "cafe\u0301"),
        ("がいる", "ﬃ 黒猫か\u3099いる", "か\u3099いる"),
        ("nowhere", "Le café", "Le café"),
    ],
)
def test_a_place_is_one_of_the_text_itself(query: str, text: str, there: str) -> None:
    assert text[Like.of(query).at(text) :] == there
