"""Joined tokens are found whole, in a text and in what was typed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.lexical.grammar import MOST_WORDS
from engines.lexical.grammar import exact_clauses as clauses
from engines.lexical.terms import LONGEST_BYTES, identifiers


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see br-2tnl.", ("br-2tnl",)),
        ("BR-2TNL.1.3, then br-2tnl", ("br-2tnl.1.3", "br-2tnl")),
        ("read_csv(./src/app.py)", ("read_csv", "src/app.py")),
        ("https://example.org/a_b?c=d", ("example.org/a_b",)),
        ("--no-verify and __init__.py", ("no-verify", "init__.py")),
        ("v1.2.3-rc.1", ("v1.2.3-rc.1",)),
        ("Straße-Ärger 部署/失败", ("straße-ärger", "部署/失败")),
        ("br-2tnl br-2tnl", ("br-2tnl", "br-2tnl")),
        ("since 9428bc6, not 9428bc", ("9428bc6",)),
        ("1234567 ABCDEF1 abcdefg 10ms 2nd", ("1234567", "abcdef1")),
        ("é9428bc6 9428bc6é 9428bc\uff16 部署2024年失败了", ()),
        ("commit_9428bc6", ("commit_9428bc6",)),
        ("plain words, a - b, c/ d don't x:y C++", ()),
        ("", ()),
    ],
)
def test_joined_tokens_are_found_whole(text: str, found: tuple[str, ...]) -> None:
    assert identifiers(text) == found


def test_what_is_too_long_is_no_identifier() -> None:
    longest = "a-" + "é" * ((LONGEST_BYTES - 2) // 2)
    assert identifiers(f"{longest} {longest}éé") == (longest,)


@given(st.text(alphabet=st.sampled_from("aB1é部-_./ :,\n"), max_size=40))
def test_an_identifier_is_its_own_identifier(text: str) -> None:
    for token in identifiers(text):
        assert identifiers(token) == (token,)
        assert token in text.lower()
        assert token[0].isalnum()
        assert token[-1].isalnum()


def test_a_clause_keeps_the_sign_that_joins_its_words() -> None:
    found = clauses('+br-2tnl -"salt/water" read_csv cra*')
    assert [clause.text for clause in found] == ["br-2tnl", "salt/water", "read_csv", "cra*"]


def test_a_clause_cut_short_has_the_text_of_the_words_that_are_left() -> None:
    (clause,) = clauses("-".join(["ab"] * (MOST_WORDS + 5)))
    assert clause.text == "-".join(clause.words) == "-".join(["ab"] * MOST_WORDS)
