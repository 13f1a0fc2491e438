"""A new project: its files, parameters and packaged data."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from harness.core.errors import BadPolicy, HarnessError
from harness.corpus import beir
from harness.pipeline import init
from harness.pipeline.init import (
    INSTALLED,
    NewProject,
    begin_packaged,
    begin_project,
    other_versions,
)
from harness.pipeline.params import read
from harness.policy.load import load_policy
from harness_engines import registry as arms
from tests.make.toy import PARAMS
from tests.source import ROOT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    to = tmp_path / "mine"
    github, gitlab = "acme/search-harness@v1", "acme/tools/search-harness@v1.2"
    begin_project(NewProject(to, "tantivy", github=github, gitlab=gitlab, dvc=True))
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
    wanted = NewProject(
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
        begin_project(NewProject(tmp_path / "mine", engine=engine))
    assert not (tmp_path / "mine").exists()


def test_data_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"has no corpus\.jsonl"):
        begin_project(NewProject(tmp_path / "mine", data=tmp_path))


def test_dvc_reads_the_pipeline(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "src" / "shop").mkdir(parents=True)
    begin_project(NewProject(tmp_path / "eval", engine="shop.search:search", dvc=True))
    (stage,) = yaml.safe_load((tmp_path / "eval" / "dvc.yaml").read_text())["stages"].values()
    assert stage["deps"] == ["data", "../src/shop", "policy", "params.yaml", "ci.sh"]
    assert all((tmp_path / "eval" / one).exists() for one in stage["deps"])


def test_a_workflow_and_a_pipeline_name_the_harness(folder: Path) -> None:
    workflow = yaml.safe_load((folder / ".github" / "workflows" / "search.yml").read_text())
    assert workflow["jobs"]["search"]["steps"][-1] == {"uses": "acme/search-harness/ci/github@v1"}
    (included,) = yaml.safe_load((folder / ".gitlab-ci.yml").read_text())["include"]
    assert (included["project"], included["ref"]) == ("acme/tools/search-harness", "v1.2")


def test_without_a_place_there_is_neither(tmp_path: Path) -> None:
    made = begin_project(NewProject(tmp_path / "mine"))
    assert {name.split("/")[0] for name in made} == {
        ".gitignore", "README.md", "ci.sh", "data", "engine.py", "params.yaml", "policy",
    }  # fmt: skip
    assert "policy/pairwise.toml" not in made


def test_a_folder_that_is_no_repository_keeps_to_itself(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("x")
    for place in (tmp_path, tmp_path / "kept.txt"):
        with pytest.raises(HarnessError, match="already exists"):
            begin_project(NewProject(place, "fts5"))
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]


def test_a_project_is_never_begun_twice(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    begin_project(NewProject(tmp_path / "mine", "fts5"))
    with pytest.raises(HarnessError, match="already exists"):
        begin_project(NewProject(tmp_path / "mine", "fts5"))


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(HarnessError, match=r"file/mine: cannot be made \("):
        begin_project(NewProject(tmp_path / "file" / "mine", "fts5"))


@pytest.mark.parametrize("place", ["acme", "acme/x", "acme@v1", "a/b@v1\nrun: x", "a/b@${{ x }}"])
def test_a_place_that_is_none_leaves_nothing(tmp_path: Path, place: str) -> None:
    with pytest.raises(HarnessError, match="OWNER/REPO@REF"):
        begin_project(NewProject(tmp_path / "mine", github=place))
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


BROUGHT = ("params.yaml", "dvc.yaml", "datasets/python-docs/card.toml", "policy/migration.toml")


@pytest.fixture
def brought(tmp_path: Path) -> Path:
    """Copy what the package brings, as far as it matters here."""
    folder = tmp_path / "packaged"
    for name in BROUGHT:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def test_no_stage_depends_on_code_that_is_not_there(brought: Path, tmp_path: Path) -> None:
    begin_packaged(brought, tmp_path / "demo")
    stages = yaml.safe_load((tmp_path / "demo" / "dvc.yaml").read_text())["stages"]
    clone = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    assert list(stages) == list(clone)
    for name, stage in stages.items():
        kept = {dep for dep in clone[name]["deps"] if dep.split("/")[0] not in init.CODE}
        assert stage["deps"].count(INSTALLED) == 1
        assert set(stage["deps"]) == {*kept, INSTALLED}
        assert stage["cmd"] == clone[name]["cmd"]
    assert "no_scm = true" in (tmp_path / "demo" / ".dvc" / "config").read_text()


def test_what_is_installed_is_noted_again_and_the_rest_is_kept(
    brought: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "demo"
    begin_packaged(brought, folder)
    about = json.loads((folder / INSTALLED).read_text())
    assert "numpy" in about["packages"]
    (folder / "policy" / "migration.toml").write_text("mine")
    monkeypatch.setattr(init, "versions", lambda: {"numpy": "9"})
    begin_packaged(brought, folder)
    assert (folder / "policy" / "migration.toml").read_text() == "mine"
    assert json.loads((folder / INSTALLED).read_text())["packages"] == {"numpy": "9"}


def test_versions_that_the_data_are_not_read_from_are_named(
    brought: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert other_versions(brought, ["python-docs", "a folder of one's own"]) == ()
    versions = {"matplotlib": "3.11.2", "pandas": "3.1.1", "scipy": "1.99"}
    monkeypatch.setattr("harness.corpus.card.installed", lambda _: versions)
    assert other_versions(brought, ["python-docs"]) == (
        "numpy none (not 2.4.6)",
        "scipy 1.99 (not 1.17.1)",
    )


def changed(folder: Path, old: str, new: str) -> Path:
    assert old in PARAMS
    path = folder / "params.yaml"
    path.write_text(PARAMS.replace(old, new))
    return path


def test_the_projects_own_file_is_read() -> None:
    own = read(Path(__file__).resolve().parents[2] / "params.yaml")
    assert own.replay.k >= own.race.k
    assert own.score.resamples >= 1_000


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("k: 50,", "", r"replay\.k: Field required"),
        ("k: 50,", "k: 0,", r"replay\.k: .*greater than or equal to 1"),
        ("k: 50,", "k: '50',", r"replay\.k: .*integer"),
        ("rbo_p: 0.9", "rbo_p: 1", r"compare\.rbo_p"),
        ("rbo_p: 0.9", "rbo_p: 0.9, p: 1", r"compare\.p: Extra inputs"),
        ("datasets: [toy]", "datasets: []", "datasets: "),
        ("confidence: 0.95", "confidence: 95", r"score\.confidence"),
        ("resamples: 1000", "resamples: 10", r"score\.resamples"),
        ("depths: [10, 50]", "depths: [60]", r"compare\.depths 60 looks deeper than the 50 hits"),
        ("R@50", "R@51", r"score\.measures R@51 looks deeper"),
        ("k: 20,", "k: 51,", r"race\.k looks deeper"),
        ("policy:", "selftest: {trials: 0}\npolicy:", "selftest: Extra inputs are not permitted"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(BadPolicy, match=rf"params\.yaml: .*{says}"):
        read(changed(tmp_path, old, new))


def test_bad_syntax_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(BadPolicy, match=r"params\.yaml:[34]: not YAML"):
        read(changed(tmp_path, "policy: policy/toy.toml", "policy: [policy"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadPolicy, match=r"params\.yaml: no such file"):
        read(tmp_path / "params.yaml")


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("just words")
    with pytest.raises(BadPolicy, match=r"params\.yaml: the file: "):
        read(tmp_path / "params.yaml")
