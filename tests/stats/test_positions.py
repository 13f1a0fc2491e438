"""The position-based click model."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.core.errors import EvidenceError
from harness.stats.positions import position_model

LOOKS = np.array([1.0, 0.7, 0.5, 0.3])


def rows(pairs: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.repeat(np.arange(pairs), len(LOOKS)), np.tile(np.arange(len(LOOKS)), pairs)


def test_looks_and_attraction_are_found_apart() -> None:
    rng = np.random.default_rng(7)
    attractive = rng.uniform(0.05, 0.95, 40)
    pair, rank = rows(40)
    shown = rng.integers(200, 900, len(pair)).astype(np.float64)
    clicked = rng.binomial(shown.astype(np.int64), LOOKS[rank] * attractive[pair])
    found = position_model(pair, rank, shown, clicked.astype(np.float64))
    assert found.looked_at == pytest.approx(LOOKS, abs=0.02)
    assert found.attractive == pytest.approx(attractive, abs=0.08)


def test_without_position_bias_attraction_is_the_share_of_clicks() -> None:
    pair, rank = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    shown, clicked = np.full(4, 1e6), np.array([2e5, 2e5, 6e5, 6e5])
    found = position_model(pair, rank, shown, clicked)
    assert found.looked_at == pytest.approx([1, 1], abs=3e-3)
    assert found.attractive == pytest.approx([0.2, 0.6], abs=1e-3)


def test_a_document_shown_once_is_held_near_the_middle() -> None:
    pair, rank = np.array([0, 0, 1]), np.array([0, 1, 0])
    found = position_model(pair, rank, np.array([1e4, 1e4, 1.0]), np.array([5e3, 5e3, 1.0]))
    assert 0.5 < found.attractive[1] < 0.7


def test_ranks_that_no_document_joins_are_refused() -> None:
    pair, rank = np.array([0, 1, 1, 0, 2]), np.array([0, 2, 3, 1, 2])
    shown, clicked = np.ones(5), np.zeros(5)
    with pytest.raises(EvidenceError, match=r"between rank 1 and rank 3.* log interleaved lists"):
        position_model(pair, rank, shown, clicked)
    joined = np.append(pair, 0), np.append(rank, 3)
    assert len(position_model(*joined, np.ones(6), np.zeros(6)).looked_at) == 4


def test_counts_that_cannot_be_are_refused() -> None:
    one = np.array([0])
    with pytest.raises(EvidenceError, match="clicked more often than shown"):
        position_model(one, one, np.array([1.0]), np.array([2.0]))
    with pytest.raises(EvidenceError, match="no list with a first rank"):
        position_model(one, one + 1, np.array([1.0]), np.array([1.0]))
