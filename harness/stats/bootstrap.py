"""The bootstrap: sums over resampled queries, and the interval of a mean."""

import math
from collections.abc import Iterator
from enum import IntEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import ndtr, ndtri, stdtrit

from harness.core.errors import EvidenceError
from harness.core.printable import many
from harness.core.scores import Estimate

LINE_WORDS = 4
LINE_BYTES = 32
LINE_PICKS = 8
HALF = np.uint64(32)
LOW_HALF = np.uint64(0xFFFFFFFF)


class Purpose(IntEnum):
    """What the words are for; two purposes never share a word."""

    QUERIES = 1
    SIGNS = 2
    TIMES = 3
    WEIGHTS = 4


def picks(seed: int, purpose: Purpose, *, first: int, rows: int, units: int) -> NDArray[np.int32]:
    """Draw ``units`` of ``units`` with replacement for each resample, shape (rows, units).

    Row r belongs to resample ``first + r``. Half a word is mapped to a unit by multiplication
    (Lemire, ACM TOMACS 29, 2019) without his rejection: the chances of two units differ by
    less than ``units / 2**32`` of themselves.
    """
    lines = -(-units // LINE_PICKS)
    words = _words(seed, purpose, (first * lines, 0), rows * lines)
    found = np.empty((rows, lines * LINE_PICKS), dtype=np.int32)
    width = np.uint64(units)
    found[:, 0::2] = (((words >> HALF) * width) >> HALF).reshape(rows, -1)
    found[:, 1::2] = (((words & LOW_HALF) * width) >> HALF).reshape(rows, -1)
    return found[:, :units]


def slab_bytes(
    seed: int, purpose: Purpose, *, slab: int, first: int, rows: int
) -> NDArray[np.uint8]:
    """Draw the 32 bytes that the units of slab ``slab`` share, shape (rows, 32).

    Row r belongs to resample ``first + r``, which is its counter; the slab is the counter's
    second word.
    """
    words = _words(seed, purpose, (first, slab), rows)
    return words.astype("<u8", copy=False).view(np.uint8).reshape(rows, -1)


def _words(seed: int, purpose: Purpose, counter: tuple[int, int], lines: int) -> NDArray[np.uint64]:
    """Return the words of ``lines`` lines, shape (4 * lines,)."""
    key = np.random.SeedSequence((seed, purpose)).generate_state(2, np.uint64)
    start = np.array([*counter, 0, 0], dtype=np.uint64)
    return np.random.Philox(key=key, counter=start).random_raw(lines * LINE_WORDS)


Columns = NDArray[np.float64]
"""Shape (units, columns)."""
PICKS_AT_ONCE = 160_000
BYTE_STATES = 256
SIGNS = (-1.0, 1.0)
WEIGHTS = (-0.7422271989685592, -0.7422271989685592, -0.20550565907877782, 1.6899600570158961)
"""Two of four are the root near -0.74 of x**3 - x - 1/3; moments 0, 1 and 1 give the others."""


def drawn_sums(columns: Columns, *, resamples: int, seed: int) -> Columns:
    """Sum of as many units as there are, drawn with replacement; shape (resamples, columns).

    All columns share the draw.
    """
    units = len(columns)
    found = np.empty((resamples, columns.shape[1]))
    for block in _blocks(resamples, units):
        first, rows = block.start, len(block)
        drawn = picks(seed, Purpose.QUERIES, first=first, rows=rows, units=units)
        found[first : block.stop] = _summed(drawn, columns)
    return found


def flipped_sums(columns: Columns, *, resamples: int, seed: int) -> Columns:
    """Sum of the units under random signs; shape (resamples, columns).

    All columns share the signs.
    """
    return _by_bytes(columns, SIGNS, Purpose.SIGNS, resamples=resamples, seed=seed)


def reweighted_sums(columns: Columns, *, resamples: int, seed: int) -> Columns:
    """Sum of the units under random weights; shape (resamples, columns).

    A weight has mean 0, variance 1 and third moment 1. For many units, so has the count of a unit
    drawn with replacement, less 1. So sums around their mean have the first three moments of
    ``drawn_sums``. All columns share the weights.
    """
    return _by_bytes(columns, WEIGHTS, Purpose.WEIGHTS, resamples=resamples, seed=seed)


def _by_bytes(
    columns: Columns, levels: tuple[float, ...], purpose: Purpose, *, resamples: int, seed: int
) -> Columns:
    """Sum of the units, each times one of ``levels``, all alike probable."""
    found = np.zeros((resamples, columns.shape[1]))
    units = LINE_BYTES * _units_a_byte(levels)
    for slab, first in enumerate(range(0, len(columns), units)):
        sums = _sums_by_byte(columns[first : first + units], levels)
        tables = np.arange(0, len(sums), BYTE_STATES, dtype=np.int32)
        for block in _blocks(resamples, LINE_BYTES):
            rows = len(block)
            drawn = slab_bytes(seed, purpose, slab=slab, first=block.start, rows=rows)
            found[block.start : block.stop] += _summed(drawn[:, : len(tables)] | tables, sums)
    return found


def _units_a_byte(levels: tuple[float, ...]) -> int:
    return round(math.log(BYTE_STATES, len(levels)))


def _sums_by_byte(columns: Columns, levels: tuple[float, ...]) -> Columns:
    """Return the sums of each byte's units under each byte, shape (bytes * 256, columns)."""
    units = _units_a_byte(levels)
    groups = -(-len(columns) // units)
    padded = np.zeros((groups * units, columns.shape[1]))
    padded[: len(columns)] = columns
    by_group = padded.T.reshape(-1, groups, units, 1)
    sums = np.zeros((columns.shape[1], groups, 1))
    for at in range(units):
        weighed = by_group[:, :, at] * np.array(levels)
        sums = (weighed[..., None] + sums[:, :, None]).reshape(*sums.shape[:2], -1)
    return np.ascontiguousarray(sums.reshape(len(sums), -1).T)


def _summed(named: NDArray[np.int32], columns: Columns) -> Columns:
    """Add up the ``columns`` that each row of ``named`` names, in its order."""
    rows, width = named.shape
    ends = np.arange(0, named.size + 1, width, dtype=np.int32)
    parts = np.ones(named.size), named.reshape(-1), ends
    return np.asarray(csr_array(parts, shape=(rows, len(columns))) @ columns)


def _blocks(resamples: int, picks: int) -> Iterator[range]:
    """Split the resamples evenly, of so many picks each, into blocks that stay in the cache."""
    count = min(resamples, -(-resamples * picks // PICKS_AT_ONCE))
    ends = [resamples * at // count for at in range(count + 1)]
    yield from (range(start, stop) for start, stop in pairwise(ends))


FEWEST = 2
LEAST_FREEDOM = 2.0
WEIGHTED_FROM = 1_000
"""Independent queries from which on resamples weigh queries instead of counting them."""
TIE = 1e-12

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def bca(
    values: Floats, *, confidence: float, resamples: int, seed: int, clusters: Codes | None
) -> Estimate:
    """Mean of ``values``, shape (queries,), with its two-sided interval; see ``bca_each``."""
    (found,) = bca_each(
        values.reshape(-1, 1),
        confidence=confidence,
        resamples=resamples,
        seed=seed,
        clusters=clusters,
    )
    return found


def bca_each(
    values: Floats, *, confidence: float, resamples: int, seed: int, clusters: Codes | None
) -> tuple[Estimate, ...]:
    """Mean of each column of ``values``, shape (queries, columns), with its BCa interval.

    Efron, "Better bootstrap confidence intervals", JASA 82 (1987), limited where few queries carry
    the spread, as with two similar engines; docs/decisions/0009 has the evidence. The degrees of
    freedom df of the spread are ``2 n / (kurtosis - 1)``, at most n - 1 (Satterthwaite, Biometrics
    2, 1946). The levels are those of Student's t with df, widened by sqrt(n / (n-1)) (Hesterberg,
    The American Statistician 69, 2015). Bias and acceleration are estimates from the same few
    queries, so they are multiplied by (df / (n - 1)) squared. An end that the acceleration moves
    past infinity is the extreme of the resampled means, as it is in the limit.

    From 1,000 queries on, a resample gives each query a random weight instead of a count
    (Praestgaard and Wellner, Annals of Probability 21, 1993). The resampled means have the same
    first three moments, which determine this interval, and take a tenth of the time.

    With ``clusters``, shape (queries,), queries of one code are drawn together and left out
    together, and the mean is the ratio of the drawn sums to the drawn sizes. A column without
    spread gives an interval of width 0, so callers must require enough queries first. All columns
    share one draw. A column's interval does not depend on the other columns.
    """
    if not np.isfinite(values).all():
        raise EvidenceError("a value is NaN or infinite; nothing may be said of its mean")
    sums, sizes = by_cluster(values, clusters)
    check_units(len(sums))
    totals = np.array([column.sum() for column in _rows(sums)])
    means = _resampled(sums, sizes, totals, resamples=resamples, seed=seed)
    left_out = (totals - sums) / (sizes.sum() - sizes)[:, None]
    return tuple(
        _interval(*column, confidence)
        for column in zip(_rows(values), _rows(means), _rows(left_out), strict=True)
    )


def check_units(units: int) -> None:
    """Refuse so few independent queries that nothing says how they spread."""
    if units < FEWEST:
        raise EvidenceError(
            f"{many(units, 'independent query has')} no spread to learn from; ask at least {FEWEST}"
        )


def by_cluster(values: Floats, clusters: Codes | None) -> tuple[Floats, Floats]:
    """Return sums and size of each cluster; of each value where there are none.

    ``values`` has shape (queries,) or (queries, columns), the sums (clusters,) or (clusters,
    columns), the sizes (clusters,).
    """
    if clusters is None:
        return values, np.ones(len(values))
    _, code = np.unique(clusters, return_inverse=True)
    sizes = np.bincount(code).astype(np.float64)
    sums = np.zeros((len(sizes), *values.shape[1:]))
    np.add.at(sums, code, values)
    return sums, sizes


def _rows(columns: Floats) -> Floats:
    """Lay each column out in one piece, so that it is added up in the order it has alone."""
    return np.ascontiguousarray(columns.T)


def _resampled(sums: Floats, sizes: Floats, totals: Floats, *, resamples: int, seed: int) -> Floats:
    """Means of ``resamples`` resamples, shape (resamples, columns)."""
    counted = len(sums) < WEIGHTED_FROM
    middle = np.zeros(len(totals)) if counted else totals / sizes.sum()
    alike = bool((sizes == sizes[0]).all())
    around = sums - sizes[:, None] * middle
    columns = around if alike else np.column_stack([around, sizes])
    resampled = drawn_sums if counted else reweighted_sums
    moved = resampled(columns, resamples=resamples, seed=seed)
    size = moved[:, -1:] + (0 if counted else sizes.sum())
    found: Floats = middle + moved[:, : len(totals)] / (sizes.sum() if alike else size)
    return found


def _interval(values: Floats, means: Floats, left_out: Floats, confidence: float) -> Estimate:
    """Interval from the resampled ``means`` and the means with each unit ``left_out``."""
    if np.ptp(values) == 0:
        same = float(values[0])
        return Estimate(same, same, same, len(values))
    mean = float(values.mean())
    jackknife = left_out.mean() - left_out
    df = _df(jackknife)
    trust = (df / (len(jackknife) - 1)) ** 2
    # the bias is how far the middle of the resampled means lies from the mean
    tie = TIE * float(np.abs(values).max())
    below = (means < mean - tie).mean() + (np.abs(means - mean) <= tie).mean() / 2
    fewest = 0.5 / len(means)
    bias = trust * float(ndtri(np.clip(below, fewest, 1 - fewest)))
    squared = jackknife**2
    squares = squared.sum()
    acceleration = (
        trust * (squared * jackknife).sum() / (6 * squares * math.sqrt(squares)) if squares else 0.0
    )
    ends = bias + _reach(confidence, df, len(jackknife)) * np.array([-1.0, 1.0])
    room = 1 - acceleration * ends
    moved = np.where(room > 0, ends / np.where(room > 0, room, 1), np.copysign(math.inf, ends))
    low, high = np.quantile(means, ndtr(bias + moved))
    return Estimate(mean, float(low), float(high), len(values))


def _df(jackknife: Floats) -> float:
    """How many independent squares the spread rests on, from what each unit does to the mean."""
    units, squares = len(jackknife), jackknife**2
    excess = units * (squares**2).sum() - squares.sum() ** 2
    rests = 2 * units * squares.sum() ** 2 / excess if excess > 0 else math.inf
    return min(units - 1.0, max(LEAST_FREEDOM, float(rests)))


def _reach(confidence: float, df: float, units: int) -> float:
    """How far the upper end lies from the middle, in normal deviations of a resampled mean."""
    level = 1 - (1 - confidence) / 2
    return math.sqrt(units / (units - 1)) * float(stdtrit(df, level))
