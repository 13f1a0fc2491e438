"""Sparse vectors: what the model says of a text, what is kept of it, and their dot products."""

from __future__ import annotations

import math
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
TEXTS = (
    "",
    "customer retention",
    "The moon pulls the sea, so the water rises twice a day. 東京 café 😀",
    "read_csv(path) " * 40,
)


@pytest.fixture(scope="module")
def splade() -> Splade:
    return Splade.load(TINY, 64)


@pytest.mark.parametrize("text", TEXTS)
def test_terms_weigh_what_a_plain_computation_in_double_precision_says(
    splade: Splade, text: str
) -> None:
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


def test_text_beyond_the_last_token_is_not_read(splade: Splade) -> None:
    words = "the water rises twice a day " * 20
    one, other = splade.encode(words), splade.encode(words + "volcano " * 1000)
    assert (one.terms == other.terms).all()
    assert (one.weights == other.weights).all()


def test_the_identity_names_weights_tokens_and_numpy(splade: Splade) -> None:
    assert TINY.weights.sha256[:16] in splade.identity
    assert "64 tokens" in splade.identity
    assert np.__version__ in splade.identity


def test_other_weights_are_refused() -> None:
    other = replace(TINY, weights=replace(TINY.weights, sha256="0" * 64))
    with pytest.raises(ModelNotReady, match="pinned"):
        Splade.load(other, 64)
    gone = replace(TINY, tokenizer=replace(TINY.tokenizer, package="no_such_package"))
    with pytest.raises(ModelNotReady, match="not installed"):
        Splade.load(gone, 64)


def test_a_model_is_one_of_the_table() -> None:
    assert len({model.name for model in MODELS}) == len(MODELS)
    with pytest.raises(UnknownName, match="splade-tiny"):
        sparse_model("splade-huge")


def test_a_model_says_the_same_twice_and_when_it_is_loaded_anew(splade: Splade) -> None:
    first, again = splade.encode(TEXTS[2]), splade.encode(TEXTS[2])
    anew = Splade.load(TINY, 64).encode(TEXTS[2])
    for other in (again, anew):
        assert (first.terms == other.terms).all()
        assert (first.weights == other.weights).all()


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


def test_another_encoder_shares_nothing(tmp_path: Path) -> None:
    lengths(["aa"], Counting(), tmp_path)
    other = Counting()
    other.identity = "counting 2"
    lengths(["aa"], other, tmp_path)
    assert other.asked == ["aa"]


def test_what_a_broken_file_held_is_made_again(tmp_path: Path) -> None:
    lengths(["aa", "b"], Counting(), tmp_path)
    (part,) = (tmp_path / SPARSE).rglob("*.npz")
    part.write_bytes(part.read_bytes()[:40])
    again = Counting()
    assert lengths(["aa", "b"], again, tmp_path) == [[2], [1]]
    assert sorted(again.asked) == ["aa", "b"]


def test_no_text_gives_no_row(tmp_path: Path) -> None:
    assert len(encode_all([], Counting(), 100, tmp_path)) == 0


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


def test_a_vocabulary_beyond_16_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="16 bits"):
        SparseStore.of([], 1 << 17)
