"""The mean of bounded values, with room for unseen ones.

Gaffke, "Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative
variable", Mathematical Methods of Statistics 14 (2005). Learned-Miller and Thomas, "A new
confidence interval for the mean of a bounded random variable" (2019). The values and one unseen
value, the worst possible, get weights from a uniform Dirichlet distribution. The low end is the
quantile of that mean at the level. Over values of two kinds it is the exact interval of Clopper and
Pearson (1934), and over n equal values it leaves room for about ``-log(level) / n`` unseen ones.

No draws: with exponential variables e_i the chance that the weighted mean is below t is that of
``sum(e_i * (x_i - t)) <= 0``, a sum whose cumulants are known. Its tail is the saddlepoint
approximation r* of Barndorff-Nielsen (Biometrika 73, 1986), ``SHORT`` times, so that no end
promises more than the exact tail does.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from harness.core.elementary import log
from harness.core.errors import EvidenceError
from harness.stats.bootstrap import by_cluster

CELLS_AT_ONCE = 1 << 16
SHORT = 1.08
"""No tail is more than so many times r*. Of samples that were searched beside their exact tails
(``benchmarks/simulate.py bound``), 1.053 is the worst at a level of 2.5 %, and 1.071 at 5e-7."""
ROUNDS = 200
"""Steps of Newton's method; about eight are needed, and sixty where each halves its bracket."""
FINE = 1e-10
OUTSIDE = 1e-9
"""Values this far out of their span are rounded ones."""
DAMPED_FROM, NEARLY = 0.25, 0.99
MIDDLE = 1e-3
"""Closer to the middle than so many deviations, the probability is a half: r* divides by them."""

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


class ValueRange(NamedTuple):
    """The least and the greatest possible value."""

    least: float
    most: float

    @property
    def differences(self) -> "ValueRange":
        """Of the differences of two such values."""
        return ValueRange(self.least - self.most, self.most - self.least)


class Ends(NamedTuple):
    """Both ends of an interval, shape (columns,)."""

    low: Floats
    high: Floats


class _Sample(NamedTuple):
    """Units by column, and the unseen one as their last; better is greater."""

    sums: Floats
    """Shape (columns, units + 1)."""
    sizes: Floats
    """Shape (units + 1,)."""
    counts: Floats
    """Shape (units + 1,): how often each is there."""
    least: float

    def only(self, columns: Codes) -> "_Sample":
        """Keep some columns."""
        return self._replace(sums=self.sums[columns])


def bounded_each(
    values: Floats,
    *,
    span: ValueRange,
    level: float,
    clusters: Codes | None,
    largest: float = 0.0,
    times: float = 1.0,
) -> Ends:
    """Return ends that each miss a column's mean with probability at most ``level``.

    ``values`` has shape (queries, columns). With ``clusters``, shape (queries,), the unit is the
    cluster, and the mean is that over queries. ``largest`` is the share of the queries that one
    cluster may have, even if none so large was seen (``unseen_size``). ``times`` counts each value
    so often, for the ends of that many similar queries.
    """
    low, high = (
        low_ends(each, span=of, level=level, clusters=clusters, largest=largest, times=times)
        for each, of in ((values, span), (-values, ValueRange(-span.most, -span.least)))
    )
    return Ends(low, -high)


def low_ends(
    values: Floats,
    *,
    span: ValueRange,
    level: float,
    clusters: Codes | None,
    largest: float = 0.0,
    times: float = 1.0,
) -> Floats:
    """Return the low ends of ``bounded_each``; for the high ones, negate values, span and ends."""
    samples = (_sample(block, span, clusters, largest, times) for block in _blocks(values))
    return np.concatenate([_low_end(sample, level) for sample in samples])


def weighted_ends(
    values: Floats, weights: Floats, *, span: ValueRange, level: float
) -> tuple[float, float]:
    """Return both ends for the mean of ``values``, shape (queries,), with unequal ``weights``.

    The unseen value has the largest weight.
    """
    check_span(values, span)
    sizes = weights / weights.mean()
    unseen = unseen_size(sizes, 0.0, 1.0)
    ends = []
    for sign, least in ((1.0, span.least), (-1.0, -span.most)):
        sums = np.append(sign * values * sizes, least * unseen)[None, :]
        sample = _Sample(sums, np.append(sizes, unseen), np.ones(len(sizes) + 1), least)
        ends.append(sign * float(_low_end(sample, level)[0]))
    return ends[0], ends[1]


def chance_above(
    values: Floats, bound: float, *, span: ValueRange, clusters: Codes | None, largest: float = 0.0
) -> Floats:
    """Return the p-value of "the mean is ``bound`` or less" of each column, shape (columns,).

    It is below a level where the low end of ``bounded_each`` at that level lies above ``bound``.
    For the other side, negate values, bound and span.
    """
    found = []
    for block in _blocks(values):
        sample = _sample(block, span, clusters, largest, 1.0)
        at = max(bound, span.least + FINE)
        p_values = np.ones(block.shape[1])
        around = sample.sums - at * sample.sizes
        inside = np.flatnonzero(around.max(axis=1) > FINE)
        around = around[inside]
        tilt = _tilt(around, sample.counts, np.zeros(len(inside)))
        tail = ndtr(_deviations(around, sample, tilt)[0])
        p_values[inside] = np.minimum(1.0, SHORT * tail)
        found.append(p_values)
    return np.concatenate(found)


