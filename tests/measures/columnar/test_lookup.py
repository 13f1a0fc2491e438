"""Where pairs stand in a list of pairs."""

from __future__ import annotations

import numpy as np
import pytest

from harness.measures.columns import EMPTY, UNKNOWN, Lookup


@pytest.mark.parametrize("documents", [3, 50, 100_000])
@pytest.mark.parametrize("queries", [1, 7, 400])
def test_finds_what_a_dictionary_finds(queries: int, documents: int) -> None:
    """Also where one query has most of the pairs, so that slots run out at every level."""
    rng = np.random.default_rng(queries + documents)
    crowd = np.zeros(600, dtype=np.int64)
    rows = np.concatenate([rng.integers(0, queries, 900), crowd])
    docs = rng.integers(0, documents, len(rows))
    known = {pair: at for at, pair in enumerate(dict.fromkeys(zip(rows, docs, strict=True)))}
    pairs = np.array(list(known), dtype=np.int64)
    lookup = Lookup.of(pairs[:, 0], pairs[:, 1].astype(np.int32), queries)
    assert queries < 400 or documents < 100_000 or len(lookup.keys) > 0
    asked_rows = np.concatenate([rng.integers(0, queries, 5000), pairs[:, 0]])
    asked_docs = np.concatenate([rng.integers(0, documents, 5000), pairs[:, 1]])
    asked_docs[::17] = UNKNOWN
    places, found = lookup.find(asked_rows, asked_docs.astype(np.int32))
    wanted = [known.get(pair) for pair in zip(asked_rows, asked_docs, strict=True)]
    assert places.tolist() == [at for at, pair in enumerate(wanted) if pair is not None]
    assert found.tolist() == [pair for pair in wanted if pair is not None]


def test_an_empty_slot_is_nobody() -> None:
    nothing = np.empty(0, dtype=np.int64)
    empty = Lookup.of(nothing, nothing.astype(np.int32), 2)
    asked = np.array([0, 1]), np.array([0, UNKNOWN], dtype=np.int32)
    assert empty.find(*asked)[0].tolist() == []
    one = Lookup.of(np.array([1]), np.array([0], dtype=np.int32), 2)
    assert EMPTY in one.levels[0].docs
    assert one.find(*asked)[0].tolist() == []
    assert one.find(np.array([1]), np.array([0], dtype=np.int32))[1].tolist() == [0]


def test_pairs_without_a_slot_are_searched_for() -> None:
    docs = np.arange(3000, dtype=np.int32)
    lookup = Lookup.of(np.zeros(3000, dtype=np.int64), docs, 900)
    assert len(lookup.keys) > 0
    asked = np.array([2999, 5, 4000, 17], dtype=np.int32)
    place, pair = lookup.find(np.array([0, 0, 0, 1]), asked)
    assert (place.tolist(), pair.tolist()) == ([0, 1], [2999, 5])
