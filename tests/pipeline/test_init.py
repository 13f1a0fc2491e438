"""A new project: its sample, its files, and what ``begin`` refuses."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from harness.core.errors import HarnessError
from harness.corpus import beir
from harness.pipeline import init
from harness.pipeline.init import Begun, begin_project
from harness.pipeline.params import read
from harness.policy.load import load_policy
from harness_engines import registry as arms


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    to = tmp_path / "mine"
    github, gitlab = "acme/search-harness@v1", "acme/tools/search-harness@v1.2"
    begin_project(Begun(to, "tantivy", github=github, gitlab=gitlab, dvc=True))
    return to


def test_the_sample_is_a_collection(tmp_path: Path) -> None:
    assert init.write_sample(tmp_path) == (240, 240)
    read = beir.Beir(tmp_path, "test")
    documents = {document.doc_id for document in read.documents()}
    assert len(documents) == len(read.queries()) == 240
    grades = read.qrels().grades
    for query in read.queries():
        assert set(grades[query.query_id]) == documents, "an engine may show what is not judged"
        assert sorted(grades[query.query_id].values())[-2:] == [0, 1]
    assert {query.slices for query in read.queries()} == {("keywords",), ("question",), ("plural",)}


def test_the_sample_is_the_same_each_time(tmp_path: Path) -> None:
    for name in "ab":
        init.write_sample(tmp_path / name)
    for file in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_what_is_written_can_be_read(folder: Path) -> None:
    assert read(folder / "params.yaml").arms == ("tantivy", "engine.py:search")
    for name in ("pairwise", "regress"):
        assert len(load_policy(folder / "policy" / f"{name}.toml").steps) == 1
    script = (folder / "ci.sh").read_text()
    assert "--dataset data --engine engine.py:search --arms tantivy --control tantivy" in script
    assert subprocess.run(["bash", "-n", folder / "ci.sh"], check=False).returncode == 0
    assert (folder / "ci.sh").stat().st_mode & 0o111
    for file in ("README.md", "ci.sh", "params.yaml"):
        text = (folder / file).read_text()
        assert "$control" not in text
        assert "$$" not in text


def test_the_engine_answers_by_words(folder: Path, tmp_path: Path) -> None:
    engine = arms.load(f"{folder / 'engine.py'}:search", tmp_path).engine
    documents = tuple(beir.Beir(folder / "data", "test").documents())
    made = engine.build(documents, tmp_path / "index")
    with engine.open(tmp_path / "index") as searcher:
        found = searcher.search("BOARDS, archived: ARCHIVE", 2)
    assert [hit.doc_id for hit in found.hits] == ["archive-board", "export-board"]
    assert found.served_by == made.fingerprint


def test_an_engine_and_data_of_ones_own_are_named_from_the_folder(tmp_path: Path) -> None:
    init.write_sample(tmp_path / "ours")
    (tmp_path / "tools").mkdir()
    wanted = Begun(
        tmp_path / "eval", engine=f"{tmp_path / 'tools' / 'it.py'}:find", data=tmp_path / "ours"
    )
    assert begin_project(wanted) == (
        ".gitignore", "README.md", "ci.sh", "params.yaml", "policy/regress.toml",
    )  # fmt: skip
    script = (tmp_path / "eval" / "ci.sh").read_text()
    assert "run --dataset ../ours --engine ../tools/it.py:find --out out" in script
    assert "--queries ../ours/queries.jsonl --inconclusive=warn" in script
    assert "--control" not in script
    found = read(tmp_path / "eval" / "params.yaml")
    assert (found.arms, found.policy) == (("../tools/it.py:find",), "policy/regress.toml")


@pytest.mark.parametrize("engine", ["shop.search", "a b:", "own.toml", "x:y:z"])
def test_what_is_no_function_is_refused(tmp_path: Path, engine: str) -> None:
    with pytest.raises(HarnessError, match=r"is not a function\. Give MODULE:FUNCTION"):
        begin_project(Begun(tmp_path / "mine", engine=engine))
    assert not (tmp_path / "mine").exists()


def test_data_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"has no corpus\.jsonl"):
        begin_project(Begun(tmp_path / "mine", data=tmp_path))


def test_dvc_reads_the_pipeline(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "src" / "shop").mkdir(parents=True)
    begin_project(Begun(tmp_path / "eval", engine="shop.search:search", dvc=True))
    (stage,) = yaml.safe_load((tmp_path / "eval" / "dvc.yaml").read_text())["stages"].values()
    assert stage["deps"] == ["data", "../src/shop", "policy", "params.yaml", "ci.sh"]
    assert all((tmp_path / "eval" / one).exists() for one in stage["deps"])


def test_a_workflow_and_a_pipeline_name_the_harness(folder: Path) -> None:
    workflow = yaml.safe_load((folder / ".github" / "workflows" / "search.yml").read_text())
    assert workflow["jobs"]["search"]["steps"][-1] == {"uses": "acme/search-harness/ci/github@v1"}
    (included,) = yaml.safe_load((folder / ".gitlab-ci.yml").read_text())["include"]
    assert (included["project"], included["ref"]) == ("acme/tools/search-harness", "v1.2")


def test_without_a_place_there_is_neither(tmp_path: Path) -> None:
    made = begin_project(Begun(tmp_path / "mine"))
    assert {name.split("/")[0] for name in made} == {
        ".gitignore", "README.md", "ci.sh", "data", "engine.py", "params.yaml", "policy",
    }  # fmt: skip
    assert "policy/pairwise.toml" not in made


def test_a_folder_that_is_no_repository_keeps_to_itself(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("x")
    for place in (tmp_path, tmp_path / "kept.txt"):
        with pytest.raises(HarnessError, match="is there already"):
            begin_project(Begun(place, "fts5"))
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]


def test_a_project_is_never_begun_twice(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    begin_project(Begun(tmp_path / "mine", "fts5"))
    with pytest.raises(HarnessError, match="is there already"):
        begin_project(Begun(tmp_path / "mine", "fts5"))


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(HarnessError, match=r"file/mine: cannot be made \("):
        begin_project(Begun(tmp_path / "file" / "mine", "fts5"))


@pytest.mark.parametrize("place", ["acme", "acme/x", "acme@v1", "a/b@v1\nrun: x", "a/b@${{ x }}"])
def test_a_place_that_is_none_leaves_nothing(tmp_path: Path, place: str) -> None:
    with pytest.raises(HarnessError, match="OWNER/REPO@REF"):
        begin_project(Begun(tmp_path / "mine", github=place))
    assert not (tmp_path / "mine").exists()


def test_every_file_of_the_template_has_a_place() -> None:
    names = {
        path.relative_to(init.TEMPLATE).as_posix()
        for path in init.TEMPLATE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names == {*init.ALWAYS, *init.SOMETIMES, "github.yml", "gitlab.yml"}
    assert names > init.FILLED


def test_the_sample_says_nothing_twice() -> None:
    texts = [json.dumps(text) for text in init.ACTIONS.values()]
    assert len(set(texts)) == len(texts) == len(init.ACTIONS)
