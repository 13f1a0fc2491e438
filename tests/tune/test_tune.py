"""Tuning: cells, their answers, and the file written."""

from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import InvalidArm
from harness.core.formats import toml_of
from harness.core.records import Scalar
from harness.corpus.prepared import Prepared
from harness.corpus.tuning import SUFFIX, TuningRecord, read
from harness.pipeline.params import ReplayParams
from harness.tune import stage
from harness.tune.stage import MARK, arm_text, is_ours
from harness_engines import registry
from tests.make.toy import Toy

FAILS = 3
ENGINE = f"""
from contextlib import contextmanager
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

    def build(self, *given):
        return self.inner.build(*given)

    @contextmanager
    def open(self, index):
        with self.inner.open(index) as searcher:
            yield Failing(searcher, self.number)

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


def tuned(arm: Path, data: Prepared) -> TuningRecord:
    file, to, work = (arm.with_name(name) for name in ("space.toml", "y.toml", "work"))
    wanted = stage.read(file), file, [data], LIMITS, to, work, arm.parent
    return stage.tune(stage.TuneRequest(str(arm), *wanted))


def test_a_candidate_that_fails_is_left_out_and_named(project: Toy, arm: Path) -> None:
    found = tuned(arm, Prepared.open(project.layout.data))
    assert found == read(arm.with_name(f"y{SUFFIX}"))
    assert found.settings == {"number": 2}
    assert found.failed.keys() == {"number = 3"}
    assert "RuntimeError: out of memory" in found.failed["number = 3"]


def test_an_arm_that_fails_as_it_is_given_is_refused(project: Toy, arm: Path) -> None:
    arm.write_text(ARM.replace("number = 1", "number = 3"))
    with pytest.raises(InvalidArm, match=r"fails as it is given, at query .* out of memory"):
        tuned(arm, Prepared.open(project.layout.data))
    assert not arm.with_name("y.toml").exists()


def test_values_are_kept_where_they_were_measured(project: Toy, arm: Path, tmp_path: Path) -> None:
    data = Prepared.open(project.layout.data)
    told: list[int] = []
    arms = [registry.load(str(arm), tmp_path, {"number": number}) for number in (1, FAILS)]
    answers = stage.CandidateAnswers(arms, 10, 10.0, tmp_path / "index", "code")
    at = [stage.TuningSplit(data, data.queries(), data.qrels())] * 2
    cells = stage.Cells(answers, at, "nDCG@10", tmp_path / "values", told.append)
    rows = np.array([0, 2, len(data.queries())])
    first = cells(0, rows)
    assert first[0] == first[2]
    assert sum(told) == 2
    again = stage.Cells(answers, at, "nDCG@10", tmp_path / "values", told.append)
    assert again(0, rows).tolist() == first.tolist()
    assert sum(told) == 2
    with pytest.raises(stage.CandidateFailed) as failed:
        cells(1, rows)
    assert failed.value.candidate == 1


WORDS = 'bm25_over = "document", title_weight = 2.0, text_weight = 1.0, joined = "both"'
HYBRID = f"""\
summary = "x"
stack = "hybrid"
[settings]
rrf_k = 60
depth = 20
[settings.legs.lexical]
stack = "tantivy"
weight = 1.0
settings = {{language = "none", {WORDS}}}
[settings.legs.semantic]
stack = "dense"
weight = 1.0
settings = {{embedder = "hash", max_tokens = 64}}
"""
OTHERS: tuple[dict[str, Scalar], ...] = ({"rrf_k": 1}, {"rrf_k": 60, "legs.lexical.weight": 3.0})


def test_one_index_answers_for_all_candidates_of_a_last_step(project: Toy, tmp_path: Path) -> None:
    data = Prepared.open(project.layout.data)
    collection = stage.TuningSplit(data, data.queries(), data.qrels())
    (tmp_path / "x.toml").write_text(HYBRID)
    path = str(tmp_path / "x.toml")
    arms = [registry.load(path, tmp_path, one) for one in (None, *OTHERS)]
    answers = stage.CandidateAnswers(arms, 10, 10.0, tmp_path / "index", "code")
    shown = []
    for at, arm in enumerate(arms):
        found = [row.hits for row in answers.of(at, collection, collection.queries)]
        (index := tmp_path / f"alone{at}").mkdir()
        arm.build(collection.data.documents(), index)
        with arm.open(index) as alone:
            assert found == [alone.search(query.text, 10).hits for query in collection.queries]
        shown.append(found)
    assert shown[0] != shown[1] != shown[2]
    assert len(list((tmp_path / "index").iterdir())) == 1
    deeper = registry.load(path, tmp_path, {"depth": 15})
    before = [stage.before_last_step(arm) for arm in (arms[0], arms[2], deeper)]
    assert before[0] == before[1] != before[2]


ARM_WRITTEN = """\
summary = "mine"
stack = "own.py"
[settings]
k1 = 1.2  # saturation
"b" = 0.75
name = "a # b" # not a comment
[settings.deep.er]
k1 = 7
"""


@pytest.fixture
def arm_written(tmp_path: Path) -> Path:
    (tmp_path / "own.toml").write_text(ARM_WRITTEN)
    return tmp_path / "own.toml"


def test_chosen_values_take_the_place_of_the_given_ones(arm_written: Path) -> None:
    chosen: dict[str, Scalar] = {"k1": 0.9, "name": 'it"s', "deep.er.k1": 8, "b": True}
    text = arm_text(arm_written, chosen, "r.json")
    assert toml_of(text)["settings"] == {
        "k1": 0.9, "b": True, "name": 'it"s', "deep": {"er": {"k1": 8}},
    }  # fmt: skip
    assert toml_of(text)["tuning"] == "r.json"


def test_settings_that_were_not_searched_stay_as_they_were(tmp_path: Path) -> None:
    arm = tmp_path / "own.toml"
    arm.write_text(
        'stack = "own.py"\n[settings]\nk1 = 1\nmost = inf\nleast = -inf\n'
        "since = 2026-01-02T03:04:05Z\nday = 2026-01-02\nat = 03:04:05\n"
        'parts = [{a = 1, "b c" = [2]}, {}]\n'
    )
    before = toml_of(arm.read_text())["settings"]
    assert toml_of(arm_text(arm, {"k1": 2}, "r.json"))["settings"] == {**before, "k1": 2}


def test_a_tuned_arm_is_tuned_again(arm_written: Path) -> None:
    once = arm_text(arm_written, {"k1": 0.9}, "r.json")
    arm_written.write_text(once)
    assert is_ours(arm_written)
    assert arm_text(arm_written, {"k1": 0.9}, "r.json") == once
    again = arm_text(arm_written, {"k1": 0.5}, "s.json")
    assert again.count(MARK) == again.count("tuning =") == 1
    assert toml_of(again)["tuning"] == "s.json"
