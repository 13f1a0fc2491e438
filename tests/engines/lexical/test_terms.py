"""Terms are ASCII, the same in texts and in queries, and no two words share one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.lexical.grammar import exact_clauses
from engines.lexical.tantivy import analyzer
from engines.lexical.terms import (
    ClauseTerms,
    clause_terms,
    indexed,
    passage,
    places,
    spelled,
    terms,
)
from tests.engines.lexical.test_normal import texts

LETTERS = "东京大学αβγжзиłđøहिन्दแมวน้ำ가나다"

LIKE = (
    "naïve",
    "ﬁne",
    "co\xadoperate",
    "x²",
    "3½",
    "Java™",
    "שָׁלוֹם",
    "ｶﾞｲﾄﾞ",
    "2020年",
    "👩\u200d💻",
    "-+",
)
WORDS = (
    "东京大学",
    "แมวน้ำ",
    "हिन्दी",
    "가나다",
    "жизнь",
    "łđø",
    "tea",
    "read_csv",
    "猫",
    "β-catenin",
)


def code(word: str) -> str:
    return "zz" + word.encode().hex()


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("See read_csv (TO-DO).", "See read_csv (TO-DO)."),
        ("naïve read_csv", "naive read_csv"),
        ("λ-calculus", f" {code('λ')} -calculus"),
        ("东京大学", f" {code('东京')} {code('京大')} {code('大学')} "),
        ("猫", f" {code('猫')} "),
        ("2020年春", f" 2020 {code('年春')} "),
        ("แมว", f" {code('แม')} {code('มว')} "),
        ("ok👍🏽", f"ok {code('👍')} "),
        ("a─│b", "a b"),
    ],
)
def test_what_goes_into_an_index(text: str, written: str) -> None:
    assert indexed(text) == written


@given(texts | st.text(LETTERS, max_size=20))
def test_it_is_ascii(text: str) -> None:
    assert indexed(text).isascii()


@given(st.lists(st.sampled_from(LIKE) | st.text(LETTERS, min_size=1), max_size=6).map(" ".join))
def test_a_text_finds_itself(text: str) -> None:
    """Every term of the clauses of a text stands in what is indexed of it, in any case."""
    written = re.findall(r"[a-z0-9]+", indexed(text).lower())
    typed = [term for one in exact_clauses(text) for word in one.words for term in terms(word)]
    for term in typed:
        assert term.lower() in written


@given(st.text(LETTERS, min_size=1, max_size=9), st.text(LETTERS, min_size=1, max_size=9))
def test_no_two_words_share_a_term_also_where_english_is_stemmed(one: str, other: str) -> None:
    stems = analyzer("english")
    first, second = (
        {stem for term in terms(word) for stem in stems.analyze(term)} for word in (one, other)
    )
    same = set(terms(one)) & set(terms(other))
    assert len(first & second) == len(same)


@pytest.mark.parametrize(
    ("text", "joined", "meant"),
    [
        ("salt", "both", ClauseTerms(("salt",), ())),
        ("read_csv", "both", ClauseTerms(("read", "csv"), ("read", "csv"))),
        ("read_csv", "words", ClauseTerms((), ("read", "csv"))),
        ("read_csv", "phrase", ClauseTerms(("read", "csv"), ())),
        ('"read csv"', "words", ClauseTerms(("read", "csv"), ())),
        (
            "一二三",
            "phrase",
            ClauseTerms((code("一二"), code("二三")), (code("一二"), code("二三"))),
        ),
        ("一二三", "words", ClauseTerms((), (code("一二"), code("二三")))),
        ("+一二三", "words", ClauseTerms((code("一二"), code("二三")), ())),
        ("-一二三", "both", ClauseTerms((code("一二"), code("二三")), ())),
        ("\u0640", "both", ClauseTerms((), ())),
    ],
)
def test_pairs_are_a_phrase_where_they_must_or_must_not_match(
    text: str, joined: str, meant: ClauseTerms
) -> None:
    assert clause_terms(exact_clauses(text)[0], joined) == meant


@given(st.lists(st.sampled_from((*LIKE, *WORDS))).map(" ".join))
def test_each_term_has_its_place(text: str) -> None:
    """What stands there is indexed as that term, and a passage of all is the whole."""
    written = spelled(text).split()
    found = list(places(text))
    for term, (start, end) in zip(written, found, strict=True):
        assert term in spelled(text[start:end]).split()
    if found and not text.isascii():
        assert passage(text, indexed(text)) == text


def test_a_passage_is_of_the_text_itself() -> None:
    text = "Un ﬁlet, puis: le cafe\u0301 du 東京大学."
    assert passage(text, f"le cafe du  {code('東京')} {code('京大')}") == "le cafe\u0301 du 東京大"
    assert passage("read_csv (x)", "csv (x)") == "csv (x)"
    for said in ("(J'ai mangé une crème.)", "# Été à Paris\n\nLe musée d'Orsay, délicieuse.\n"):
        assert passage(said, indexed(said)) == said
    assert passage("Où est J. Doe, né ici?", "J. Doe, ne") == "J. Doe, né"
    assert passage("Où est J. Doe, né ici?", "J. Doe, ne ici?") == "J. Doe, né ici?"
