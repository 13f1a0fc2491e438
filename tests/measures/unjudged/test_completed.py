"""``harness.measures.completion_bounds``: ratios of many queries at once, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from harness.measures.completion_bounds import Bounding, Hits, Ratios, effects_of_rr

NOTHING = np.zeros(0, dtype=np.int64)


def one_query() -> Hits:
    """Show an unjudged hit before the relevant one in the control, that alone in the candidate."""
    return Hits(
        1,
        np.array([0, 0]),
        np.array([1, 2]),
        np.array([0, 1]),
        np.array([0.0, 1.0]),
        np.array([0]),
        np.array([0]),
        np.array([1.0]),
    )


def test_a_hit_moves_the_sum_and_the_ideal_list() -> None:
    ratios = Ratios.of(one_query(), Bounding.of("nDCG@2", (0, 1)))
    found, second = ratios.effects(), 1 / np.log2(3)
    assert found.difference == pytest.approx([1 - second])
    assert found.worst == pytest.approx([(1 - 1 - second) / (1 + second)])
    assert found.best == found.difference
    assert found.loss == pytest.approx([(1 - second) * (1 - 1 / (1 + second)) + 1 / (1 + second)])
    assert found.gain.tolist() == [0.0]
    assert found.loss[0] == pytest.approx(found.difference[0] - found.worst[0])


def test_the_first_relevant_hit_alone_counts() -> None:
    found = effects_of_rr(one_query(), may_be_relevant=True)
    assert (found.difference.tolist(), found.worst.tolist()) == ([0.5], [0.0])
    assert effects_of_rr(one_query(), may_be_relevant=False).worst.tolist() == [0.5]


def test_no_hit_is_open_where_all_is_judged() -> None:
    hits = one_query()._replace(open=NOTHING)
    found = Ratios.of(hits, Bounding.of("P@2", (0, 1))).effects()
    assert found.worst == found.best == found.difference
    assert not len(found.loss)
