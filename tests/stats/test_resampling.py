"""Sums over resampled queries, against the plain way of taking them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.stats.resampling import drawn_sums, flipped_sums
from harness.stats.streams import Purpose, picks, sign_bytes


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
    drawn = np.concatenate([sign_bytes(9, slab=at, first=0, rows=200) for at in slabs], axis=1)
    bits = np.unpackbits(drawn, axis=1, bitorder="little")[:, :units]
    found = flipped_sums(columns(units), resamples=200, seed=9)
    assert found == pytest.approx((2.0 * bits - 1) @ columns(units), abs=1e-11)


def test_a_block_is_never_smaller_than_a_resample() -> None:
    units = 300_000
    found = drawn_sums(np.ones((units, 1)), resamples=2, seed=9, threads=2)
    assert found.tolist() == [[units], [units]]
