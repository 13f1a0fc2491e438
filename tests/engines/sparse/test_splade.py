"""The sparse encoder gives what the model's weights say, and refuses other weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.sparse import MODELS, Splade, sparse_model
from harness.core.errors import ModelNotReady, UnknownName
from tests.engines.sparse.reference import weights_of

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
