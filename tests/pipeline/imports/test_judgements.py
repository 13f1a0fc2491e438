"""Judgements of an import, and a pool that is judged in part."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import BadFile
from harness.corpus import judgements as corpus_judgements
from harness.corpus.judgements import Pair, Pool
from harness.pipeline.imports import NOTHING_STATED, judgements


def a_pool(path: Path, *grades: int | None) -> Path:
    pairs = tuple(
        Pair(
            query_id="q", doc_id=f"d{at}", query="", title="", snippet="", narrows=0.0, scale=(0, 1)
        )
        for at in range(len(grades))
    )
    corpus_judgements.begin(path, Pool(pairs, grades))
    return path


def test_a_pool_is_taken_as_far_as_it_is_judged(tmp_path: Path) -> None:
    found, about = judgements(a_pool(tmp_path / "p", 1, None, 0), NOTHING_STATED)
    assert found.grades == {"q": {"d0": 1, "d2": 0}}
    assert about.warnings == ("The pool leaves 1 pair open.",)
    whole, about = judgements(a_pool(tmp_path / "w", 1), NOTHING_STATED)
    assert whole.grades == {"q": {"d0": 1}}
    assert about == NOTHING_STATED


def test_a_pool_without_a_grade_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="it holds no judgement"):
        judgements(a_pool(tmp_path / "p", None), NOTHING_STATED)


@pytest.mark.parametrize(("name", "line"), [("x.tsv", "q\td\t2\n"), ("x.qrels", "q 0 d 2\n")])
def test_other_files_are_read_by_their_names(tmp_path: Path, name: str, line: str) -> None:
    (tmp_path / name).write_text(line)
    assert judgements(tmp_path / name, NOTHING_STATED)[0].grades == {"q": {"d": 2}}


def test_an_open_pair_without_a_pool_beside_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("q 0 d ?\n")
    with pytest.raises(BadFile, match="x:1: the pair is not judged yet"):
        judgements(tmp_path / "x", NOTHING_STATED)
