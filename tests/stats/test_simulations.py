"""How often the whole is wrong where the truth is known; few trials, with their tolerance.

``--all`` draws more. The same functions as tables: ``benchmarks/simulations.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from benchmarks.simulated_differences import losing
from benchmarks.simulated_races import of_one_intent
from benchmarks.simulated_traffic import peeking

pytestmark = [pytest.mark.slow, pytest.mark.simulation]
Draws = Callable[[int, int], int]


def chance(rate: float, trials: int) -> float:
    """Give the most that a true ``rate`` shows in ``trials``, but for one time in a thousand."""
    return rate + 3.1 * math.sqrt(rate * (1 - rate) / trials)


def test_looking_at_traffic_again_and_again_promotes_falsely_as_rarely(draws: Draws) -> None:
    streams = draws(300, 3_000)
    bet, looked = peeking(losing(0.02), streams=streams, looks=1_500)
    assert bet <= chance(0.025, streams)
    assert looked > 0.15


def test_texts_that_are_alike_are_timed_once(draws: Draws) -> None:
    trials = draws(40, 400)
    every, one = (
        of_one_intent(20, 50.0, one_each=one_each, texts=400, trials=trials)
        for one_each in (False, True)
    )
    assert every > 0.1, "the fault that it is against is not there"
    assert one <= chance(0.025, trials)
