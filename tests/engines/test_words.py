"""Words: one form of every text, identifiers, terms and parts of words."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness_engines.lexical.grammar import exact_clauses
from harness_engines.lexical.terms import Normal, folded, identifiers, indexed, passage, terms

ALPHABETS = (
    "aZé ßİﬁ½²™K-\n\u0301\xad\u200d\u200b가ᄀ\u1161\u11a8ｶﾞがハ\u3099東ไำ่क्षिन्दी"
    "שָאَأـ👍\U0001f3fd\ufe0f㎏ⅫαΣς"
)
texts = st.text(max_size=20) | st.text(ALPHABETS, max_size=20)


@given(texts)
@example("A\u0e33")
def test_a_form_is_its_own_form(text: str) -> None:
    assert folded(folded(text)) == folded(text)


@given(texts)
def test_how_a_text_is_composed_does_not_count(text: str) -> None:
    for kind in ("NFC", "NFD"):
        other = folded(unicodedata.normalize(kind, text))
        assert other.lower() == folded(text).lower(), kind
    plain = text.encode("ascii", "ignore").decode()
    assert folded(plain) == plain
    assert Normal.of(plain).text == plain


@given(texts)
def test_each_character_stands_for_some_of_the_text(text: str) -> None:
    """What a character stands for has it in its form, and comes in the order of the text."""
    normal = Normal.of(text)
    assert normal.text == folded(text)
    before = 0
    for at, sign in enumerate(normal.text):
        start, end = normal.span(at, at + 1)
        assert 0 <= start < end <= len(text)
        assert start >= before
        assert sign in folded(text[start:end])
        before = start


LETTERS = "东京大学αβγжзиłđøहिन्दแมวน้ำ가나다"

LIKE = (
    *("naïve", "ﬁne", "co\xadoperate", "x²", "3½", "Java™", "שָׁלוֹם", "ｶﾞｲﾄﾞ", "2020年"),
    *("👩\u200d💻", "-+"),
)


def code(word: str) -> str:
    return "zz" + word.encode().hex()


@given(st.lists(st.sampled_from(LIKE) | st.text(LETTERS, min_size=1), max_size=6).map(" ".join))
def test_a_text_finds_itself(text: str) -> None:
    """Every term of the clauses of a text stands in what is indexed of it, in any case."""
    written = re.findall(r"[a-z0-9]+", indexed(text).lower())
    typed = [term for one in exact_clauses(text) for word in one.words for term in terms(word)]
    for term in typed:
        assert term.lower() in written


def test_a_passage_is_of_the_text_itself() -> None:
    text = "Un ﬁlet, puis: le cafe\u0301 du 東京大学."
    assert passage(text, f"le cafe du  {code('東京')} {code('京大')}") == "le cafe\u0301 du 東京大"
    assert passage("read_csv (x)", "csv (x)") == "csv (x)"
    for said in ("(J'ai mangé une crème.)", "# Été à Paris\n\nLe musée d'Orsay, délicieuse.\n"):
        assert passage(said, indexed(said)) == said
    assert passage("Où est J. Doe, né ici?", "J. Doe, ne") == "J. Doe, né"
    assert passage("Où est J. Doe, né ici?", "J. Doe, ne ici?") == "J. Doe, né ici?"


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
