"""The first pool of queries that nobody has judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.folders import NotOurs
from harness.core.records import Document, Query
from harness.corpus import judgements
from harness.logs.stage import FirstPool, first_pool
from harness.pipeline.layout import Layout
from harness.pipeline.params import ReplayParams

WORDS = ("red", "blue", "green")
DOCUMENTS = [Document(f"d{at}", "", f"{WORDS[at % 3]} cone number{at}") for at in range(12)]
QUERIES = [Query("q1", "red cone"), Query("q2", "number5"), Query("q3", "nothing")]


def make(tmp_path: Path, name: str, depth: int, seed: int = 1) -> FirstPool:
    layout = Layout(tmp_path / f"build{name}" / "sample", tmp_path / "perf", tmp_path / "cache")
    return first_pool(
        layout, DOCUMENTS, QUERIES, arms=["fts5", "fts5-porter"], cache=tmp_path / "models",
        params=ReplayParams(k=50, time_limit_s=30, seed=seed), depth=depth, largest=2,
        path=tmp_path / name,
    )  # fmt: skip


def test_what_each_engine_shows_first_is_to_be_judged(tmp_path: Path) -> None:
    assert make(tmp_path, "p", 3) == FirstPool(4, 2)
    found = judgements.read_pool(tmp_path / "p")
    assert found.grades == (None,) * 4
    assert {(pair.query_id, pair.doc_id) for pair in found.pairs} == {
        *(("q1", f"d{at}") for at in (0, 3, 6)),
        ("q2", "d5"),
    }
    assert found.pairs[0].scale == (0, 1, 2)
    assert "red cone" in found.pairs[0].snippet


def test_pairs_of_a_query_stand_in_a_drawn_order(tmp_path: Path) -> None:
    orders = set()
    for seed in range(6):
        make(tmp_path, f"p{seed}", 4, seed)
        pairs = judgements.read_pool(tmp_path / f"p{seed}").pairs
        assert [pair.query_id for pair in pairs] == ["q1"] * 4 + ["q2"]
        orders.add(tuple(pair.doc_id for pair in pairs[:4]))
    assert len(orders) > 1


def test_a_pool_that_is_there_is_kept(tmp_path: Path) -> None:
    make(tmp_path, "p", 2)
    with pytest.raises(NotOurs, match="is there already"):
        make(tmp_path, "p", 3)
