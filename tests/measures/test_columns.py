"""Judgements as columns, look-ups in them, and repeated codes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import DatasetError
from harness.core.records import Qrels
from harness.measures.columns import EMPTY, SPARSE, UNKNOWN, EncodedQrels, Lookup, repeats
from tests.make.runs import qrels_of, random_case

JUDGED = {"q": {"a": 0, "b": 3, "c": -1}, "p": {"b": 1, "d": 2}}


def test_columns_are_by_query_with_the_best_grade_first() -> None:
    coded = EncodedQrels.of(qrels_of(JUDGED))
    found = [
        (coded.query_ids[row], coded.vocabulary[doc], grade, place)
        for row, doc, grade, place in zip(
            coded.rows.tolist(),
            coded.docs.tolist(),
            coded.grades.tolist(),
            coded.place.tolist(),
            strict=True,
        )
    ]
    assert found == [
        ("p", "d", 2, 0), ("p", "b", 1, 1),
        ("q", "b", 3, 0), ("q", "a", 0, 1), ("q", "c", -1, 2),
    ]  # fmt: skip
    assert len(coded) == 2
    assert coded.relevant(1).tolist() == [2, 1]
    assert coded.relevant(0).tolist() == [2, 2]


def test_every_judgement_is_kept() -> None:
    _, qrels = random_case(3)
    coded = EncodedQrels.of(qrels)
    rows = zip(coded.rows.tolist(), coded.docs.tolist(), coded.grades.tolist(), strict=True)
    kept = {(coded.query_ids[row], coded.vocabulary[doc], grade) for row, doc, grade in rows}
    assert kept == {tuple(judgement) for judgement in qrels.rows()}


def test_another_vocabulary_is_translated() -> None:
    coded = EncodedQrels.of(qrels_of(JUDGED))
    ours = coded.translation(("x", "b", "c"))
    assert ours[0] == UNKNOWN
    assert [coded.vocabulary[code] for code in ours[1:]] == ["b", "c"]


def test_a_pair_that_comes_twice_is_refused() -> None:
    ones = np.ones(2, dtype=np.int32)
    with pytest.raises(DatasetError, match="b is judged twice for query p"):
        EncodedQrels.of_columns(("q", "p"), ("a", "b"), np.array([1, 1]), ones, ones)


def test_no_judgement_is_no_query() -> None:
    assert len(EncodedQrels.of(Qrels.of(()))) == 0


def test_judgements_are_coded_once_and_other_ones_anew() -> None:
    qrels, same = qrels_of(JUDGED), qrels_of(JUDGED)
    first = EncodedQrels.of(qrels)
    assert EncodedQrels.of(qrels) is first
    assert EncodedQrels.of(same) is not first
    other = EncodedQrels.of(qrels_of({"q": {"a": 1}}))
    assert (other.query_ids, other.grades.tolist()) == (("q",), [1])
    assert EncodedQrels.of(qrels).query_ids == first.query_ids


@pytest.mark.parametrize("documents", [3, 50, 100_000])
@pytest.mark.parametrize("queries", [1, 7, 400])
def test_finds_what_a_dictionary_finds(queries: int, documents: int) -> None:
    """Also where one query has most of the pairs, so that slots run out at every level."""
    rng = np.random.default_rng(queries + documents)
    crowd = np.zeros(600, dtype=np.int64)
    rows = np.concatenate([rng.integers(0, queries, 900), crowd])
    docs = rng.integers(0, documents, len(rows))
    known = {pair: at for at, pair in enumerate(dict.fromkeys(zip(rows, docs, strict=True)))}
    pairs = np.array(list(known), dtype=np.int64)
    lookup = Lookup.of(pairs[:, 0], pairs[:, 1].astype(np.int32), queries)
    assert queries < 400 or documents < 100_000 or len(lookup.keys) > 0
    asked_rows = np.concatenate([rng.integers(0, queries, 5000), pairs[:, 0]])
    asked_docs = np.concatenate([rng.integers(0, documents, 5000), pairs[:, 1]])
    asked_docs[::17] = UNKNOWN
    places, found = lookup.find(asked_rows, asked_docs.astype(np.int32))
    wanted = [known.get(pair) for pair in zip(asked_rows, asked_docs, strict=True)]
    assert places.tolist() == [at for at, pair in enumerate(wanted) if pair is not None]
    assert found.tolist() == [pair for pair in wanted if pair is not None]


def test_an_empty_slot_is_nobody() -> None:
    nothing = np.empty(0, dtype=np.int64)
    empty = Lookup.of(nothing, nothing.astype(np.int32), 2)
    asked = np.array([0, 1]), np.array([0, UNKNOWN], dtype=np.int32)
    assert empty.find(*asked)[0].tolist() == []
    one = Lookup.of(np.array([1]), np.array([0], dtype=np.int32), 2)
    assert EMPTY in one.levels[0].docs
    assert one.find(*asked)[0].tolist() == []
    assert one.find(np.array([1]), np.array([0], dtype=np.int32))[1].tolist() == [0]


def test_pairs_without_a_slot_are_searched_for() -> None:
    docs = np.arange(3000, dtype=np.int32)
    lookup = Lookup.of(np.zeros(3000, dtype=np.int64), docs, 900)
    assert len(lookup.keys) > 0
    asked = np.array([2999, 5, 4000, 17], dtype=np.int32)
    place, pair = lookup.find(np.array([0, 0, 0, 1]), asked)
    assert (place.tolist(), pair.tolist()) == ([0, 1], [2999, 5])


ROWS = st.lists(st.lists(st.integers(0, 12), max_size=9), max_size=9)


def asked(rows: list[list[int]]) -> bool:
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return repeats(np.array([code for row in rows for code in row], dtype=np.int32), offsets)


@given(ROWS)
def test_it_says_what_sets_say(rows: list[list[int]]) -> None:
    assert asked(rows) == any(len(set(row)) < len(row) for row in rows)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("short", [0, 1, 100 * SPARSE])
def test_rows_of_one_length_of_two_and_of_very_different_ones(short: int, again: bool) -> None:  # noqa: FBT001  a case
    long = list(range(50))
    rows = [long[:-1] if short else long] * 3 + [long, *([[7]] * short)]
    rows[1] = [*long[1:-1], long[1]] if again else rows[1]
    assert asked(rows) is again
