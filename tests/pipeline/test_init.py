"""A new project: its files, parameters and packaged data."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from harness.core.errors import HarnessError
from harness.pipeline import init
from harness.pipeline.init import (
    BESIDE,
    INIT_PIPELINE,
    INSTALLED,
    WORKFLOW,
    NewProject,
    begin_packaged,
    begin_project,
)
from harness.pipeline.params import read
from harness.policy.load import load_policy
from tests.make.toy import PARAMS
from tests.source import ROOT

GITHUB, GITLAB = "acme/search-harness@v1", "acme/tools/search-harness@v1.2"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    to = tmp_path / "mine"
    github, gitlab = "acme/search-harness@v1", "acme/tools/search-harness@v1.2"
    begin_project(NewProject(to, "tantivy", github=github, gitlab=gitlab, dvc=True))
    return to


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


def test_dvc_reads_the_pipeline(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "src" / "shop").mkdir(parents=True)
    begin_project(NewProject(tmp_path / "eval", engine="shop.search:search", dvc=True))
    (stage,) = yaml.safe_load((tmp_path / "eval" / "dvc.yaml").read_text())["stages"].values()
    assert stage["deps"] == ["data", "../src/shop", "policy", "params.yaml", "ci.sh"]
    assert all((tmp_path / "eval" / one).exists() for one in stage["deps"])


def test_a_folder_that_is_no_repository_keeps_to_itself(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("x")
    for place in (tmp_path, tmp_path / "kept.txt"):
        with pytest.raises(HarnessError, match="already exists"):
            begin_project(NewProject(place, "fts5"))
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]


@pytest.mark.parametrize("place", ["acme", "acme/x", "acme@v1", "a/b@v1\nrun: x", "a/b@${{ x }}"])
def test_a_place_that_is_none_leaves_nothing(tmp_path: Path, place: str) -> None:
    with pytest.raises(HarnessError, match="OWNER/REPO@REF"):
        begin_project(NewProject(tmp_path / "mine", github=place))
    assert not (tmp_path / "mine").exists()


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


def changed(folder: Path, old: str, new: str) -> Path:
    assert old in PARAMS
    path = folder / "params.yaml"
    path.write_text(PARAMS.replace(old, new))
    return path


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text("# Ours\n")
    (tmp_path / ".gitignore").write_text("*.log\nout/")
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_a_repository_keeps_its_files_and_gets_those_of_a_project(repository: Path) -> None:
    made = begin_project(NewProject(repository, github=GITHUB, gitlab=GITLAB))
    assert {BESIDE, "ci.sh", "data/corpus.jsonl", WORKFLOW, INIT_PIPELINE} <= set(made)
    assert set(made) == {*files(repository)} - {"README.md", ".gitignore"}
    assert (repository / "README.md").read_text() == "# Ours\n"
    assert (repository / ".gitignore").read_text().split() == [
        "*.log", "out/", "before/", ".cache/", ".harness/", "__pycache__/", "*.looks.jsonl",
    ]  # fmt: skip
    assert (repository / "ci.sh").stat().st_mode & 0o111
    workflow = yaml.safe_load((repository / WORKFLOW).read_text())
    assert workflow["jobs"]["search"]["steps"][-1] == {"uses": "acme/search-harness/ci/github@v1"}
    (included,) = yaml.safe_load((repository / INIT_PIPELINE).read_text())["include"]
    assert "folder" not in included["inputs"]


@pytest.mark.parametrize("others", [(), ("engine.cfg",)])
def test_workflows_stand_at_the_root_and_name_the_folder(
    repository: Path, others: tuple[str, ...]
) -> None:
    folder = repository / "tools" / "my search"
    for name in others:
        folder.mkdir(parents=True)
        (folder / name).write_text("x")
    made = begin_project(NewProject(folder, github=GITHUB, gitlab=GITLAB))
    assert {f"../../{WORKFLOW}", f"../../{INIT_PIPELINE}", "README.md", ".gitignore"} <= set(made)
    assert not (folder / ".github").exists()
    step = yaml.safe_load((repository / WORKFLOW).read_text())["jobs"]["search"]["steps"][-1]
    assert step["with"] == {"folder": "tools/my search"}
    (included,) = yaml.safe_load((repository / INIT_PIPELINE).read_text())["include"]
    assert included["inputs"]["folder"] == "tools/my search"


@pytest.mark.parametrize("name", ["params.yaml", INIT_PIPELINE, WORKFLOW, "data/corpus.jsonl"])
def test_what_is_there_is_named_and_nothing_is_written(repository: Path, name: str) -> None:
    (repository / name).parent.mkdir(parents=True, exist_ok=True)
    (repository / name).write_text("ours")
    before = files(repository)
    with pytest.raises(HarnessError, match=r"already exists\. Move it") as told:
        begin_project(NewProject(repository, github=GITHUB, gitlab=GITLAB))
    assert str(repository / name) in str(told.value)
    assert files(repository) == before
