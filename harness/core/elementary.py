"""Logarithms and exponentials with the same bits on every x86-64 processor with FMA.

numpy computes these of whole arrays by other code where a processor has AVX-512, and the last bit
differs. An interval would then have other digits on another machine, although it was drawn from the
same scores. scipy takes them one by one, from the C library. Sums, products, square roots and
whole powers made of products are exact by the standard and need no care.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]


def log(values: Floats) -> Floats:
    """Return the natural logarithm of each value, minus infinity of 0."""
    return np.asarray(special.xlogy(1.0, values))


def log1p(values: Floats) -> Floats:
    """Return the natural logarithm of 1 plus each value, minus infinity of -1."""
    return np.asarray(special.log1p(values))


def log2(whole: NDArray[np.int64]) -> Floats:
    """Return the binary logarithm of each whole number, which must be 1 or more."""
    return np.asarray(special.xlogy(1.0, whole) / math.log(2))


def expm1(values: Floats) -> Floats:
    """Return e to the power of each value, minus 1."""
    return np.asarray(special.expm1(values))


def exp(values: Floats) -> Floats:
    """Return e to the power of each value, with an absolute error of 1e-16 below 0."""
    return np.asarray(special.expm1(values) + 1.0)


def powers(base: float, most: int) -> Floats:
    """Return ``base`` to the powers 0 to ``most``, each the one before times ``base``."""
    return np.multiply.accumulate(np.append(1.0, np.full(most, base)))
