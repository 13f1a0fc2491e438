"""Samples taken in lie beside the evidence; what is none, or damaged, is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import BadFile, EvidenceError
from harness.judge.pool import folder_of, labels_in, samples_in, take_sample
from tests.make.toy import Toy


def test_a_pool_that_is_no_sample_is_refused(project: Toy, tmp_path: Path) -> None:
    pool = tmp_path / "pool.qrels"
    pool.write_text("q00 0 d00 1\n")
    with pytest.raises((BadFile, EvidenceError), match="pool"):
        take_sample(project.layout, pool, "ada")
    assert labels_in(project.layout) == ()


def test_a_damaged_file_is_named(project: Toy) -> None:
    folder_of(project.layout).mkdir()
    (folder_of(project.layout) / "a.sample.json").write_text('{"query_id": 3}\n')
    with pytest.raises(BadFile, match=r"a\.sample\.json"):
        samples_in(project.layout)
