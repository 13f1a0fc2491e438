"""Fusion by reciprocal rank and by convex combination, and the order of hits."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from harness.core.errors import ModelNotReady, UnknownName
from harness_engines.ranking import by_best, combine, fuse
from harness_engines.sparse import (
    MODELS,
    SPARSE,
    SparseModel,
    SparseStore,
    Splade,
    Terms,
    encode_all,
    sparse_model,
)

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


@pytest.mark.parametrize("rrf_k", [1, 60, 999])
def test_first_everywhere_is_one(rrf_k: int) -> None:
    weights = {"a": 0.3, "b": 0.7, "c": 1.1}
    hits = fuse({leg: ["x", "y"] for leg in weights}, weights, rrf_k=rrf_k, k=1)
    assert hits[0].score == 1.0


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


@given(rankings, st.integers(1, 1000), st.integers(1, 10))
def test_the_order_of_legs(given_rankings: dict[str, list[str]], rrf_k: int, k: int) -> None:
    weights = {"l": 1.0, "m": 0.5, "n": 3.0}
    turned = dict(reversed(given_rankings.items()))
    hits = fuse(given_rankings, weights, rrf_k=rrf_k, k=k)
    assert hits == fuse(turned, weights, rrf_k=rrf_k, k=k)
    order = [(-hit.score, hit.doc_id) for hit in hits]
    assert order == sorted(order)
    assert all(0 < hit.score <= 1 for hit in hits)
    everything = fuse(given_rankings, weights, rrf_k=rrf_k, k=100)
    assert hits == everything[:k]
    assert {hit.doc_id for hit in everything} == {d for r in given_rankings.values() for d in r}


HALVES = {"l": 0.5, "s": 0.5}
IDS = st.sampled_from("abcdefgh")
SCORES = st.dictionaries(IDS, st.floats(-1, 40, width=32), max_size=8)


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


@pytest.mark.parametrize(("share", "first"), [(0.0, "a"), (0.3, "a"), (0.7, "b"), (1.0, "b")])
def test_a_share_decides(share: float, first: str) -> None:
    assert shown({"a": 3.0, "b": 0.6}, {"b": 0.8, "a": 0.16}, share)[0] == first


@pytest.mark.parametrize("weights", [{"l": 0.5, "s": 0.6}, {"l": -0.5, "s": 1.5}])
def test_weights_that_are_no_shares_are_refused(weights: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="shares of 1"):
        combine({"l": {"a": 1.0}, "s": {}}, weights, 5)


@given(SCORES, SCORES, st.floats(0, 1, width=16))
def test_scores_are_shares(
    words: dict[str, float], vectors: dict[str, float], share: float
) -> None:
    weights = {"l": 1 - share, "s": share}
    everything = combine({"l": words, "s": vectors}, weights, 100)
    assert all(0 <= hit.score <= 1 + 1e-9 for hit in everything)
    assert [hit.score for hit in everything] == sorted((h.score for h in everything), reverse=True)
    assert combine({"l": words, "s": vectors}, weights, 3) == everything[:3]


@given(SCORES, SCORES, st.floats(0.125, 128, width=32))
def test_units_do_not_count(
    words: dict[str, float], vectors: dict[str, float], unit: float
) -> None:
    scaled = {doc_id: score * unit for doc_id, score in words.items()}
    one = {hit.doc_id: hit.score for hit in combine({"l": words, "s": vectors}, HALVES, 100)}
    other = {hit.doc_id: hit.score for hit in combine({"l": scaled, "s": vectors}, HALVES, 100)}
    kept = set(one) & set(other)
    assert all(one[doc_id] == pytest.approx(other[doc_id], abs=1e-6) for doc_id in kept)
    assert all(one.get(d, 0) < 1e-6 and other.get(d, 0) < 1e-6 for d in set(one) ^ set(other))


scored = st.dictionaries(st.text(max_size=4), st.floats(1e-3, 1e6), max_size=12)


def test_a_worked_example() -> None:
    hits = by_best([("b", 2.0), ("c", 8.0), ("a", 2.0), ("d", 4.0)], 3)
    assert [tuple(hit) for hit in hits] == [("c", 1.0, 8.0), ("d", 0.5, 4.0), ("a", 0.25, 2.0)]
    assert by_best([], 5) == ()
    assert [hit.score for hit in by_best([("a", 0.0), ("b", 0.0)], 5)] == [0.0, 0.0]


@pytest.mark.parametrize("k", [1, 2, 3])
def test_ties_at_the_last_place_go_by_id(k: int) -> None:
    hits = by_best([("é", 1.0), ("z", 1.0), ("10", 1.0), ("9", 1.0)], k)
    assert [hit.doc_id for hit in hits] == ["10", "9", "z"][:k]


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


Double = NDArray[np.float64]


def weights_of(model: SparseModel, text: str, max_tokens: int) -> Double:
    """Weight of every term of the vocabulary, shape (terms,)."""
    held = load_file(str(model.weights.path()))
    tensor = {name: value.astype(np.float64) for name, value in held.items()}
    tokenizer = Tokenizer.from_file(str(model.tokenizer.path()))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    ids = tokenizer.encode(text).ids
    words = tensor["bert.embeddings.word_embeddings.weight"]
    x = np.array([
        words[token]
        + tensor["bert.embeddings.position_embeddings.weight"][place]
        + tensor["bert.embeddings.token_type_embeddings.weight"][0]
        for place, token in enumerate(ids)
    ])
    x = norm(tensor, "bert.embeddings", x)
    for layer in range(model.layers):
        x = one_layer(tensor, f"bert.encoder.layer.{layer}", x, model.heads)
    x = norm(
        tensor, "cls.predictions.transform", gelu(linear(tensor, "cls.predictions.transform", x))
    )
    logits = np.einsum("td,vd->tv", x, words) + tensor["cls.predictions.bias"]
    double: Double = np.log(1 + np.maximum(logits, 0)).max(axis=0)
    return double


def one_layer(tensor: dict[str, Double], name: str, x: Double, heads: int) -> Double:
    own = f"{name}.attention.self"
    query, key, value = (
        x @ tensor[f"{own}.{part}.weight"].T + tensor[f"{own}.{part}.bias"]
        for part in ("query", "key", "value")
    )
    size = x.shape[1] // heads
    seen = []
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        likeness = np.einsum("id,jd->ij", query[:, part], key[:, part]) / math.sqrt(size)
        shares = np.exp(likeness)
        seen.append(shares / shares.sum(axis=1, keepdims=True) @ value[:, part])
    x = norm(
        tensor,
        f"{name}.attention.output",
        x + linear(tensor, f"{name}.attention.output", np.hstack(seen)),
    )
    wide = gelu(linear(tensor, f"{name}.intermediate", x))
    return norm(tensor, f"{name}.output", x + linear(tensor, f"{name}.output", wide))


def linear(tensor: dict[str, Double], name: str, x: Double) -> Double:
    mapped: Double = x @ tensor[f"{name}.dense.weight"].T + tensor[f"{name}.dense.bias"]
    return mapped


def norm(tensor: dict[str, Double], name: str, x: Double) -> Double:
    scaled = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-12)
    moved: Double = scaled * tensor[f"{name}.LayerNorm.gamma"] + tensor[f"{name}.LayerNorm.beta"]
    return moved


def gelu(x: Double) -> Double:
    bent: Double = x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    return bent


TINY = sparse_model("splade-tiny")
SAID = (
    "",
    "customer retention",
    "The moon pulls the sea, so the water rises twice a day. 東京 café 😀",
    "read_csv(path) " * 40,
)


@pytest.fixture(scope="module")
def splade() -> Splade:
    return Splade.load(TINY, 64)


@pytest.mark.parametrize("text", SAID)
def test_terms_weigh_as_computed_in_double_precision(splade: Splade, text: str) -> None:
    expected = weights_of(TINY, text, 64)
    found = np.zeros(TINY.terms)
    terms, weights = splade.encode(text)
    found[terms] = weights
    assert np.abs(found - expected).max() < 1e-4
    assert (weights > 0).all()
    assert (np.diff(terms) > 0).all()


def test_terms_are_added_that_the_text_does_not_hold(splade: Splade) -> None:
    terms, weights = splade.encode("customer retention")
    strongest = [splade.tokenizer.id_to_token(int(terms[n])) for n in np.argsort(-weights)]
    assert set(strongest[:2]) == {"customer", "retention"}
    assert len(strongest) > 10
    assert TINY.weights.sha256[:16] in splade.identity
    assert "64 tokens" in splade.identity
    assert np.__version__ in splade.identity


def test_text_beyond_the_last_token_is_not_read(splade: Splade) -> None:
    words = "the water rises twice a day " * 20
    one, other = splade.encode(words), splade.encode(words + "volcano " * 1000)
    assert (one.terms == other.terms).all()
    assert (one.weights == other.weights).all()
    first, again = splade.encode(SAID[2]), splade.encode(SAID[2])
    anew = Splade.load(TINY, 64).encode(SAID[2])
    for other in (again, anew):
        assert (first.terms == other.terms).all()
        assert (first.weights == other.weights).all()


def test_other_weights_are_refused() -> None:
    other = replace(TINY, weights=replace(TINY.weights, sha256="0" * 64))
    with pytest.raises(ModelNotReady, match="pinned"):
        Splade.load(other, 64)
    gone = replace(TINY, tokenizer=replace(TINY.tokenizer, package="no_such_package"))
    with pytest.raises(ModelNotReady, match="not installed"):
        Splade.load(gone, 64)
    assert len({model.name for model in MODELS}) == len(MODELS)
    with pytest.raises(UnknownName, match="splade-tiny"):
        sparse_model("splade-huge")
    with pytest.raises(ValueError, match="16 bits"):
        SparseStore.of([], 1 << 17)


class Counting:
    """Gives a text its length as the only term, and remembers who asked."""

    identity = "counting 1"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, text: str) -> Terms:
        self.asked.append(text)
        count = int(bool(text))
        return Terms(np.full(count, len(text)), np.full(count, 0.5, dtype=np.float32))


def lengths(texts: list[str], encoder: Counting, cache: Path) -> list[list[int]]:
    store = encode_all(texts, encoder, 100, cache)
    return [part.tolist() for part in np.split(store.terms, store.offsets[1:-1])]


def test_only_texts_never_seen_are_read(tmp_path: Path) -> None:
    encoder = Counting()
    assert lengths(["aa", "", "b", "aa"], encoder, tmp_path) == [[2], [], [1], [2]]
    assert sorted(encoder.asked) == ["", "aa", "b"]
    assert lengths(["b", "cccc"], encoder, tmp_path) == [[1], [4]]
    assert encoder.asked[3:] == ["cccc"]
    assert len(encode_all([], Counting(), 100, tmp_path)) == 0


def test_what_a_broken_file_held_is_made_again(tmp_path: Path) -> None:
    lengths(["aa", "b"], Counting(), tmp_path)
    (part,) = (tmp_path / SPARSE).rglob("*.npz")
    part.write_bytes(part.read_bytes()[:40])
    again = Counting()
    assert lengths(["aa", "b"], again, tmp_path) == [[2], [1]]
    assert sorted(again.asked) == ["aa", "b"]
    lengths(["aa"], Counting(), tmp_path)
    other = Counting()
    other.identity = "counting 2"
    lengths(["aa"], other, tmp_path)
    assert other.asked == ["aa"]


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
