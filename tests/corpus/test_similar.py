"""Pairs of queries that a model found, kept beside a data set."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import BadFile
from harness.corpus import clusters
from harness.corpus.clusters import NONE, SIMILAR, Similar

VECTORS = np.array([[1, 0], [0.8449, 0.535], [0.846, 0.5332], [0, 1]], dtype=np.float32)


@pytest.mark.parametrize("rows", [1, 3, 1_024])
def test_cosines_are_compared_as_they_are_kept(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "ROWS", rows)
    found = Similar.between("abcd", VECTORS, "a model", "of these")
    assert found == Similar("a model", 0.85, "of these", (("a", "c", 0.85), ("b", "c", 1.0)))


def test_pairs_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert clusters.read_similar(tmp_path, "of these") is NONE
    found = Similar.between("abcd", VECTORS, "a model", "of these")
    (tmp_path / SIMILAR).write_text(json.dumps(asdict(found)))
    assert clusters.read_similar(tmp_path, "of these") == found
    with pytest.raises(BadFile, match=r"similar\.json: its pairs are of other queries"):
        clusters.read_similar(tmp_path, "of others")
    (tmp_path / SIMILAR).write_text("{}")
    with pytest.raises(BadFile, match="model: Field required"):
        clusters.read_similar(tmp_path, "of these")
