"""``pipeline.bounded``: long texts are cut, and what people type is left alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engines.lexical.grammar import exact_clauses as clauses
from engines.stacks.agent_mail.contract import SearchQuery
from engines.stacks.agent_mail.pipeline.plan import MAX_WORDS, bounded
from tests.engines.agent_mail.fakes import message, service


@given(st.lists(st.sampled_from(["plan", '"a plan"', "+x", "-y", "br-2tnl", "(", "部署", "a*"])))
def test_what_people_type_is_left_alone(pieces: list[str]) -> None:
    text = " ".join(pieces[:50])
    assert bounded(text) == (text, "")


def test_one_word_many_times_is_one_word() -> None:
    assert bounded("deployment " * 700).text == "deployment"
    assert bounded('"Plan" plan +plan ' * 700).text == '"Plan"'


@given(
    st.lists(st.text(min_size=1, max_size=6), min_size=250, max_size=500),
    st.sampled_from([" ", "-", '" "', "*", "_"]),
)
def test_no_more_words_are_searched_for(words: list[str], between: str) -> None:
    text = between.join(words)
    found = bounded(text)
    assert sum(len(clause.words) for clause in clauses(found.text)) <= MAX_WORDS or not found.note


def test_a_phrase_that_is_too_long_is_cut_and_stays_a_phrase() -> None:
    (clause,) = clauses(bounded('"' + "a b " * 400 + '"').text)
    assert (clause.quoted, len(clause.words)) == (True, MAX_WORDS)


def test_a_caller_is_told() -> None:
    found = service([message(1, "plan")]).search(SearchQuery("plan " * 201))
    assert [hit.message_id for hit in found.hits] == [1]
    assert "201 words" in found.explain.note
    assert service([]).search(SearchQuery("plan " * 200)).explain.note == ""


def test_an_emoji_is_a_word_as_it_is_for_an_index() -> None:
    text = " ".join(f"a{chr(0x2600 + at)}" for at in range(150))
    found = bounded(text)
    assert found.note.startswith("300 words")
    assert sum(len(clause.words) for clause in clauses(found.text)) == MAX_WORDS
