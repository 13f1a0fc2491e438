"""Late interaction against a loop that anybody can follow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engines.contract import EngineError
from engines.rerank.tokens import LateInteraction, TokenStore, maxsim, spread, write_tokens
from engines.vector.scan import Half
from tests.engines.rerank.reader import DIMENSION, Words, word

TEXTS = ["the moon", "salt water", "bread of salt and of water", "", "bees", "salt water"]
FALLING = [1.0, 0.8, 0.6, 0.4, 0.3, 0.2]
ALL = list(range(len(TEXTS)))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    folder = tmp_path_factory.mktemp("tokens")
    write_tokens(folder / "file", ALL, TEXTS, Words(), folder / "cache")
    return TokenStore.open(folder / "file", Words().identity, DIMENSION)


def halves(words: Sequence[str]) -> Half:
    return np.array([word(one) for one in words]).reshape(-1, DIMENSION).astype(np.float16)


def plainly(query: Half, text: Half) -> float:
    """Compute the mean over the query's tokens of the best dot product, one by one."""
    asked, held = query.astype(np.float64), text.astype(np.float64)
    return sum(max(float(q @ t) for t in held) for q in asked) / len(asked)


@given(
    st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=6),
    st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=9),
)
def test_maxsim_is_the_mean_of_the_best_cosines(query: list[str], text: list[str]) -> None:
    found = maxsim(halves(query), halves(text))
    assert found == pytest.approx(plainly(halves(query), halves(text)), abs=2e-6)
    assert maxsim(halves(query), halves(text[::-1])) == found
    if set(query) <= set(text):
        assert found == pytest.approx(1.0, abs=1e-3)


def test_a_text_or_a_query_without_tokens_is_like_nothing() -> None:
    assert maxsim(halves(["a"]), halves([])) == 0.0
    assert maxsim(halves([]), halves(["a"])) == 0.0


@given(st.lists(st.floats(-1, 1), max_size=9))
def test_spread_scores_reach_from_0_to_1_in_the_same_order(scores: list[float]) -> None:
    given_scores: NDArray[np.float64] = np.array(scores)
    found = spread(given_scores)
    assert ((found >= 0) & (found <= 1)).all()
    assert (found[np.argsort(given_scores, kind="stable")] == np.sort(found)).all()
    if scores:
        assert found.max() == 1.0
        assert found.min() == (0.0 if min(scores) < max(scores) else 1.0)


@pytest.mark.parametrize("fused_weight", [0.0, 0.4, 1.0])
def test_the_blend_is_of_both_min_maxed_scores(store: TokenStore, fused_weight: float) -> None:
    found = LateInteraction(Words(), store, fused_weight).rerank("salt water", ALL, FALLING)
    raw = [maxsim(halves(["salt", "water"]), halves(text.split())) for text in TEXTS]
    assert [one.raw_score for one in found] == raw
    ours = (np.array(raw) - min(raw)) / (max(raw) - min(raw))
    theirs = (np.array(FALLING) - 0.2) / 0.8
    blend = fused_weight * theirs + (1 - fused_weight) * ours
    assert [one.score for one in found] == pytest.approx(blend.tolist(), abs=1e-6)


def test_it_lifts_what_says_the_same_and_leaves_equal_texts_to_their_fused_order(
    store: TokenStore,
) -> None:
    found = LateInteraction(Words(), store, 0.4).rerank("salt water", ALL, FALLING)
    assert max(ALL, key=lambda at: found[at].score) == 1
    assert found[1].raw_score == found[5].raw_score == pytest.approx(1.0, abs=1e-3)
    assert found[1].score > found[5].score
    alone = LateInteraction(Words(), store, 0.0).rerank("salt water", [5, 1], [0.9, 0.8])
    assert alone[0] == alone[1]


def test_the_order_of_the_window_does_not_matter(store: TokenStore) -> None:
    reranker = LateInteraction(Words(), store, 0.4)
    found = reranker.rerank("bees of salt", ALL, FALLING)
    assert reranker.rerank("bees of salt", ALL[::-1], FALLING[::-1]) == found[::-1]


def test_one_candidate_has_1_and_none_has_nothing(store: TokenStore) -> None:
    reranker = LateInteraction(Words(), store, 0.4)
    assert [one.score for one in reranker.rerank("salt", [0], [0.3])] == [1.0]
    assert reranker.rerank("salt", [], []) == []


def test_a_candidate_without_token_vectors_is_an_engine_error(store: TokenStore) -> None:
    with pytest.raises(EngineError, match="text 99 "):
        LateInteraction(Words(), store, 0.4).rerank("salt", [1, 99], [1.0, 0.5])


def test_reader_and_weight_make_the_identity(store: TokenStore) -> None:
    known = LateInteraction(Words(), store, 0.4).identity
    assert LateInteraction(Words("other"), store, 0.4).identity != known
    assert LateInteraction(Words(), store, 0.5).identity != known
    assert LateInteraction.identity_of(Words(), 0.4) == known
