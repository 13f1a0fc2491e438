"""LIKE: all terms, oldest first, no score; and never an empty plan."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.contract import EngineError, IndexUnavailable
from engines.stacks.agent_mail.contract import Candidate, Filters, RankingMode, TimeRange
from engines.stacks.agent_mail.sqlite.search import LikeEngine, extract_like_terms, refused_terms
from engines.stacks.agent_mail.sqlite.store import MessageStore, opened
from tests.make.mail.messages import (
    NOON,
    STEP,
    Mail,
    one,
    passes,
    some_filters,
    some_text,
    stored,
)

RELEVANCE, RECENCY = RankingMode.RELEVANCE, RankingMode.RECENCY


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "mail.db"
    messages = (
        one(1, "salt", "water", created_ts=NOON),
        one(2, "salt", "moss", created_ts=NOON + STEP),
        one(3, "100% of a_b", "back\\slash", created_ts=NOON + STEP),
        one(4, "axb", "今天部署失败 🎉", created_ts=NOON + 2 * STEP),
        one(5, "Zoë", "deployments", created_ts=NOON),
    )
    with stored(path, messages):
        pass
    return path


@pytest.fixture
def engine(made: Path, tmp_path: Path) -> Iterator[LikeEngine]:
    with opened(Path(shutil.copy(made, tmp_path)), write=True) as store:
        yield LikeEngine(store)


def ids(engine: LikeEngine, text: str, ranking: RankingMode = RELEVANCE) -> list[int]:
    found = engine.search(text, Filters(), ranking, 10)
    assert found.exhausted
    return [candidate.message_id for candidate in found.candidates]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("salt", [1, 2]),
        ("SALT", [1, 2]),
        ("salt water", [1]),
        ("salt stone", []),
        ("salt AND water", [1]),
        ("salt -moss", [1]),
        ("-salt", [3, 4, 5]),
        ('-salt -"back\\slash" -Zo*', [4]),
        ('"salt water"', []),
        ("a_b", [3]),
        ("%", [3]),
        ("_", [3]),
        ("\\", [3]),
        ("部署", [4]),
        ("败", [4]),
        ("🎉", [4]),
        ("x", [4]),
        ("zoë", [5]),
        ("ploy", [5]),
        ("' OR 1 --", [3]),
    ],
)
def test_what_contains_every_term_is_found(engine: LikeEngine, text: str, found: list[int]) -> None:
    assert ids(engine, text) == found


def test_newest_first_where_that_is_asked_for(engine: LikeEngine) -> None:
    assert ids(engine, "s", RECENCY) == [2, 3, 1, 5]


def test_it_says_that_it_is_a_fallback_and_what_it_executed(engine: LikeEngine) -> None:
    found = engine.search("salt", Filters(), RELEVANCE, 1)
    assert found.candidates == (Candidate(1, 0.0),)
    assert not found.exhausted
    assert found.used_like_fallback
    assert found.normalized_query is None
    assert (found.method, engine.name) == ("like", "like")
    assert engine.store.ask(found.sql, ("%salt%", "%salt%", 10)) == [(1,), (2,)]


def test_without_a_text_it_is_a_listing_and_no_fallback(engine: LikeEngine) -> None:
    found = engine.search(" ", Filters(time_range=TimeRange(NOON + 1)), RELEVANCE, 10)
    assert [candidate.message_id for candidate in found.candidates] == [2, 3, 4]
    assert (found.method, found.used_like_fallback) == ("filter_only", False)


def test_random_questions_find_what_the_rules_say(store: MessageStore, mail: Mail) -> None:
    rng, answered = Random(8), 0
    for _ in range(400):
        text, filters = some_text(rng), some_filters(rng)
        terms = [term.lower() for term in extract_like_terms(text)]
        refused = [term.lower() for term in refused_terms(text)]
        expected = [
            m.message_id
            for m in mail.messages
            if passes(m, filters)
            and all(t in m.subject.lower() or t in m.body.lower() for t in terms)
            and not any(t in m.subject.lower() or t in m.body.lower() for t in refused)
        ]
        found = LikeEngine(store).search(text, filters, RELEVANCE, 1_000)
        assert [candidate.message_id for candidate in found.candidates] == expected
        answered += 0 < len(expected) < len(mail.messages)
    assert answered > 40


@given(text=st.text(max_size=60))
def test_no_text_is_an_error_of_like(store: MessageStore, text: str) -> None:
    LikeEngine(store).search(text, Filters(), RELEVANCE, 3)


@pytest.mark.parametrize("text", ["x" * 60_000, "%_" * 60_000, '"' + "é " * 60_000 + '"'])
def test_a_term_longer_than_a_pattern_may_be_is_cut(engine: LikeEngine, text: str) -> None:
    assert ids(engine, text) == []


def test_without_the_message_table_it_is_not_ready(engine: LikeEngine) -> None:
    engine.store.ask("PRAGMA foreign_keys = OFF")
    engine.store.ask("DROP TABLE messages")
    with pytest.raises(IndexUnavailable, match="table messages: no such table"):
        ids(engine, "salt")


def test_closed_it_is_an_error_of_the_engine(engine: LikeEngine) -> None:
    engine.store.db.close()
    with pytest.raises(EngineError):
        ids(engine, "salt")
