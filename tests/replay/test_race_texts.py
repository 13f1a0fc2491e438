"""What a race times and what it warms up on: never the same text."""

from __future__ import annotations

import re

import pytest

from harness.core.errors import HarnessError
from harness.core.records import Document, Query
from harness.replay import race
from harness.replay.race import Texts, Words, draw, varied
from tests.make.arms import queries


def drawn(count: int, **changed: int) -> Texts:
    return draw(queries(count), {}, **{"timed": 20, "warm": 5, "repeated": 4, "seed": 3} | changed)


def test_there_are_enough() -> None:
    texts = drawn(40)
    assert list(map(len, texts)) == [5, 20, 4, 0]
    assert len(varied(texts, queries(40), WORDS, "").unseen) == 4
    assert len(set(texts.warm)) == 5
    assert not set(texts.warm) & set(texts.timed)
    assert texts.repeated == texts.timed[:4]


def test_the_draw_is_seeded_whatever_the_order_of_the_set() -> None:
    usual = {"timed": 20, "warm": 5, "repeated": 4}
    assert drawn(40) == draw(queries(40)[::-1], {}, **usual, seed=3)
    assert drawn(40) != drawn(40, seed=4)


@pytest.mark.parametrize("count", [2, 5, 12, 24])
def test_of_a_small_set_a_fifth_at_most_warms_up_again_and_again(count: int) -> None:
    texts = drawn(count)
    held_back = min(5, max(1, count // 5))
    assert len(texts.warm) == 5
    assert len(set(texts.warm)) == held_back
    assert len(texts.timed) == min(20, count - held_back)
    assert not set(texts.warm) & set(texts.timed)


def test_a_text_in_other_case_or_space_is_the_same_text() -> None:
    """Else a memo would have seen it in the warm-up."""
    twice = [*queries(12), *(Query(f"z{q.query_id}", f" {q.text.upper()}  ") for q in queries(12))]
    texts = draw(twice, {}, timed=12, warm=12, repeated=1, seed=3)
    assert len(texts.timed) == 10
    assert not {q.query_id[-2:] for q in texts.warm} & {q.query_id[-2:] for q in texts.timed}


def test_a_text_with_other_filters_is_another() -> None:
    asked = [Query(f"q{at}", "same", params={"level": at}) for at in range(10)]
    assert len(draw(asked, {}, timed=5, warm=5, repeated=1, seed=3).timed) == 5


def test_without_a_warm_up_all_are_timed() -> None:
    texts = drawn(12, warm=0)
    assert (texts.warm, len(texts.timed)) == ((), 12)


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_texts_are_refused(count: int) -> None:
    with pytest.raises(HarnessError, match=f"has {count} different texts"):
        drawn(count)


def test_of_a_cluster_one_text_is_drawn_and_each_may_be_it() -> None:
    asked = queries(40)
    together = {query.query_id: str(at // 4) for at, query in enumerate(asked[:32])}
    chosen = set()
    for seed in range(8):
        texts = draw(asked, together, timed=14, warm=2, repeated=1, seed=seed)
        seen = {*texts.timed, *texts.warm}
        assert len(seen) == 16, "eight clusters, and eight queries that stand alone"
        named = [together[query.query_id] for query in seen if query.query_id in together]
        assert sorted(named) == sorted(set(named))
        chosen |= seen
    assert len(chosen) > 24


CORPUS = [
    Document(f"d{at}", f"one rare{at}", f"two three, six alone four five seven{at % 4}")
    for at in range(40)
]
WORDS = Words(CORPUS, len(CORPUS))
ASKED = [
    Query("a", "one two"), Query("b", "Two one"), Query("c", "three four five"),
    Query("d", "alone"), Query("e", "six  rare7", params={"from": "Ada"}), Query("f", "x x"),
    Query("g", "from:rare3 seven1"), Query("h", "qwertz"),
]  # fmt: skip


def bag(query: Query) -> set[str]:
    return set(query.text.casefold().split())


def test_every_text_has_variants_of_words_that_are_as_frequent() -> None:
    drawn_texts = draw(ASKED, {}, timed=7, warm=1, repeated=7, seed=1)
    timed = {query.query_id: query for query in drawn_texts.timed}
    for order in range(20):
        texts = varied(drawn_texts, ASKED, WORDS, str(order))
        assert [query.query_id for query in texts.unseen] == [
            query.query_id for query in texts.repeated
        ]
        for variant in texts.unseen:
            of = timed[variant.query_id]
            assert variant.params == of.params
            assert bag(variant) not in [bag(query) for query in ASKED]
            assert len(variant.text.split()) >= len(of.text.split())
            if of.query_id in "abcd":
                assert bag(variant) <= {"one", "two", "three", "six", "alone", "four", "five"}
                assert not bag(variant) & bag(of)
            if of.query_id == "e":
                assert re.fullmatch(r"\w+  rare\d+", variant.text)
            if of.query_id == "g":
                assert re.fullmatch(r"from:rare\d+ seven\d", variant.text)
            if of.query_id == "h":
                assert sorted(variant.text) == sorted("qwertz")


def test_the_words_of_a_variant_are_of_one_document() -> None:
    """Else an engine that wants all words would find nothing, and search again for some."""
    asked = [Query("e", "rare7 seven3"), Query("w", "warm")]
    texts = draw(asked, {}, timed=1, warm=1, repeated=1, seed=1)
    texts = texts._replace(repeated=(asked[0],))
    whole = [f"{one.title} {one.text}" for one in CORPUS]
    for order in range(10):
        (variant,) = varied(texts, asked, WORDS, str(order)).unseen
        assert any(bag(variant) <= set(text.split()) for text in whole)


def test_each_order_has_variants_of_its_own_and_of_the_same_texts() -> None:
    """Else the next process, and the next race, ask what an engine has kept by now."""
    asked = [Query(f"q{at}", f"rare{at} seven1") for at in range(8)]
    texts = draw(asked, {}, timed=7, warm=1, repeated=3, seed=1)
    ways = [varied(texts, asked, WORDS, str(at)).unseen for at in range(20)]
    assert ways[0] == varied(texts, asked, WORDS, "0").unseen
    orders = [{query.text for query in same} for same in zip(*ways, strict=True)]
    assert min(map(len, orders)) > 10


def test_a_text_without_other_words_as_frequent_gets_one_more() -> None:
    words = Words([Document("d", "", "only")] * 3, 3)
    asked = [Query("a", "only"), Query("b", "only only only", params={"x": 1})]
    texts = draw(asked, {}, timed=1, warm=1, repeated=1, seed=1)
    (variant,) = varied(texts, asked, words, "0").unseen
    assert variant.text == f"{texts.repeated[0].text} only"
    assert varied(texts, asked, Words([], 0), "0").unseen == ()


def test_of_a_large_corpus_documents_are_read_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race, "READ", 10)
    few = Words(CORPUS, len(CORPUS))
    asked = [Query("a", "rare4"), Query("b", "warm")]
    texts = draw(asked, {}, timed=1, warm=1, repeated=1, seed=1)._replace(repeated=(asked[0],))
    found = {varied(texts, asked, few, str(at)).unseen[0].text for at in range(60)}
    assert found == {f"rare{at}" for at in range(0, 40, 4)} - {"rare4"}
