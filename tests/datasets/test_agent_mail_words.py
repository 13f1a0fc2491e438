"""The words of the generator: documents, questions and paraphrases have their own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from agent_mail.generate import Traffic, generate
from agent_mail.lexicon import Concept, lexicon
from agent_mail.overlap import Overlap, measure, table
from agent_mail.terms import terms

from harness.core.records import Document, Judgement, Qrels, Query

pytestmark = pytest.mark.slow
WORDS = lexicon()
SLOT = re.compile(r"\{\w+\}")
MEANT = 5
"""Letters that two forms of one word share."""


@pytest.fixture(scope="module")
def measured() -> dict[str, Overlap]:
    made = generate(Traffic(messages=2_000, seed=3, queries=20))
    return {row.slice: row for row in measure(made.documents, made.queries, made.qrels)}


def content(*texts: str) -> set[str]:
    return {word for text in texts for word in terms(SLOT.sub(" ", text)) if len(word) > 1}


def alike(left: set[str], right: set[str]) -> set[str]:
    """Words of ``left`` that ``right`` has too, in this or another form."""
    return {
        a
        for a in left
        for b in right
        if a == b or (min(len(a), len(b)) >= MEANT and a[:MEANT] == b[:MEANT])
    }


def test_there_are_many_concepts_and_components() -> None:
    assert len(WORDS.concepts) >= 150
    assert len(WORDS.components) == 60
    assert len(WORDS.languages) == 6


@pytest.mark.parametrize("concept", WORDS.concepts.values(), ids=lambda concept: concept.name)
def test_a_paraphrase_shares_no_word_with_what_documents_say(concept: Concept) -> None:
    said = content(concept.head, *concept.said)
    assert not alike(content(concept.other), said)
    assert not alike(content(concept.other), content(concept.asked))
    assert alike(content(concept.asked), said)
    assert len(set(concept.said)) >= 3
    assert all("{c}" in one for one in concept.said)


def test_a_component_is_described_in_words_that_are_not_its_name() -> None:
    for component in WORDS.components.values():
        named = content(component.name, component.path.replace("_", " "))
        assert not alike(content(component.other), named), component.name


def test_no_component_holds_the_name_of_another() -> None:
    names = list(WORDS.components)
    assert not [(a, b) for a in names for b in names if a != b and a in b]


def test_what_is_held_out_is_never_written_about() -> None:
    said = content(*(text for c in WORDS.concepts.values() for text in (c.head, *c.said)))
    for asked in WORDS.heldout:
        assert len(content(asked) - said) >= len(content(asked)) / 2, asked


def test_languages_translate_the_same_concepts_each() -> None:
    for language in WORDS.languages.values():
        assert len(language.concepts) == 8
        assert language.concepts.keys() <= WORDS.concepts.keys()
        assert all("{c}" in one for said in language.concepts.values() for one in said.said)


def test_paraphrases_share_nearly_nothing_with_their_answers(
    measured: dict[str, Overlap],
) -> None:
    assert measured["paraphrase"].covered < 0.03
    assert measured["paraphrase"].jaccard < 0.005
    assert measured["paraphrase"].without > 0.85


def test_identifiers_and_phrases_are_in_their_answers(measured: dict[str, Overlap]) -> None:
    assert measured["identifier"].covered > 0.8
    assert measured["phrase"].covered == 1.0


def test_keywords_lie_between_and_typos_below_them(measured: dict[str, Overlap]) -> None:
    keyword = measured["keyword"].covered
    assert 0.5 < keyword < 0.9
    assert measured["typo"].covered < keyword
    assert measured["prefix"].covered < keyword
    assert measured["natural-language"].covered < keyword


def test_a_filter_and_not_the_words_tells_the_answers_apart(measured: dict[str, Overlap]) -> None:
    contrast = measured["filter"].contrast
    assert contrast is not None
    assert abs(measured["filter"].covered - contrast) < 0.15


def test_overlap_is_counted_by_hand() -> None:
    documents = [
        Document("1", "Red apple", "on the table"),
        Document("2", "", "green pear"),
        Document("3", "", "red pear"),
    ]
    queries = [Query("a", "the red apple pie", ("s",)), Query("b", "kiwi", ("s", "t"))]
    rows = [("a", "1", 2), ("a", "3", 1), ("a", "2", 0), ("b", "2", 1)]
    found = measure(documents, queries, Qrels.of(Judgement(*row) for row in rows))
    both, single = found
    assert both == Overlap("s", 2, (2 / 3 + 0) / 2, (2 / 4 + 0) / 2, 0.5, 0.0)
    assert single == Overlap("t", 1, 0.0, 0.0, 1.0, None)
    assert table(found).splitlines()[2:] == [
        "| s | 2 | 0.33 | 0.250 | 0.50 | 0.00 |",
        "| t | 1 | 0.00 | 0.000 | 1.00 |  |",
    ]


def test_negative_queries_have_no_overlap_to_measure() -> None:
    qrels = Qrels.of([Judgement("a", "1", 0)])
    assert measure([Document("1", "", "x")], [Query("a", "x", ("s",))], qrels) == ()


def test_terms_are_words_without_stop_words_and_pairs_of_signs() -> None:
    assert terms("What of the LEASE, br-2tnl?") == ["lease", "br", "2tnl"]
    assert terms("磁盘已满 disk") == ["磁盘", "盘已", "已满", "disk"]
    assert terms("锁") == ["锁"]


def test_the_page_shows_the_overlap_of_the_data_set_as_it_is() -> None:
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs" / "datasets" / "agent-mail.md").read_text(encoding="utf-8")
    made = generate(Traffic(messages=5_000, seed=20261121, queries=40))
    assert table(measure(made.documents, made.queries, made.qrels)) in page
