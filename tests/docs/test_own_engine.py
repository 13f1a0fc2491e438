"""The example engine is an engine: it keeps the contract, and a run with it says what it says."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.core.engine import Answer, Engine
from harness.core.errors import BadPolicy, IndexNotReady
from harness.core.records import Document
from harness.corpus.runs import read_run
from harness_engines import registry as arms
from tests.docs.conftest import OWN
from tests.docs.pages import ROOT

DOCUMENTS = (
    Document("b", "", "read csv"),
    Document("a", "", "read csv"),
    Document("c", "table", "read_csv reads a table"),
)


def arm(folder: Path, **settings: str) -> Engine:
    """Copy the example and change settings of its TOML file."""
    for file in (ROOT / OWN).parent.glob("own.*"):
        shutil.copy(file, folder)
    file = folder / "own.toml"
    lines = file.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if line.split(" = ")[0] not in settings]
    changed = [f"{key} = {value}" for key, value in settings.items()]
    file.write_text("\n".join([*kept, *changed]) + "\n", encoding="utf-8")
    return arms.load(str(file), folder).engine


def ask(folder: Path, text: str, k: int = 10, **settings: str) -> Answer:
    engine = arm(folder, **settings)
    index = folder / "index"
    index.mkdir()
    engine.build(DOCUMENTS, index)
    with engine.open(index) as searcher:
        return searcher.search(text, k)


def test_equal_scores_go_by_id_also_where_the_list_is_cut(tmp_path: Path) -> None:
    assert [hit.doc_id for hit in ask(tmp_path, "read csv", k=1).hits] == ["a"]


def test_the_score_is_bm25(tmp_path: Path) -> None:
    """``table`` stands once in the text and once, counted twice, in the title of one of three."""
    (hit,) = ask(tmp_path, "table").hits
    norm = 1.2 * (1 - 0.75 + 0.75 * 6 / ((2 + 2 + 6) / 3))
    assert hit.doc_id == "c"
    assert hit.raw_score == pytest.approx(math.log(1 + 2.5 / 1.5) * 3 * 2.2 / (3 + norm))
    assert hit.score == 1.0


@pytest.mark.parametrize(("joined", "found"), [('"whole"', ["c"]), ('"split"', ["a", "b", "c"])])
def test_a_joined_word_is_one_or_two(tmp_path: Path, joined: str, found: list[str]) -> None:
    assert sorted(hit.doc_id for hit in ask(tmp_path, "read_csv", joined=joined).hits) == found


def test_each_answer_names_who_answered(tmp_path: Path) -> None:
    engine = arm(tmp_path)
    index = tmp_path / "index"
    index.mkdir()
    made = engine.build(DOCUMENTS, index)
    with engine.open(index) as searcher:
        assert searcher.manifest == made
        assert searcher.search("nothing of that", 10) == Answer((), made.fingerprint)


def test_another_setting_is_another_engine(tmp_path: Path) -> None:
    prints: set[str] = set()
    for name, joined in (("one", '"whole"'), ("two", '"split"')):
        folder = tmp_path / name
        folder.mkdir()
        prints.add(ask(folder, "table", joined=joined).served_by)
    assert len(prints) == 2


def test_a_broken_index_is_refused(tmp_path: Path) -> None:
    ask(tmp_path, "table")
    (tmp_path / "index" / "postings.json").write_text("{", encoding="utf-8")
    with pytest.raises(IndexNotReady), arm(tmp_path).open(tmp_path / "index"):
        pass


def test_an_index_of_other_settings_is_refused(tmp_path: Path) -> None:
    ask(tmp_path, "table")
    changed = arm(tmp_path, joined='"split"')
    with pytest.raises(IndexNotReady, match="settings"), changed.open(tmp_path / "index"):
        pass


def test_an_unknown_setting_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(BadPolicy, match=r"own\.toml:8: settings\.k2"):
        arm(tmp_path, k2="1")


@pytest.mark.slow
def test_a_run_with_it_is_judged_against_the_control(run: Path) -> None:
    step = json.loads((run / "decision.json").read_text("utf-8"))["datasets"][0]["steps"][0]
    scores: dict[str, Any] = json.loads((run / "scores.json").read_text("utf-8"))
    assert (step["control"], step["candidate"]) == ("fts5", "own")
    assert scores["own"]["nDCG@10"]["queries"] == 40
    assert scores["own"]["nDCG@10"]["mean"] == pytest.approx(0.8)
    assert step["outcome"] == "hold"
    assert read_run(run / "runs" / "own.parquet").ranking("q-blue-cone", 1) == ("blue-cone",)
