"""Random words that have an address."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from harness.stats.bootstrap import Purpose, picks, slab_bytes


@pytest.mark.parametrize("units", [3, 8, 300, 5_000])
def test_a_resample_is_the_same_in_any_block(units: int) -> None:
    whole = picks(7, Purpose.QUERIES, first=0, rows=12, units=units)
    parts = [picks(7, Purpose.QUERIES, first=at, rows=4, units=units) for at in (0, 4, 8)]
    assert (whole == np.concatenate(parts)).all()
    signs = slab_bytes(7, Purpose.SIGNS, slab=units, first=0, rows=12)
    assert (signs[5:9] == slab_bytes(7, Purpose.SIGNS, slab=units, first=5, rows=4)).all()


def test_every_unit_is_drawn_about_as_often() -> None:
    drawn = picks(7, Purpose.QUERIES, first=0, rows=4_000, units=50)
    assert (drawn.min(), drawn.max()) == (0, 49)
    assert stats.chisquare(np.bincount(drawn.reshape(-1))).pvalue > 1e-4
    assert stats.chisquare(np.bincount(drawn[:, 49])).pvalue > 1e-4


def test_signs_are_fair_and_those_of_two_slabs_differ() -> None:
    bits = [
        np.unpackbits(slab_bytes(7, Purpose.SIGNS, slab=at, first=0, rows=500)) for at in (0, 1)
    ]
    assert bits[0].mean() == pytest.approx(0.5, abs=0.006)
    assert (bits[0] == bits[1]).mean() == pytest.approx(0.5, abs=0.006)


def test_seeds_and_purposes_share_no_word() -> None:
    drawn = [
        picks(seed, purpose, first=0, rows=20, units=1_000)
        for seed in (0, 1, 2**70)
        for purpose in (Purpose.QUERIES, Purpose.TIMES)
    ]
    for at, one in enumerate(drawn):
        for other in drawn[at + 1 :]:
            assert (one == other).mean() < 0.01


def test_the_words_are_those_of_today() -> None:
    """A change here moves every interval and p-value on record."""
    assert picks(5, Purpose.TIMES, first=2, rows=1, units=100)[0, :6].tolist() == [
        80,
        45,
        44,
        77,
        12,
        15,
    ]
    assert slab_bytes(5, Purpose.SIGNS, slab=1, first=3, rows=1)[0, :6].tolist() == [
        104,
        244,
        107,
        21,
        116,
        231,
    ]
