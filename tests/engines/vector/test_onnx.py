"""The sentence encoder: meaning, length, and independence of the batch."""

from __future__ import annotations

import numpy as np
import pytest

from engines.vector.embedder import OnnxEmbedder, model

TEXTS = [
    "water",
    "",
    "How do I read a comma-separated file into a data frame?",
    "Loading a CSV into pandas",
    "The soprano sings an aria while the orchestra plays softly in the pit. " * 6,
    "!?",
    "東京 😀",
]


@pytest.fixture(scope="module")
def embedder() -> OnnxEmbedder:
    return OnnxEmbedder.load(model("all-MiniLM-L6-v2"), 32)


def test_every_vector_has_length_one(embedder: OnnxEmbedder) -> None:
    found = embedder.embed(TEXTS)
    assert found.shape == (len(TEXTS), embedder.dimension)
    assert np.linalg.norm(found, axis=1) == pytest.approx(1, abs=1e-6)


def test_a_paraphrase_is_nearer_than_another_subject(embedder: OnnxEmbedder) -> None:
    asked, meant, other = embedder.embed([TEXTS[2], TEXTS[3], TEXTS[4]])
    assert asked @ meant > asked @ other + 0.2


@pytest.mark.parametrize("order", [1, -1])
def test_a_batch_of_mixed_lengths_is_its_texts_bit_for_bit(
    embedder: OnnxEmbedder, order: int
) -> None:
    texts = TEXTS[::order]
    alone = np.concatenate([embedder.embed([text]) for text in texts])
    assert np.array_equal(embedder.embed(texts), alone)


def test_text_beyond_the_most_tokens_is_not_read(embedder: OnnxEmbedder) -> None:
    begun = "salt " * 30  # and two tokens that frame it
    one, other, cut = embedder.embed([begun + "sea", begun + "opera house", begun])
    assert np.array_equal(one, other)
    assert np.array_equal(one, cut)
    shorter = embedder.embed(["salt " * 29])[0]
    assert not np.array_equal(one, shorter)


def test_how_much_is_read_is_part_of_the_identity(embedder: OnnxEmbedder) -> None:
    longer = OnnxEmbedder.load(model("all-MiniLM-L6-v2"), 64)
    assert longer.identity != embedder.identity
    begun = "salt " * 30
    one, other = longer.embed([begun + "sea", begun + "opera house"])
    assert not np.array_equal(one, other)


def test_a_model_says_the_same_twice_and_when_it_is_loaded_anew(embedder: OnnxEmbedder) -> None:
    anew = OnnxEmbedder.load(model("all-MiniLM-L6-v2"), 32)
    first = embedder.embed(TEXTS)
    assert np.array_equal(embedder.embed(TEXTS), first)
    assert np.array_equal(anew.embed(TEXTS), first)
