"""Agreement of two lists written as the formulas read, and pairs of rankings drawn at random."""

import math
from collections.abc import Sequence

from hypothesis import strategies as st

from harness.agreement import RankPair
from tests.make.runs import run_of


def jaccard(a: Sequence[str], b: Sequence[str]) -> float:
    """Divide |A and B| by |A or B|."""
    return len(set(a) & set(b)) / len(set(a) | set(b))


def rbo(a: Sequence[str], b: Sequence[str], p: float) -> float:
    """Equation 32 of Webber, Moffat and Zobel (2010), term by term."""
    shorter, longer = sorted((a, b), key=len)
    s, length = len(shorter), len(longer)
    if not s:
        return 0.0

    def x(d: int) -> int:
        return len(set(shorter[:d]) & set(longer[:d]))

    seen = sum(x(d) / d * p**d for d in range(1, length + 1))
    assumed = sum(x(s) * (d - s) / (s * d) * p**d for d in range(s + 1, length + 1))
    rest = ((x(length) - x(s)) / length + x(s) / s) * p**length
    return (1 - p) / p * (seen + assumed) + rest


def shared_ranks(a: Sequence[str], b: Sequence[str]) -> tuple[list[int], list[int]]:
    """Absolute ranks, from 1, of the shared documents in either list."""
    shared = [d for d in a if d in b]
    return [a.index(d) + 1 for d in shared], [b.index(d) + 1 for d in shared]


def pseudo_ndcg(control: Sequence[str], candidate: Sequence[str], k: int) -> float:
    """NDCG@k with gains k, ..., 2, 1 down the control's list."""
    gain = {d: k - at for at, d in enumerate(control[:k])}
    dcg = sum(gain.get(d, 0) / math.log2(at + 2) for at, d in enumerate(candidate[:k]))
    return dcg / sum(g / math.log2(at + 2) for at, g in enumerate(gain.values()))


DOCUMENTS = [f"d{at}" for at in range(12)]

rankings = st.lists(st.sampled_from(DOCUMENTS), unique=True, max_size=10)
found = st.lists(st.sampled_from(DOCUMENTS), unique=True, min_size=1, max_size=10)
depths = st.integers(1, 12)


def pair_of(a: list[str], b: list[str]) -> RankPair:
    """Put two lists for one query side by side."""
    return RankPair.of(run_of({"q": a}, "control"), run_of({"q": b}, "candidate"))
