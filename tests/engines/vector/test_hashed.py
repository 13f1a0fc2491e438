"""The hash embedder against published values of FNV-1a, 64 bits."""

from __future__ import annotations

import numpy as np
import pytest

from engines.vector.embedder import HashEmbedder, fnv1a_64


@pytest.mark.parametrize(
    ("data", "hashed"),
    [
        (b"", 0xCBF29CE484222325),
        (b"a", 0xAF63DC4C8601EC8C),
        (b"b", 0xAF63DF4C8601F1A5),
        (b"fo", 0x08985907B541D342),
        (b"foo", 0xDCB27518FED9D577),
        (b"foob", 0xDD120E790C2512AF),
        (b"fooba", 0xCAC165AFA2FEF40A),
        (b"foobar", 0x85944171F73967E8),
        (b"chongo was here!\n", 0x46810940EFF5F915),
    ],
)
def test_published_values_of_the_hash(data: bytes, hashed: int) -> None:
    assert fnv1a_64(data) == hashed


def test_a_word_lands_in_its_bucket_with_its_sign() -> None:
    (found,) = HashEmbedder(10).embed(["a"])
    expected = np.zeros(10)
    expected[0xAF63DC4C8601EC8C % 10] = 1.0  # the highest bit of af... is set
    assert found.tolist() == expected.tolist()
    (found,) = HashEmbedder(10).embed(["fo"])
    assert found[0x08985907B541D342 % 10] == -1.0  # that of 08... is not


def test_words_are_lower_cased_and_counted() -> None:
    embedder = HashEmbedder()
    once, twice, loud, split = embedder.embed(["a fo", "a a fo", "A, FO!", "a_fo"])
    assert np.array_equal(once, loud)
    assert np.array_equal(once, split)
    assert sorted(np.abs(twice[twice != 0])) == pytest.approx([1 / 5**0.5, 2 / 5**0.5])


def test_the_order_of_words_is_of_no_account() -> None:
    one, other = HashEmbedder().embed(["salt sea water", "water salt sea"])
    assert np.array_equal(one, other)


@pytest.mark.parametrize("text", ["", "!?", "\0", "_"])
def test_no_word_gives_zeros(text: str) -> None:
    assert not HashEmbedder().embed([text]).any()


def test_a_batch_is_its_texts() -> None:
    texts = ["salt", "", "a word with \ud800 half a pair", "東京"]
    embedder = HashEmbedder(64)
    together = embedder.embed(texts)
    assert together.shape == (4, 64)
    assert together.dtype == np.float32
    alone = np.concatenate([embedder.embed([text]) for text in texts])
    assert np.array_equal(together, alone)


def test_the_dimension_is_part_of_the_identity() -> None:
    assert HashEmbedder(64).identity != HashEmbedder(128).identity
