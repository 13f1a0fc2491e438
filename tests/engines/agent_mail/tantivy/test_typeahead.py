"""Subjects by the beginning of a word."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.lexical import terms
from engines.lexical.tantivy import analyzer
from engines.stacks.agent_mail.contract import Filters
from engines.stacks.agent_mail.tantivy.index import LONGEST, SHORTEST, grams
from tests.make.mail.messages import PHRASES, one, passes, some_filters, some_mail
from tests.make.mail.tantivy import NONE, Case, built

MAIL = some_mail(11, 400)


@pytest.fixture(scope="module")
def mail(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return built(tmp_path_factory.mktemp("typeahead") / "mail", MAIL.messages)


def read(text: str) -> list[str]:
    return [word.lower() for word in terms.words(terms.folded(text))]


def by_hand(prefix: str, filters: Filters) -> set[int]:
    """Messages of which a subject's word begins with the last word, the others standing in it."""
    *whole, last = read(prefix)
    found = set()
    for message in MAIL.messages:
        words = read(message.subject)
        begun = any(word.startswith(last) for word in words)
        if begun and set(whole) <= set(words) and passes(message, filters):
            found.add(message.message_id)
    return found


def test_beginnings_are_found_as_by_hand(mail: Case) -> None:
    rng = Random(4)
    words = sorted({word for phrase in PHRASES for word in analyzer("none").analyze(phrase)})
    tried = shown = 0
    for word in words:
        for length in range(SHORTEST, len(word) + 1):
            prefix = word[:length].upper() if rng.random() < 0.2 else word[:length]
            if rng.random() < 0.3:
                prefix = f"{rng.choice(words)} {prefix}"
            if len(analyzer("none").analyze(prefix)[-1]) < SHORTEST:
                continue
            filters = some_filters(rng) if rng.random() < 0.5 else NONE
            got = {c.message_id for c in mail.engine.typeahead(prefix, filters, 1_000)}
            assert got == by_hand(prefix, filters), prefix
            tried, shown = tried + 1, shown + bool(got)
    assert tried > 200
    assert shown > 100


def test_the_order_is_total_and_a_short_list_begins_a_long_one(mail: Case) -> None:
    long = mail.engine.typeahead("de", NONE, 1_000)
    assert list(long) == sorted(long, key=lambda c: (-c.raw_score, c.message_id))
    for k in (0, 1, 2, 7, 50):
        assert mail.engine.typeahead("de", NONE, k) == long[:k]


@pytest.mark.parametrize("typed", ["", " ", "d", "!", "-", "🎉", "\ud800", "deployment f"])
def test_too_little_finds_nothing(mail: Case, typed: str) -> None:
    assert mail.engine.typeahead(typed, NONE, 10) == ()


def test_of_a_long_word_the_first_characters_count(tmp_path: Path) -> None:
    word = "internationalisations"
    assert len(word) == LONGEST
    mail = built(tmp_path / "mail", [one(1, word + "x"), one(2, word[:-1]), one(3, body=word)])
    assert [c.message_id for c in mail.engine.typeahead(word + "yz", NONE, 9)] == [1]
    assert [c.message_id for c in mail.engine.typeahead(word[:-1], NONE, 9)] == [2, 1]


@given(st.text(max_size=30))
def test_any_text_may_be_being_typed(mail: Case, typed: str) -> None:
    assert len(mail.engine.typeahead(typed, NONE, 3)) <= 3


@given(st.lists(st.text(max_size=25), max_size=5))
def test_beginnings_are_all_and_only_those_of_two_to_twenty_one(words: list[str]) -> None:
    found = grams(words)
    assert len(found) == len(set(found))
    assert set(found) == {word[:n] for word in words for n in range(2, 22) if n <= len(word)}
