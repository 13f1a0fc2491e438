"""The package: what it needs, what it brings, and that it works where no clone is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from harness.core.errors import EXTRAS
from tests.source import ROOT

PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT, GROUPS = PYPROJECT["project"], PYPROJECT["dependency-groups"]
LOCKED_EXTRAS = ("engines", "documents", "pipeline", "serve", "http", "mcp")
MAX_CORE = 20
"""Direct requirements of the core; 45 packages may be installed with it."""
BLOCKED = """\
import sys
BLOCKED = {names!r}


class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            return None
        return self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)


sys.meta_path = [Without(finder) for finder in sys.meta_path]
"""
"""A ``sitecustomize`` that hides packages, so that only the core is installed."""


def group(name: str) -> list[str]:
    found: list[str] = []
    for one in GROUPS[name]:
        found += [one] if isinstance(one, str) else group(one["include-group"])
    return found


@cache
def locked() -> dict[str, list[str]]:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE):
        found.setdefault(canonicalize_name(name), []).append(version)
    return found


def test_the_lock_has_all_that_it_is_made_from() -> None:
    wanted = [*PROJECT["dependencies"], *group("dev")]
    wanted += [one for extra in LOCKED_EXTRAS for one in PROJECT["optional-dependencies"][extra]]
    for one in map(Requirement, wanted):
        versions = locked().get(canonicalize_name(one.name), [])
        assert versions, f"{one.name} is not in requirements.lock"
        assert all(one.specifier.contains(version) for version in versions), one


def test_the_core_is_small_and_given_in_ranges() -> None:
    core = [Requirement(one) for one in PROJECT["dependencies"]]
    assert len(core) <= MAX_CORE
    tools = {canonicalize_name(Requirement(one).name) for one in group("lint") + group("test")}
    for one in core:
        assert canonicalize_name(one.name) not in tools
        assert {part.operator for part in one.specifier} == {">="}, one


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel, without a network, and unpack it where no clone is."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = folder.glob("search_harness-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


@pytest.fixture
def core_only(tmp_path: Path) -> Path:
    """Hide the packages of all extras."""
    names = {name for of in EXTRAS.values() for name in of}
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "sitecustomize.py").write_text(BLOCKED.format(names=names))
    return tmp_path / "hidden"


def run(folder: Path, *words: str, path: tuple[Path, ...]) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


def harness(folder: Path, *words: str, path: tuple[Path, ...]) -> tuple[int, str]:
    done = run(folder, "-m", "harness", *words, path=path)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_the_core_alone_judges_an_engine_of_ones_own(
    site: Path, core_only: Path, tmp_path: Path
) -> None:
    here, path = tmp_path / "here", (core_only, site)
    here.mkdir()
    where = run(here, "-c", "import harness; print(harness.__file__)", path=path)
    assert Path(where.stdout.strip()).parent == site / "harness"
    code, said = harness(here, "init", "mine", "--control", "fts5", path=path)
    assert (code, "Next: cd mine && ./ci.sh" in said) == (0, True), said
    words = ("run", "--dataset", "mine/data", "--out", "out", "--arms")
    engine = ("fts5", "--engine", "mine/engine.py:search", "--control", "fts5")
    code, said = harness(here, *words, *engine, path=path)
    assert code == 0, said
    assert (here / "out" / "decision.json").is_file()
    assert {found.name for found in here.iterdir()} <= {"mine", "out", ".cache"}
    for missing, extra in ((("demo",), "demo"), ((*words, "tantivy"), "engines")):
        code, said = harness(here, *missing, path=path)
        assert code == 2, said
        assert f'Run: pip install "search-harness[{extra}]"' in said


@pytest.mark.whole("test_the_core_alone_judges_an_engine_of_ones_own")
@pytest.mark.slow
def test_the_demo_makes_its_project(site: Path, tmp_path: Path) -> None:
    begin = (
        "from pathlib import Path; from harness.cli.project import Project;"
        "from harness.pipeline.init import begin_packaged;"
        "begin_packaged(Project.here().root, Path('demo'))"
    )
    assert run(tmp_path, "-c", begin, path=(site,)).returncode == 0
    for name in (
        "params.yaml",
        "dvc.yaml",
        "policy/migration.toml",
        "qrels/python-docs/test.qrels",
    ):
        assert (tmp_path / "demo" / name).is_file(), name
    done = run(tmp_path / "demo", "-m", "dvc", "repro", "prepare", path=(site,))
    assert done.returncode == 0, done.stderr
    assert "> harness stage prepare --dataset python-docs" in done.stdout
    assert (tmp_path / "demo" / "build" / "python-docs" / "data").is_dir()
    listed = run(tmp_path / "demo", "-m", "dvc", "dag", "report", path=(site,))
    assert "gate@python-docs" in listed.stdout, listed.stderr
