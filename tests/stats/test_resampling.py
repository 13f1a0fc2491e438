"""Sums over resampled queries, against the plain way of taking them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.stats.bootstrap import (
    WEIGHTS,
    Purpose,
    drawn_sums,
    flipped_sums,
    picks,
    reweighted_sums,
    slab_bytes,
)


def columns(units: int) -> NDArray[np.float64]:
    return np.random.default_rng(units).normal(size=(units, 3))


@pytest.mark.parametrize("units", [1, 5, 64, 700])
def test_drawn_sums_are_sums_of_what_was_drawn(units: int) -> None:
    drawn = picks(9, Purpose.QUERIES, first=0, rows=200, units=units)
    found = drawn_sums(columns(units), resamples=200, seed=9)
    assert found == pytest.approx(columns(units)[drawn].sum(axis=1), abs=1e-11)


@pytest.mark.parametrize("units", [1, 5, 8, 256, 257, 700])
def test_flipped_sums_are_sums_under_the_signs_drawn(units: int) -> None:
    slabs = range(-(-units // 256))
    drawn = np.concatenate(
        [slab_bytes(9, Purpose.SIGNS, slab=at, first=0, rows=200) for at in slabs], axis=1
    )
    bits = np.unpackbits(drawn, axis=1, bitorder="little")[:, :units]
    found = flipped_sums(columns(units), resamples=200, seed=9)
    assert found == pytest.approx((2.0 * bits - 1) @ columns(units), abs=1e-11)


@pytest.mark.parametrize("units", [1, 4, 127, 128, 500])
def test_reweighted_sums_are_sums_under_the_weights_drawn(units: int) -> None:
    slabs = range(-(-units // 128))
    drawn = np.concatenate(
        [slab_bytes(9, Purpose.WEIGHTS, slab=at, first=0, rows=200) for at in slabs], axis=1
    )
    pairs = np.stack([(drawn >> shift) & 3 for shift in (0, 2, 4, 6)], axis=2)
    weights = np.array(WEIGHTS)[pairs.reshape(200, -1)[:, :units]]
    found = reweighted_sums(columns(units), resamples=200, seed=9)
    assert found == pytest.approx(weights @ columns(units), abs=1e-11)


def test_weights_have_the_moments_of_counts() -> None:
    weights = np.array(WEIGHTS)
    moments = [float((weights**power).mean()) for power in (1, 2, 3)]
    assert moments == pytest.approx([0, 1, 1], abs=1e-12)


def test_a_block_is_never_smaller_than_a_resample() -> None:
    units = 300_000
    found = drawn_sums(np.ones((units, 1)), resamples=2, seed=9, threads=2)
    assert found.tolist() == [[units], [units]]
