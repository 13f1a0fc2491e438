"""What a race times and what it warms up on: never the same text."""

from __future__ import annotations

import pytest

from harness.core.errors import HarnessError
from harness.core.records import Query
from harness.replay.race_texts import Texts, draw, varied
from tests.make.arms import queries


def drawn(count: int, **changed: int) -> Texts:
    return draw(queries(count), {}, **{"timed": 20, "warm": 5, "repeated": 4, "seed": 3} | changed)


def test_there_are_enough() -> None:
    texts = drawn(40)
    assert list(map(len, texts)) == [5, 20, 4, 0]
    assert len(varied(texts, queries(40), "").unseen) == 4
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


def test_variants_have_the_words_in_an_order_that_nobody_asked() -> None:
    asked = [
        Query("a", "one two"), Query("b", "Two one"), Query("c", "three four five"),
        Query("d", "alone"), Query("e", "six  seven", params={"from": "Ada"}), Query("f", "x x"),
    ]  # fmt: skip
    drawn_texts = draw(asked, {}, timed=5, warm=1, repeated=5, seed=1)
    known = {" ".join(query.text.casefold().split()) for query in asked}
    timed = {query.query_id: query for query in drawn_texts.timed}
    for order in range(20):
        texts = varied(drawn_texts, asked, str(order))
        assert {query.query_id for query in texts.unseen} == timed.keys() & {"c", "e"}
        assert [query.query_id for query in texts.unseen] == [
            query.query_id for query in texts.repeated
        ][: len(texts.unseen)]
        for variant in texts.unseen:
            of = timed[variant.query_id]
            assert " ".join(variant.text.casefold().split()) not in known
            assert sorted(variant.text.split()) == sorted(of.text.split())
            assert variant.params == of.params


def test_each_order_has_variants_of_its_own_and_of_the_same_texts() -> None:
    """Else the next process, and the next race, ask what an engine has kept by now."""
    asked = [Query(f"q{at}", " ".join(f"w{at}{n}" for n in range(2 + at))) for at in range(8)]
    asked.append(Query("turned", "w02 w00 w01"))
    texts = draw(asked, {}, timed=8, warm=1, repeated=3, seed=1)
    assert [min(5, len(query.text.split())) for query in texts.repeated] == [5, 5, 5]
    ways = [varied(texts, asked, str(at)).unseen for at in range(20)]
    assert ways[0] == varied(texts, asked, "0").unseen
    assert {tuple(query.query_id for query in way) for way in ways} == {
        tuple(query.query_id for query in texts.repeated)
    }
    orders = [{query.text for query in same} for same in zip(*ways, strict=True)]
    assert min(map(len, orders)) > 15


def test_a_text_whose_turns_are_known_has_no_variant() -> None:
    asked = [Query("a", "one two three"), Query("b", "two three one"), Query("c", "three one two")]
    texts = draw(asked, {}, timed=2, warm=1, repeated=2, seed=1)
    assert varied(texts, asked, "drawn").unseen == ()
