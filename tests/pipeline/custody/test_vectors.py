"""Vectors of a record come to another machine, for the arms that have some."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.pipeline.dvc import VECTORS, keep_vectors, take_vectors
from harness.pipeline.layout import Layout
from harness_engines.stacks.text.dense import Dense, Settings
from harness_engines.stacks.text.hybrid import Hybrid
from tests.make.toy import Toy

pytestmark = pytest.mark.slow


def test_what_one_machine_kept_another_one_uses(project: Toy, tmp_path: Path) -> None:
    layout: Layout = project.layout
    root, cache = project.root, tmp_path / "cache"
    assert take_vectors(root, layout, "dense", cache) is None, "there is no record"
    keep_vectors(root, layout, ["fts5", "hash-hybrid", "dense", "hybrid"], tmp_path / "first")
    made = "all texts by one model, queries of the hybrid by another, and words have none"
    assert len(list((root / VECTORS).iterdir())) == 2, made
    for name in ("dense", "hybrid"):
        said = take_vectors(root, layout, name, cache)
        assert said is not None
        assert said.used
    for name in ("fts5", "hash-hybrid"):
        assert take_vectors(root, layout, name, cache) is None


def test_engines_of_vectors_say_that_they_have_some(tmp_path: Path) -> None:
    from harness.core.engine import KeepsVectors

    assert isinstance(Dense(Settings(embedder="hash", max_tokens=16), tmp_path), KeepsVectors)
    assert issubclass(Hybrid, KeepsVectors)
