"""How often the whole is wrong where the truth is known; few trials, with their tolerance.

The same functions with many trials: ``benchmarks/simulations.py``.
"""

from __future__ import annotations

import math

from benchmarks.simulated_differences import losing
from benchmarks.simulated_samples import chained, family, non_inferiority
from benchmarks.simulated_traffic import peeking


def chance(rate: float, trials: int) -> float:
    """Give the most that a true ``rate`` shows in ``trials``, but for one time in a thousand."""
    return rate + 3.1 * math.sqrt(rate * (1 - rate) / trials)


def test_slices_raise_no_more_alarms_than_one_test_would() -> None:
    assert family(slices=8, queries=40, trials=200) <= chance(0.05, 200)


def test_a_gate_at_its_margin_passes_rarely() -> None:
    passed = non_inferiority(queries=60, trials=200)
    assert passed <= chance(0.05, 200)


def test_a_gate_well_within_its_margin_passes() -> None:
    assert non_inferiority(queries=200, trials=20, truth=0.1) == 1.0


def test_looking_at_traffic_again_and_again_promotes_falsely_as_rarely() -> None:
    bet, looked = peeking(losing(0.02), streams=300, looks=1_500)
    assert bet <= chance(0.025, 300)
    assert looked > 0.15


def test_three_chained_stages_promote_wrongly_as_rarely() -> None:
    assert chained(queries=60, trials=250) <= chance(0.05, 250)
