"""Signs of token vectors: what is packed comes back, as vectors of length 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engines.contract import IndexUnavailable
from engines.rerank import tokens
from engines.rerank.tokens import Contents, Ids, SignStore, identity, packed, packed_dimension
from engines.vector.scan import Half

DIMENSION, TOKENS = 32, 7


@pytest.fixture
def vectors() -> Half:
    return np.random.default_rng(4).normal(size=(TOKENS, DIMENSION)).astype(np.float16)


@pytest.fixture
def file(tmp_path: Path, vectors: Half) -> Path:
    def fill(slab: Half, offsets: Ids) -> None:
        slab[offsets[0] : offsets[-1]] = packed(vectors)

    contents = Contents(np.array([3, 9]), np.array([2, TOKENS - 2]), fill)
    width = packed_dimension(DIMENSION)
    tokens.write(tmp_path / "file", identity("e"), width, contents)
    return tmp_path / "file"


def test_signs_come_back_from_the_file_as_unit_vectors(file: Path, vectors: Half) -> None:
    store = SignStore.open(file, "e", DIMENSION)
    found = np.concatenate([store.of(3), store.of(9)]).astype(np.float32)
    assert len(store) == 2
    assert (np.sign(found) == np.where(vectors >= 0, 1, -1)).all()
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(TOKENS), abs=1e-3)


def test_they_are_not_taken_for_halves_of_the_embedder(file: Path) -> None:
    with pytest.raises(IndexUnavailable, match="dimension 2"):
        tokens.TokenStore.open(file, "e", DIMENSION)
    with pytest.raises(IndexUnavailable, match="embedder"):
        SignStore.open(file, "other", DIMENSION)


def test_a_dimension_that_fills_no_halves_is_refused() -> None:
    with pytest.raises(ValueError, match="40 components"):
        packed_dimension(40)