def _blocks(values: Floats) -> list[Floats]:
    width = max(1, CELLS_AT_ONCE // max(1, len(values)))
    return [values[:, start : start + width] for start in range(0, values.shape[1], width)]


def _sample(
    values: Floats, span: ValueRange, clusters: Codes | None, largest: float, times: float
) -> _Sample:
    check_span(values, span)
    sums, sizes = by_cluster(values, clusters)
    unseen = unseen_size(sizes, largest, times)
    counts = np.full(len(sizes) + 1, times)
    counts[-1] = 1.0
    with_unseen = np.full((values.shape[1], len(sizes) + 1), span.least * unseen)
    with_unseen[:, :-1] = sums.T
    return _Sample(with_unseen, np.append(sizes, unseen), counts, span.least)


def check_span(values: Floats, span: ValueRange) -> None:
    """Check values of any shape."""
    if not len(values):
        raise EvidenceError("no value, and so nothing to be said of their mean")
    least, most = float(values.min()), float(values.max())
    if not (span.least - OUTSIDE <= least and most <= span.most + OUTSIDE):
        raise EvidenceError(
            f"values from {least:g} to {most:g} are not all within {span.least:g} and"
            f" {span.most:g}; nothing may be said of their mean"
        )


def unseen_size(sizes: Floats, largest: float, times: float) -> float:
    """Size of the unseen unit: the largest that was seen, or that ``largest`` allows.

    A unit of size S and value D deviates from a mean m by S (D - m), which has a least value only
    where S has a greatest one (docs/decisions/0013).
    """
    return max(float(sizes.max()), largest * times * float(sizes.sum()))


def _low_end(sample: _Sample, level: float) -> Floats:
    """Solve "the chance that the weighted mean is below t is ``level``" for t, by Newton's method.

    The root stays in a bracket. Where r* turns sharply, as at a value that most units have, a step
    that leaves the bracket is replaced by its middle.
    """
    wanted, floor = float(ndtri(level / SHORT)), sample.least
    queries = float(sample.counts @ sample.sizes)
    mean = _summed(sample.sums, sample.counts) / queries
    spread = np.sqrt(_summed((sample.sums - np.outer(mean, sample.sizes)) ** 2, sample.counts))
    found = np.maximum(mean + wanted * spread / queries, floor + (mean - floor) / 20)
    found[mean <= floor + FINE] = floor
    tilt = np.zeros(len(found))
    least, most = np.full_like(mean, floor), mean.copy()
    moving = np.flatnonzero(mean > floor + FINE)
    for _ in range(ROUNDS):
        if not len(moving):
            break
        now, some = found[moving], sample.only(moving)
        around = some.sums - np.outer(now, some.sizes)
        tilt[moving] = _tilt(around, some.counts, tilt[moving])
        deviations, slope = _deviations(around, some, tilt[moving])
        short = deviations < wanted
        least[moving] = np.where(short, now, least[moving])
        most[moving] = np.where(short, most[moving], now)
        after = now + (wanted - deviations) / slope
        inside = (least[moving] < after) & (after < most[moving])
        after = np.where(inside, after, (least[moving] + most[moving]) / 2)
        found[moving] = after
        moving = moving[np.abs(after - now) > FINE]
    return found


def _deviations(around: Floats, sample: _Sample, tilt: Floats) -> tuple[Floats, Floats]:
    """How many normal deviations 0 lies below the weighted sum (r*), and r's slope in the mean."""
    room = 1 - tilt[:, None] * around
    exponent = _summed(log(room), sample.counts)
    curvature = _summed((around / room) ** 2, sample.counts)
    root = np.sign(tilt) * np.sqrt(np.maximum(2 * exponent, 0))
    near = np.abs(root) < MIDDLE
    safe = np.where(near, 1.0, root)
    ratio = np.where(near, 1.0, tilt * np.sqrt(curvature) / safe)
    slope = np.where(near, 1.0, tilt * _summed(1 / room, sample.counts * sample.sizes) / safe)
    return root + np.where(near, 0.0, log(ratio) / safe), slope


def _tilt(around: Floats, counts: Floats, start: Floats) -> Floats:
    """Tilt under which each column's weighted sum is expected to be 0, shape (columns,).

    The exponent is convex and self-concordant, so damped Newton steps find it from anywhere and
    never leave its domain (Nesterov and Nemirovskii, 1994). Each column needs values on both sides
    of 0.
    """
    found = np.clip(start, NEARLY / around.min(axis=1), NEARLY / around.max(axis=1))
    moving = np.arange(len(found))
    for _ in range(ROUNDS):
        if not len(moving):
            break
        some = around[moving] if len(moving) < len(found) else around
        tilted = some / (1 - found[moving, None] * some)
        first, second = _summed(tilted, counts), _summed(tilted**2, counts)
        decrement = np.abs(first) / np.sqrt(second)
        found[moving] -= first / second / np.where(decrement > DAMPED_FROM, 1 + decrement, 1.0)
        moving = moving[decrement > FINE]
    return found


def _summed(values: Floats, counts: Floats) -> Floats:
    """Weighted sum of each row, in an order that does not depend on the other rows."""
    return np.asarray((values * counts).sum(axis=1))
