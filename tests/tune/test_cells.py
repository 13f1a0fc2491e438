"""A candidate that fails has no mean: it is named, left out, and never counted as bad."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import InvalidArm
from harness.corpus.prepared import Prepared
from harness.corpus.tuning import read
from harness.pipeline.params import ReplayParams
from harness.tune import files as tune_files
from harness.tune.stage import (
    Answers,
    CandidateFailed,
    Cells,
    Collection,
    Tuned,
    TuneRequest,
    tune,
)
from harness_engines import registry
from tests.make.toy import Toy

FAILS = 3
ENGINE = f"""
from harness_engines.stacks.text import tantivy

class Failing:
    def __init__(self, searcher, number):
        self.searcher, self.number, self.manifest = searcher, number, searcher.manifest

    def search(self, text, k):
        if self.number == {FAILS}:
            raise RuntimeError("out of memory")
        return self.searcher.search(text, k)

class Engine:
    def __init__(self, number, inner):
        self.number, self.inner = number, inner

    def build(self, documents, index):
        return self.inner.build(documents, index)

    def open(self, index):
        from contextlib import contextmanager
        @contextmanager
        def opened():
            with self.inner.open(index) as searcher:
                yield Failing(searcher, self.number)
        return opened()

def engine(settings, cache):
    words = dict(settings)
    return Engine(words.pop("number"), tantivy.engine(words, cache))
"""
ARM = """\
summary = "x"
stack = "failing.py"
[settings]
number = 1
language = "none"
bm25_over = "document"
title_weight = 2.0
text_weight = 1.0
joined = "both"
"""
SPACE = """\
[search]
measure = "nDCG@10"
folds = 3
seed = 1
confidence = 0.95
resamples = 1000
[space]
number = [3, 2]
"""
LIMITS = ReplayParams(k=10, time_limit_s=10, seed=1)


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    (tmp_path / "failing.py").write_text(ENGINE)
    (tmp_path / "x.toml").write_text(ARM)
    (tmp_path / "space.toml").write_text(SPACE)
    return tmp_path / "x.toml"


def tuned(arm: Path, data: Prepared) -> Tuned:
    file, to = arm.with_name("space.toml"), arm.with_name("y.toml")
    work = arm.parent / "work"
    return tune(
        TuneRequest(str(arm), tune_files.read(file), file, [data], LIMITS, to, work, arm.parent)
    )


def test_a_candidate_that_fails_is_left_out_and_named(project: Toy, arm: Path) -> None:
    found = tuned(arm, Prepared.open(project.layout.data))
    assert found.record == read(found.path)
    assert found.record.settings == {"number": 2}
    assert found.record.failed.keys() == {"number = 3"}
    assert "RuntimeError: out of memory" in found.record.failed["number = 3"]


def test_an_arm_that_fails_as_it_is_given_is_refused(project: Toy, arm: Path) -> None:
    arm.write_text(ARM.replace("number = 1", "number = 3"))
    with pytest.raises(InvalidArm, match=r"fails as it is given, at query .* out of memory"):
        tuned(arm, Prepared.open(project.layout.data))
    assert not arm.with_name("y.toml").exists()


def test_values_are_kept_where_they_were_measured(project: Toy, arm: Path, tmp_path: Path) -> None:
    data = Prepared.open(project.layout.data)
    told: list[int] = []
    arms = [registry.load(str(arm), tmp_path, {"number": number}) for number in (1, FAILS)]
    answers = Answers(arms, 10, 10.0, tmp_path / "index", "code")
    at = [Collection(data, data.queries(), data.qrels())] * 2
    cells = Cells(answers, at, "nDCG@10", tmp_path / "values", told.append)
    rows = np.array([0, 2, len(data.queries())])
    first = cells(0, rows)
    assert first[0] == first[2]
    assert sum(told) == 2
    again = Cells(answers, at, "nDCG@10", tmp_path / "values", told.append)
    assert again(0, rows).tolist() == first.tolist()
    assert sum(told) == 2
    with pytest.raises(CandidateFailed) as failed:
        cells(1, rows)
    assert failed.value.candidate == 1
