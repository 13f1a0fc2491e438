"""The best of many, and what the choice is worth where it had no part."""

from __future__ import annotations

import numpy as np
import pytest

from harness.core.errors import EvidenceError
from harness.stats.selection import Floats, Ints, Rows, Search, Selection, Values, select

QUERIES, CANDIDATES, FOLDS = 60, 20, 5


def rows_of(*sizes: int, each: int = 1) -> Rows:
    """Make collections of so many queries, ``each`` of them a cluster."""
    names = [f"c{at}" for at, size in enumerate(sizes) for _ in range(size)]
    clusters = [f"k{query // each}" for size in sizes for query in range(size)]
    return Rows.of(names, clusters, 7)


def table(values: Floats) -> Values:
    """Look values up, shape (queries, candidates)."""
    return lambda candidate, rows: values[rows, candidate]


def chosen(values: Floats, rows: Rows, first: int = QUERIES, folds: int = FOLDS) -> Selection:
    return select(table(values), rows, Search(values.shape[1], first, 0.5), folds)


def test_the_highest_mean_over_collections_wins_and_a_tie_goes_to_the_earlier() -> None:
    rows = rows_of(30, 10)
    values = np.zeros((40, 4))
    values[:30, 1], values[30:, 2], values[30:, 3] = 0.9, 1.0, 1.0
    assert chosen(values, rows).best == 2
    assert chosen(values, rows).apparent == pytest.approx(0.5)


def test_a_fold_has_no_part_in_its_own_choice() -> None:
    rows = rows_of(10)
    values = np.zeros((10, 2))
    values[:, 0] = 0.1
    values[rows.order % FOLDS == 3, 1] = 1.0
    found = chosen(values, rows)
    assert found.best == 1
    assert [one == 0 for one in found.by_fold] == [False, False, False, True, False]
    assert found.held_out[rows.order % FOLDS == 3].tolist() == [0.1, 0.1]


def test_a_cluster_is_never_split_between_folds() -> None:
    rows = rows_of(40, 20, each=4)
    for code in np.unique(rows.cluster):
        assert len(set((rows.order % FOLDS)[rows.cluster == code].tolist())) == 1


def test_a_collection_has_no_part_in_the_choice_without_it() -> None:
    rows = rows_of(10, 10, 10)
    values = np.zeros((30, 3))
    for at in range(3):
        values[rows.collection == at, at] = 1.0 + at / 10
    assert chosen(values, rows).elsewhere == (2, 2, 1)
    assert chosen(values[:10], rows_of(10)).elsewhere == ()


def test_fewer_clusters_than_folds_are_refused() -> None:
    with pytest.raises(EvidenceError, match="4 independent queries make no 5 folds"):
        chosen(np.zeros((24, 2)), rows_of(20, 4))


def test_halving_looks_at_few_queries_first_and_finds_what_is_plainly_best() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(0, 0.1, (QUERIES, CANDIDATES))
    values[:, 13] += 0.5
    looked = np.zeros(CANDIDATES, dtype=int)

    def counted(candidate: int, asked: Ints) -> Floats:
        looked[candidate] = max(looked[candidate], len(asked))
        found: Floats = values[asked, candidate]
        return found

    rows = rows_of(QUERIES)
    assert Search(CANDIDATES, 8, 0.5).best(counted, rows, rows.everything) == 13
    later = rows.everything[rows.order % FOLDS != 0]
    assert Search(CANDIDATES, 1, 0.9).best(table(values), rows, later) == 13
    assert looked.sum() < QUERIES * CANDIDATES / 2
    assert looked.min() == 8


@pytest.mark.parametrize("first", [QUERIES, 15])
def test_what_is_expected_is_near_the_truth_where_the_best_looks_too_good(first: int) -> None:
    """All candidates are equally good in truth, so what the best shows above that is optimism."""
    rng, truth, seen, expected = np.random.default_rng(11), 0.4, [], []
    for _ in range(400):
        found = chosen(truth + rng.normal(0, 0.3, (QUERIES, CANDIDATES)), rows_of(QUERIES), first)
        seen.append(found.apparent)
        expected.append(found.expected)
    error = np.std(expected) / len(expected) ** 0.5
    assert np.mean(seen) - truth > 0.04
    assert abs(np.mean(expected) - truth) < 4 * error < 0.02
