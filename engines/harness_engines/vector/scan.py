"""Exact search over half-precision vectors that lie one after another in memory."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numkong
import numpy as np
from numpy.typing import NDArray

BLOCK = 256
"""Scores that share one maximum; the k-th highest maximum is a bound that k scores reach."""
FEW = 8
"""Where at most one block of so many can hold a candidate, the others are not looked into."""

COSINE_DIGITS = 6
"""Half precision holds no more, so equal here is a tie."""
SCAN_ROWS = 1 << 18
"""Rows scored at a time, 8 bytes each."""
GATHER_ROWS = 1 << 12
"""Allowed rows taken at a time."""
READ_OVER = 5
"""Reading this many rows for each that is wanted is as quick as copying the wanted ones."""

Half = NDArray[np.float16]
Rows = NDArray[np.int64]
Dots = NDArray[np.float64]


def nearest(vectors: Half, query: NDArray[np.float32], k: int, rows: Rows | None = None) -> "Top":
    """Find the ``k`` rows of highest dot product with ``query``; equal ones by row.

    ``vectors`` has the shape (rows, dimension), ``query`` (dimension,). Only ``rows``, ascending,
    may be found; None allows all. What the kernel adds up in single precision depends on the
    processor. So whatever may be found is added up again in double precision: its sixth digit is
    the same on each.
    """
    plain = np.asarray(vectors)
    asked = _half(query, plain.shape[1])
    if rows is not None and not (rows[1:] > rows[:-1]).all():
        raise ValueError("the rows to search do not ascend")

    def exact(at: Rows) -> Dots:
        return exact_dots(plain[at if rows is None else rows[at]], asked[0])

    if rows is None:
        return best(_all(plain, asked), k, COSINE_DIGITS, exact)
    top = best(_some(plain, asked, rows), k, COSINE_DIGITS, exact)
    return Top(rows[top.positions], top.scores)


def dots_of(vectors: Half, query: NDArray[np.float32], rows: Rows) -> Dots:
    """Dot products of these rows with ``query``, as ``nearest`` gives them; shape (rows,)."""
    plain = np.asarray(vectors)
    return exact_dots(plain[rows], _half(query, plain.shape[1])[0]).round(COSINE_DIGITS)


def exact_dots(vectors: Half, asked: Half) -> Dots:
    """Dot products in double precision, which holds each product of two halves; shape (rows,)."""
    return np.asarray(vectors.astype(np.float64) @ asked.astype(np.float64))


def _half(query: NDArray[np.float32], dimension: int) -> Half:
    """Bring the query to what the kernel takes: one row in half precision."""
    if query.shape != (dimension,):
        raise ValueError(f"the query's shape is {query.shape}, the vectors' dimension {dimension}")
    with np.errstate(over="ignore"):
        asked = query.astype(np.float16)
    if not np.isfinite(asked).all():
        raise ValueError("the query's vector is not finite in half precision")
    return asked[None, :]


def _dots(vectors: Half, asked: Half, out: Dots) -> Dots:
    """Multiply halves, add in single precision, into the first of ``out``; the GIL is free."""
    numkong.cdist(asked, vectors, "dot", out=out[:, : len(vectors)])
    return out[0, : len(vectors)]


def _all(vectors: Half, asked: Half) -> Iterator[Dots]:
    """Score every row; a part is overwritten by the next, because fresh memory is slow."""
    out = np.empty((1, min(SCAN_ROWS, len(vectors))))
    for low in range(0, len(vectors), SCAN_ROWS):
        yield _dots(vectors[low : low + SCAN_ROWS], asked, out)


def _some(vectors: Half, asked: Half, rows: Rows) -> Iterator[Dots]:
    """Score the allowed rows: read over the others where they are few, else copy."""
    out = np.empty((1, READ_OVER * min(GATHER_ROWS, len(rows))))
    for low in range(0, len(rows), GATHER_ROWS):
        wanted = rows[low : low + GATHER_ROWS]
        first, end = int(wanted[0]), int(wanted[-1]) + 1
        if end - first <= READ_OVER * len(wanted):
            yield _dots(vectors[first:end], asked, out)[wanted - first]
        else:
            yield _dots(vectors[wanted], asked, out)


class Top(NamedTuple):
    """Where the best scores stand, and what they are; shape (kept,) both."""

    positions: Rows
    scores: Dots


NOTHING = Top(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float64))


def best(
    parts: Iterable[Dots],
    k: int,
    digits: int,
    exact: Callable[[Rows], Dots] | None = None,
) -> Top:
    """Rank the ``k`` highest of all scores, rounded to ``digits``: by (-score, position).

    Positions count from the first score of the first part. Of what has passed only ``k`` scores
    are held; a later position loses every tie, so from then on only a higher score is looked at.
    ``exact`` scores the positions that may be found once more, where the parts are off by up to one
    unit of the last digit.
    """
    if k < 1:
        raise ValueError(f"the best {k} were requested; ask for at least 1")
    kept, start = NOTHING, 0
    for scores in parts:
        if len(scores):
            floor = kept.scores.min() if len(kept.scores) == k else -np.inf
            positions = _candidates(scores, k, digits, floor)
            scored = scores[positions] if exact is None else exact(start + positions)
            rounded = scored.round(digits)
            higher = rounded > floor
            positions = np.concatenate([kept.positions, start + positions[higher]])
            kept = _cut(Top(positions, np.concatenate([kept.scores, rounded[higher]])), k)
        start += len(scores)
    by = np.argsort(-kept.scores, kind="stable")
    return Top(kept.positions[by], kept.scores[by] + 0.0)


def _candidates(scores: Dots, k: int, digits: int, floor: float) -> Rows:
    """Find every score that may be among the best ``k`` of its part and above ``floor``."""
    starts = np.arange(0, len(scores), BLOCK)
    maxima = np.maximum.reduceat(scores, starts)
    if not np.isfinite(maxima).all():
        raise ValueError("a score is not a finite number")
    bound = floor
    if len(maxima) > k:
        bound = max(floor, np.partition(maxima, len(maxima) - k)[len(maxima) - k])
    bound -= 2 * 10.0**-digits
    blocks = np.flatnonzero(maxima >= bound)
    if len(blocks) * FEW > len(maxima):
        found = np.flatnonzero(scores >= bound)
    else:
        inside = (starts[blocks, None] + np.arange(BLOCK)).ravel()
        inside = inside[: np.searchsorted(inside, len(scores))]
        found = inside[scores[inside] >= bound]
    if len(found) <= k:
        return found
    kth = np.partition(scores[found], len(found) - k)[len(found) - k]
    kept: Rows = found[scores[found] >= kth - 2 * 10.0**-digits]
    return kept


def _cut(top: Top, k: int) -> Top:
    """Keep the best ``k``, of equal ones the first, in the order in which they come."""
    excess = len(top.scores) - k
    if excess <= 0:
        return top
    edge = np.partition(top.scores, excess)[excess]
    kept = top.scores > edge
    kept[np.flatnonzero(top.scores == edge)[: k - kept.sum()]] = True
    return Top(top.positions[kept], top.scores[kept])
