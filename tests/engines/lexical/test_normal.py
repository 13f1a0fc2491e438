"""Texts that look alike have one form, and each character of it stands for some of the text."""

from __future__ import annotations

import re
import timeit
import unicodedata
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engines.lexical.terms import Normal, folded, marks, word

ALPHABETS = (
    "aZé ßİﬁ½²™K-\n\u0301\xad\u200d\u200b가ᄀ\u1161\u11a8ｶﾞがハ\u3099東ไำ่क्षिन्दी"
    "שָאَأـ👍\U0001f3fd\ufe0f㎏ⅫαΣς"
)
texts = st.text(max_size=20) | st.text(ALPHABETS, max_size=20)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("Read it: TO-DO, x_1", "Read it: TO-DO, x_1"),
        ("naïve Café", "naive Cafe"),
        ("nai\u0308ve", "naive"),
        ("Straße", "Strasse"),
        ("ﬁne \uff21\uff22\uff23\uff11", "fine ABC1"),
        ("co\xadoper\xadate", "cooperate"),
        ("ひらｶﾞﾅ", "ひらガナ"),
        ("한국", "한국"),
        ("हिन्दी", "हिन्दी"),
        ("น้ำ", "น้ํา"),
        ("שָׁלוֹם سَلَام", "שלום سلام"),
        ("йод ЁЛКА", "иод елка"),
        ("👍🏽 👩\u200d💻 ❤️", "👍 👩💻 ❤"),
        ("Java™ 3½ 5㎏", "Java tm  3 1\u20442  5 kg "),
        ("x² Ⅻ \u212a", "x2 XII K"),
    ],
)
def test_what_looks_alike_has_one_form(text: str, form: str) -> None:
    assert folded(text) == form


@given(texts)
@example("A\u0e33")
def test_a_form_is_its_own_form(text: str) -> None:
    assert folded(folded(text)) == folded(text)


def test_whatever_begins_with_a_mark_when_taken_apart_goes_with_the_letter_before() -> None:
    alone = [
        sign
        for sign in map(chr, range(0x80, 0x110000))
        if not unicodedata.category(sign).startswith("M")
        and unicodedata.category(unicodedata.normalize("NFKD", sign)[0]).startswith("M")
    ]
    assert alone
    assert [sign for sign in alone if folded(f"A{sign}") != folded(folded(f"A{sign}"))] == []


@given(texts)
def test_how_a_text_is_composed_does_not_count(text: str) -> None:
    for kind in ("NFC", "NFD"):
        other = folded(unicodedata.normalize(kind, text))
        assert other.lower() == folded(text).lower(), kind


@given(texts)
def test_ascii_stays(text: str) -> None:
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


@given(texts, st.data())
def test_a_stretch_of_the_form_is_one_of_the_text(text: str, data: st.DataObject) -> None:
    """What a stretch stands for has it in its form, and no more than is read with its ends."""
    normal = Normal.of(text)
    end = data.draw(st.integers(0, len(normal.text)))
    start = data.draw(st.integers(0, end))
    first, last = normal.span(start, end)
    if start < end:
        assert normal.text[start:end] in folded(text[first:last])
        assert (first, last) == (normal.span(start, start + 1)[0], normal.span(end - 1, end)[1])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("read_csv, don't", ["read", "csv", "don", "t"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("cafe\u0301 co\xadop", ["cafe\u0301", "co\xadop"]),
        ("ok👍🏽👎", ["ok", "👍🏽", "👎"]),
        ("┌─┐ © ∞ →", []),
    ],
)
def test_words_keep_their_marks_and_emoji_are_words(text: str, found: list[str]) -> None:
    assert word().findall(text) == found


def test_a_long_text_takes_no_longer_than_it_is() -> None:
    assert len(Normal.of("é" * 200_000).text) == 200_000
    assert len(word().findall("a\u0301" * 100_000 + "!")) == 1


def test_the_class_of_marks_has_every_mark_and_nothing_else() -> None:
    every = "".join(map(chr, range(0x20000)))
    found = re.findall(f"[{marks()}]", every)
    assert found == [sign for sign in every if unicodedata.category(sign).startswith("M")]


@pytest.mark.parametrize("beyond", ["", "é", "\u0301"])
def test_a_few_characters_beyond_ascii_do_not_slow_the_rest(beyond: str) -> None:
    """Marks are looked for beside characters beyond ASCII alone, not behind each letter."""
    plain, mixed = "some plain words " * 20_000, "some plain words " * 20_000 + beyond

    def measure(text: str) -> float:
        began = process_time()
        Normal.of(text), folded(text)
        return process_time() - began

    linear = min(timeit.repeat(lambda: re.sub("[^\x00-\x7f]", "", plain), number=1, repeat=5))
    assert min(measure(mixed) for _ in range(5)) < 20 * linear
