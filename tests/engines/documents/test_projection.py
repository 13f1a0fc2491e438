"""Shorter token vectors: what they keep, and the file they are read from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engines.stacks.documents.models import DIMENSION, Projection
from engines.vector.embedder import unit
from harness.core.errors import IndexNotReady

WIDTH = 96


def vectors(rank: int, count: int = 400) -> NDArray[np.float16]:
    """Draw unit vectors that lie in ``rank`` dimensions."""
    dice = np.random.default_rng(5)
    inner = dice.normal(size=(count, rank)) @ dice.normal(size=(rank, WIDTH))
    return unit(inner.astype(np.float32)).astype(np.float16)


@pytest.mark.parametrize("rank", [3, DIMENSION])
def test_vectors_of_few_dimensions_keep_their_cosines(rank: int) -> None:
    given = vectors(rank)
    projection = Projection.fit(given)
    short = projection(given).astype(np.float64)
    whole = given.astype(np.float64)
    assert short.shape == (len(given), DIMENSION)
    assert projection.kept == pytest.approx(1.0, abs=1e-5)
    assert np.abs(short @ short.T - whole @ whole.T).max() < 4e-3


def test_it_keeps_as_much_as_the_best_map_of_that_rank_does() -> None:
    given = vectors(WIDTH)
    singular = np.linalg.svd(given.astype(np.float64), compute_uv=False) ** 2
    best = singular[:DIMENSION].sum() / singular.sum()
    projection = Projection.fit(given)
    assert projection.kept == pytest.approx(best, abs=1e-4)
    columns = projection.components.astype(np.float64)
    assert np.abs(columns.T @ columns - np.eye(DIMENSION)).max() < 1e-5


def test_the_same_tokens_in_another_order_give_the_same_map() -> None:
    given = vectors(WIDTH)
    one, other = Projection.fit(given), Projection.fit(given[::-1].copy())
    assert np.abs(one.components - other.components).max() < 1e-4


def test_directions_without_a_token_are_left_out() -> None:
    projection = Projection.fit(vectors(3))
    assert (np.abs(projection.components).sum(axis=0) > 0).sum() == 3
    nothing = Projection.fit(np.zeros((0, WIDTH), dtype=np.float16))
    assert not nothing(vectors(3)).any()
    assert nothing.kept == 1.0


def test_a_file_gives_back_what_was_written_and_a_broken_one_is_not_ready(tmp_path: Path) -> None:
    path = tmp_path / "projection.npz"
    made = Projection.fit(vectors(WIDTH))
    made.write(path)
    read = Projection.open(path, WIDTH)
    assert (read.components == made.components).all()
    assert read.kept == made.kept
    with pytest.raises(IndexNotReady, match="maps"):
        Projection.open(path, WIDTH + 1)
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(IndexNotReady, match="harness stage index"):
        Projection.open(path, WIDTH)
