"""The planner."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.stacks.writing.planner import (
    MOST_QUERIES,
    MOST_TOKENS,
    Choice,
    Context,
    Kind,
    plan,
    quoted,
    strongest,
    tokens_of,
    typed_query,
)

ALL = tuple(Kind)
FREQUENCY = {'"the"': 90, '"wind"': 7, '"tunnel"': 3, '"absent"': 0}


def frequency(query: str) -> int:
    return FREQUENCY.get(query, 50)


def queries(text: str, context: Context | None = None) -> list[str]:
    return [one.query for one in plan(text, ALL, frequency, context)]


def test_the_text_the_phrase_the_strongest_term_and_any() -> None:
    assert plan("the wind Tunnel", ALL, frequency) == (
        (Kind.TEXT, '"the" AND "wind" AND "Tunnel"'),
        (Kind.PHRASE, '"the wind tunnel"'),
        (Kind.STRONGEST, '"tunnel"'),
        (Kind.ANY, '"the" OR "wind" OR "tunnel"'),
    )


def test_one_word_is_one_query() -> None:
    assert queries("Wind") == ['"Wind"']
    assert [one.query for one in plan("Wind", [Kind.ANY], frequency)] == ['"Wind"']


@pytest.mark.parametrize("text", ["", "  ", "!?", "\0", '""', ": NOT", ": NOT OR"])
def test_no_word_is_no_query(text: str) -> None:
    assert queries(text) == []


def test_only_kinds_that_are_asked_for() -> None:
    planned = plan("the wind", [Kind.ANY, Kind.PHRASE], frequency)
    assert [one.kind for one in planned] == [Kind.PHRASE, Kind.ANY]


def test_a_term_that_is_nowhere_is_not_the_strongest() -> None:
    assert strongest(["absent", "wind", "the"], frequency) == "wind"
    assert strongest(["absent"], frequency) == "absent"
    assert strongest(["other", "more"], frequency) == "other"


def test_eight_different_words_are_read() -> None:
    text = "a b c a d e f g h i j"
    found = tokens_of(text, Choice.FIRST, frequency)
    assert found == tuple("abcdefgh")
    assert len(found) == MOST_TOKENS


def test_or_the_eight_rarest_in_the_order_of_the_text() -> None:
    text = "the a tunnel b c d e absent f g wind"
    assert tokens_of(text, Choice.RAREST, frequency) == (
        "a",
        "tunnel",
        "b",
        "c",
        "d",
        "e",
        "f",
        "wind",
    )
    assert tokens_of("the wind", Choice.RAREST, frequency) == ("the", "wind")
    (one,) = plan(text, [Kind.ANY], frequency, choice=Choice.RAREST)
    assert one.query.startswith('"a" OR "tunnel"')


def test_what_was_typed_keeps_its_meaning() -> None:
    assert typed_query('+flow "boundary layer" -heat') == (
        '("flow" AND "boundary layer") NOT ("heat")'
    )
    assert typed_query("flow OR heat") == '"flow" OR "heat"'
    assert typed_query("read_csv now") == '"read csv" AND "now"'


def test_what_must_and_must_not_be_holds_in_every_planned_query() -> None:
    planned = queries("budget plan +costs -travel", Context(title="trains"))
    assert len(planned) == MOST_QUERIES
    assert all('NOT ("travel")' in one for one in planned)
    assert all('"costs"' in one for one in planned)


def test_the_context_widens_and_never_narrows() -> None:
    alone, near = queries("wind"), queries("wind", Context(title="Tunnel notes"))
    assert alone == ['"wind"']
    assert near[:3] == ['"wind"', '"wind" OR "tunnel" OR "notes"'][:1] + near[1:3]
    assert near[-1] == '"wind" OR "tunnel" OR "notes"'
    both = queries("the wind", Context(selection="tunnel", project="wings"))
    assert both[:3] == queries("the wind")[:3]
    assert both[3] == '"the" OR "wind" OR "tunnel" OR "wings"'


@given(st.text())
def test_whatever_is_typed_fts5_can_read(text: str) -> None:
    planned = plan(text, ALL, frequency, Context(title=text[::-1]))
    assert len(planned) <= MOST_QUERIES
    assert len({one.query for one in planned}) == len(planned)
    with sqlite3.connect(":memory:") as db:
        db.execute("CREATE VIRTUAL TABLE search USING fts5(text)")
        for one in planned:
            db.execute("SELECT rowid FROM search WHERE search MATCH ?", (one.query,)).fetchall()
    db.close()


def test_words_are_quoted() -> None:
    assert quoted("NEAR") == '"NEAR"'
