"""What FTS5 and LIKE are asked: FTS5 refuses none of it, and no text is lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.lexical.grammar import refuses as refusals
from engines.lexical.terms import normalise
from engines.stacks.agent_mail.sqlite.schema import MESSAGES, index_of
from engines.stacks.agent_mail.sqlite.search import (
    LONGEST_TERM,
    MOST_REFUSED,
    MOST_TERMS,
    OPERATORS,
    extract_like_terms,
    match_expression,
    refused_terms,
    sanitize_fts_query,
)

TYPED = st.text() | st.text("ab部é_-.\"'*+():^~{}[]\\/%\0 \ud800ANDORNOTEAR", max_size=60)


@pytest.fixture(scope="module")
def fts() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as db:
        made = index_of(MESSAGES)["messages_fts"]
        db.execute(made.replace(", content='messages_words', content_rowid='id'", ""))
        yield db


def accepted(fts: sqlite3.Connection, asked: str) -> None:
    fts.execute("SELECT rowid FROM messages_fts WHERE messages_fts MATCH ?", (asked,)).fetchall()


@given(text=TYPED)
def test_fts5_refuses_nothing(fts: sqlite3.Connection, text: str) -> None:
    if asked := match_expression(text):
        accepted(fts, asked)
    else:
        assert not normalise(text)
    if plain := sanitize_fts_query(text):
        accepted(fts, plain)
    else:
        words = "".join(c if c.isalnum() else " " for c in text).upper().split()
        assert set(words) <= OPERATORS or refusals(text)


@pytest.mark.parametrize("bare", ["br-2tnl", "don't", "a.b", "C++", "a:b", '"', "(x", "x AND", "*"])
def test_fts5_refuses_what_stands_bare(fts: sqlite3.Connection, bare: str) -> None:
    with pytest.raises(sqlite3.OperationalError):
        accepted(fts, bare)
    accepted(fts, match_expression(bare))
    accepted(fts, sanitize_fts_query(bare) or '""')


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("salt water", '"salt" OR "water"'),
        ('"salt water"', '"salt water"'),
        ("br-2tnl", '("br-2tnl" OR identifiers : "br\ue02d2tnl")'),
        ('"br-2tnl"', '"br-2tnl"'),
        ("BR_2.x/y", '("BR_2.x/y" OR identifiers : "br\ue05f2\ue02ex\ue02fy")'),
        (
            "a-b:c-d:a-b",
            '("a-b:c-d:a-b" OR identifiers : "a\ue02db" OR identifiers : "c\ue02dd")',
        ),
        ("don't", '"don\'t"'),
        ("mig*", '{subject body} : "mig"*'),
        ("a-mig*", '("a-mig*" OR identifiers : "a\ue02dmig")'),
        ('"mig*"', '"mig*"'),
        ("salt -water", '("salt") NOT ("water")'),
        ("-salt NOT water", '"salt" OR "water"'),
        ("+salt +water", '"salt" AND "water"'),
        ("+salt water", '("salt") AND ("salt" OR "water" OR "water")'),
        ("🎉 !!", '"zzf09f8e89"'),
        ("§ !!", '"§ !!"'),
        ('"', '""""'),
        ("  \0 ", ""),
    ],
)
def test_what_fts5_is_asked(text: str, asked: str) -> None:
    assert match_expression(text) == asked


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ('salt -moss -"sea water" -br-2tnl -mig*', ("moss", "sea water", "br-2tnl", "mig")),
        ("-moss NOT moss", ("moss",)),
        ("salt water", ()),
        (" ".join(f"-w{n}" for n in range(90)), tuple(f"w{n}" for n in range(MOST_REFUSED))),
    ],
)
def test_what_must_not_be_there_for_like(text: str, terms: tuple[str, ...]) -> None:
    assert refused_terms(text) == terms


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("salt AND (water", '"salt" OR "water"'),
        ("br-2tnl -moss", '"br-2tnl"'),
        ("/[* salt ]/ --", '"salt"'),
        ("mig* a-mig*", '{subject body} : "mig"* OR "a-mig"'),
        ("salt salt", '"salt"'),
        ("部署 é", '"zze983a8e7bdb2" OR "e"'),
        ("Near AND not", None),
        ("-salt", None),
        ("!!! §", None),
        ("", None),
    ],
)
def test_what_is_left_for_fts5(text: str, asked: str | None) -> None:
    assert sanitize_fts_query(text) == asked


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("the br-2tnl a src/app.py:12", ("the", "br-2tnl", "src/app.py", "12")),
        ('salt "stone moss" -fern', ("salt", "stone moss")),
        ("Salt salt SALT", ("Salt",)),
        ("a near b", ("a", "near", "b")),
        ("one two three four five six", ("one", "two", "three", "four", "five")),
        ("x", ("x",)),
        ("失 a", ("失",)),
        ("🎉 🚀", ("🎉", "🚀")),
        ("100%", ("100",)),
        ("-salt", ()),
        (" \0 ", ()),
    ],
)
def test_what_is_left_for_like(text: str, terms: tuple[str, ...]) -> None:
    assert extract_like_terms(text) == terms


@given(text=TYPED)
def test_only_a_text_that_looks_for_nothing_has_no_term(text: str) -> None:
    terms = extract_like_terms(text)
    assert bool(terms) == bool(normalise(text) and not refusals(text))
    assert len(terms) <= MOST_TERMS
    assert len({term.lower() for term in terms}) == len(terms)
    assert all(0 < len(term) <= LONGEST_TERM and term in normalise(text) for term in terms)
