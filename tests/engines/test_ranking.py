"""Fusion by reciprocal rank and by convex combination, and the order of hits."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_engines.ranking import by_best, combine, fuse
from harness_engines.sparse import SparseStore, Splade, Terms, sparse_model

rankings = st.dictionaries(
    st.sampled_from(["l", "m", "n"]), st.lists(st.sampled_from("abcdefgh"), unique=True), min_size=1
)


def test_a_worked_example_of_fusion() -> None:
    hits = fuse({"l": ["a", "b"], "s": ["b", "c"]}, {"l": 1.0, "s": 1.0}, rrf_k=60, k=10)
    assert [hit.doc_id for hit in hits] == ["b", "a", "c"]
    assert hits[0].raw_score == pytest.approx(1 / 62 + 1 / 61, abs=1e-15)
    assert hits[1].raw_score == pytest.approx(1 / 61, abs=1e-15)
    assert hits[2].raw_score == pytest.approx(1 / 62, abs=1e-15)
    assert hits[0].score == pytest.approx((1 / 62 + 1 / 61) / (2 / 61), abs=1e-12)
    hits = fuse({"l": ["a"], "s": ["b"]}, {"l": 1.0, "s": 3.0}, rrf_k=1, k=10)
    assert [(hit.doc_id, hit.raw_score, hit.score) for hit in hits] == [
        ("b", 1.5, 0.75),
        ("a", 0.5, 0.25),
    ]


def test_ties_go_by_id() -> None:
    hits = fuse({"l": ["z", "a"], "s": ["a", "z"]}, {"l": 1.0, "s": 1.0}, rrf_k=60, k=2)
    assert [hit.doc_id for hit in hits] == ["a", "z"]
    assert hits[0].score == hits[1].score
    places = {"a": (1, 7, 2, 3), "b": (7, 2, 3, 1)}
    legs = "lmno"
    rankings = {leg: [f"{leg}{at}" for at in range(1, 8)] for leg in legs}
    for doc_id, ranks in places.items():
        for leg, rank in zip(legs, ranks, strict=True):
            rankings[leg][rank - 1] = doc_id
    first, second = fuse(rankings, dict.fromkeys(legs, 1.0), rrf_k=60, k=2)
    assert (first.doc_id, second.doc_id) == ("a", "b")
    assert first.score == second.score
    assert first.raw_score < second.raw_score, "the sums do differ: nothing else is shown here"


def test_a_silent_leg_adds_nothing_and_lowers_the_share() -> None:
    both = {"l": 1.0, "s": 1.0}
    hits = fuse({"l": ["a"], "s": []}, both, rrf_k=60, k=5)
    assert [(hit.doc_id, hit.score) for hit in hits] == [("a", 0.5)]
    alone = fuse({"l": ["a"]}, both, rrf_k=60, k=5)
    assert [(hit.doc_id, hit.score) for hit in alone] == [("a", 1.0)]
    assert hits[0].raw_score == alone[0].raw_score
    weights = {"l": 1.0, "s": 1.0}
    twice = fuse({"l": ["a", "a", "b"], "s": ["b"]}, weights, rrf_k=60, k=5)
    assert twice == fuse({"l": ["a", "b"], "s": ["b"]}, weights, rrf_k=60, k=5)
    assert fuse({}, {}, rrf_k=60, k=5) == ()
    assert fuse({"l": []}, {"l": 1.0}, rrf_k=60, k=5) == ()


HALVES = {"l": 0.5, "s": 0.5}


def shown(words: dict[str, float], vectors: dict[str, float], share: float) -> list[str]:
    hits = combine({"l": words, "s": vectors}, {"l": 1 - share, "s": share}, 10)
    return [hit.doc_id for hit in hits]


def test_by_hand() -> None:
    hits = combine({"l": {"a": 8.0, "b": 4.0}, "s": {"b": 0.9, "c": 0.3}}, HALVES, 10)
    assert [hit.doc_id for hit in hits] == ["b", "a", "c"]
    assert [hit.score for hit in hits] == pytest.approx(
        [0.5 * 4 / 8 + 0.5, 0.5, 0.5 * 0.3 / 0.9], abs=1e-9
    )
    near = {"a": 1.0, "b": 0.99}
    far = {"b": 1.0, "a": 0.2}
    assert shown(near, far, 0.5) == ["b", "a"]
    assert shown(far, near, 0.5) == ["b", "a"]
    assert shown({"b": 2.0, "a": 2.0}, {"b": 0.5, "a": 0.5}, 0.5) == ["a", "b"]
    assert shown({"a": 1.0}, {"a": -0.5, "b": -0.1}, 0.5) == ["a"]
    hits = combine({"l": {"a": 1.0}, "s": {"a": -0.5, "b": -0.1, "c": 0.5}}, HALVES, 10)
    assert [(hit.doc_id, hit.score) for hit in hits] == [("a", 0.5), ("c", 0.5)]
    assert combine({"l": {}, "s": {}}, HALVES, 5) == ()


scored = st.dictionaries(st.text(max_size=4), st.floats(1e-3, 1e6), max_size=12)


def test_a_worked_example() -> None:
    hits = by_best([("b", 2.0), ("c", 8.0), ("a", 2.0), ("d", 4.0)], 3)
    assert [tuple(hit) for hit in hits] == [("c", 1.0, 8.0), ("d", 0.5, 4.0), ("a", 0.25, 2.0)]
    assert by_best([], 5) == ()
    assert [hit.score for hit in by_best([("a", 0.0), ("b", 0.0)], 5)] == [0.0, 0.0]


@given(scored, st.integers(1, 15), st.randoms(use_true_random=False))
def test_any_order_in_gives_one_order_out(
    pairs: dict[str, float], k: int, rng: random.Random
) -> None:
    shuffled = list(pairs.items())
    rng.shuffle(shuffled)
    hits = by_best(shuffled, k)
    assert hits == by_best(pairs.items(), k)
    assert len(hits) == min(k, len(pairs))
    assert all(0 <= hit.score <= 1 for hit in hits)
    assert [hit.raw_score for hit in hits] == sorted(pairs.values(), reverse=True)[:k]


TINY = sparse_model("splade-tiny")
WEIGHTS = {
    "customer retention": (14, 10.214595, {"retention": 2.2529, "customer": 2.2471}),
    "The moon pulls the sea, so the water rises twice a day. 東京 café 😀": (
        *(82, 52.463772),
        {"moon": 2.3664, "sea": 2.2046, "water": 2.1332, "moons": 1.9329, "day": 1.5308},
    ),
}
"""Terms, sum of their weights, and some weights, as computed in double precision."""


@pytest.fixture(scope="module")
def splade() -> Splade:
    return Splade.load(TINY, 64)


@pytest.mark.parametrize("text", WEIGHTS)
def test_terms_weigh_as_computed_in_double_precision(splade: Splade, text: str) -> None:
    terms, weights = splade.encode(text)
    by_term = dict(zip(map(splade.tokenizer.id_to_token, terms.tolist()), weights, strict=True))
    count, whole, some = WEIGHTS[text]
    assert (len(terms), weights.sum()) == (count, pytest.approx(whole, abs=1e-3))
    assert {term: by_term[term] for term in some} == pytest.approx(some, abs=1e-4)
    assert (np.diff(terms) > 0).all()
    assert TINY.weights.sha256[:16] in splade.identity


VOCABULARY = 12
ROW = st.dictionaries(st.integers(0, VOCABULARY - 1), st.floats(0.125, 4, width=16), max_size=6)


def sparse(row: dict[int, float]) -> Terms:
    terms = np.array(sorted(row), dtype=np.int64)
    return Terms(terms, np.array([row[term] for term in sorted(row)], dtype=np.float32))


def store_of(rows: list[dict[int, float]]) -> SparseStore:
    found = [sparse(row) for row in rows]
    return SparseStore.of([(t, w.astype(np.float16)) for t, w in found], VOCABULARY)


@given(rows=st.lists(ROW, max_size=8), query=ROW, data=st.data())
def test_dots_are_those_of_the_dense_vectors(
    rows: list[dict[int, float]], query: dict[int, float], data: st.DataObject
) -> None:
    wanted = data.draw(st.lists(st.sampled_from(range(len(rows))))) if rows else []
    found = store_of(rows).dots(sparse(query), np.array(wanted, dtype=np.int64))
    expected = [sum(query.get(t, 0.0) * w for t, w in rows[row].items()) for row in wanted]
    assert found.tolist() == pytest.approx(expected, abs=1e-5)
