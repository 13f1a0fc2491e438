"""Which queries are compared: every so many, evenly, and the same ones in every run."""

from __future__ import annotations

import numpy as np

from harness.core.errors import HarnessError

MILLION = 1_000_000


class Sampler:
    """Picks a share of the queries by their number, by error diffusion in whole millionths.

    Of any n queries in a row n times the rate are picked, one more or one less at most. So
    without bursts (the first picks of each ten thousand, as a remainder below a bound would
    give). That is the tightest that there is, and it leaves nothing to chance but the phase, which
    ``seed`` draws. Traffic that repeats itself with just the sampler's period is seen at one place
    of it. A rate such as 97,003 millionths, and not 100,000, has no period to meet.

    Raises:
        HarnessError: the rate does not lie between 0 and a million.
    """

    def __init__(self, *, rate: int, seed: int) -> None:
        phase = int(np.random.default_rng(seed).integers(MILLION))
        self._phase, self.rate = phase, _checked(rate)
        """``rate`` is picks in a million queries, ``_phase`` what is left over before the first."""

    def takes(self, number: int) -> bool:
        """Tell whether the query of this number, from 1, is picked."""
        before = self._phase + (number - 1) * self.rate
        return (before + self.rate) // MILLION > before // MILLION


def _checked(rate: int) -> int:
    if not 0 <= rate <= MILLION:
        raise HarnessError(
            f"a rate of {rate} in a million; give a whole number from 0 to {MILLION}"
        )
    return rate
