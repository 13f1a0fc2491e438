"""Order by a local model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from engines.stacks.writing.retrieval import LocalRerank, Outcome, Reason, VectorCache
from engines.vector.embedder import Embedder
from tests.make.notes import Letters


def order(snippets: Sequence[str], embedder: Embedder | None, *, enabled: bool = True) -> Outcome:
    return LocalRerank(embedder, enabled, VectorCache(100, 100_000)).order("abba", snippets)


def test_the_nearest_comes_first_and_equal_ones_as_they_came() -> None:
    outcome = order(["zz", "ab", "ba", "aab"], Letters())
    assert outcome.order == (1, 2, 3, 0)
    assert outcome.reason is None
    assert outcome.cosines == pytest.approx((0.0, 1.0, 1.0, 3 / 10**0.5), abs=1e-6)


def test_without_a_model_the_order_stays_and_the_reason_is_told() -> None:
    assert order(["zz", "ab"], None) == ((0, 1), (), (), Reason.MODEL_NOT_READY)
    assert order(["zz", "ab"], Letters(), enabled=False) == ((0, 1), (), (), Reason.DISABLED)
    assert order([], Letters()) == ((), (), (), Reason.NO_CANDIDATES)
    assert order([], None).reason is Reason.MODEL_NOT_READY


class Broken(Letters):
    """Has no memory."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        raise RuntimeError(f"no memory for {len(texts)}")


class Blind(Letters):
    """Sees nothing."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.full((len(texts), 26), np.nan, dtype=np.float32)


@pytest.mark.parametrize("embedder", [Broken(), Blind()])
def test_a_model_that_fails_is_not_ready(embedder: Embedder) -> None:
    assert order(["zz", "ab"], embedder) == ((0, 1), (), (), Reason.MODEL_NOT_READY)


def test_a_share_of_fts_counts_in_the_order() -> None:
    snippets = ["zz", "ab"]
    rerank = LocalRerank(Letters(), True, VectorCache(10, 10_000), 0.9)  # noqa: FBT003  whether it runs
    found = rerank.order("ab", snippets, [1.0, 0.0])
    assert found.order == (0, 1)
    assert found.keys == pytest.approx((0.9, 0.1), abs=1e-6)
    assert found.cosines == pytest.approx((0.0, 1.0), abs=1e-6)
    assert replace(rerank, fts_share=0.0).order("ab", snippets, [1.0, 0.0]).order == (1, 0)
