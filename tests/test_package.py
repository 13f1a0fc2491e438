"""The package: what it needs, what it brings, and that it works where no clone is."""

import re
import shutil
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
from tests.programs import harness_of, python
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
    site = folder / "site"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    for top in (ROOT, ROOT / "engines"):  # what was compiled is as good there
        for cached in top.glob("harness*/**/__pycache__"):
            to = site / cached.parent.relative_to(top)
            if to.is_dir():
                shutil.copytree(cached, to / cached.name)
                for file in to.glob("*.py"):
                    shutil.copystat(cached.parent / file.name, file)
    return site


@pytest.mark.slow
def test_the_core_alone_judges_an_engine_of_ones_own(site: Path, tmp_path: Path) -> None:
    """The packages of all extras are hidden."""
    here, hidden = tmp_path / "here", tmp_path / "hidden"
    here.mkdir()
    hidden.mkdir()
    names = {name for of in EXTRAS.values() for name in of}
    (hidden / "sitecustomize.py").write_text(BLOCKED.format(names=names))
    path = hidden, site
    where = python("-c", "import harness; print(harness.__file__)", at=here, path=path)
    assert Path(where.strip()).parent == site / "harness"
    words = ("run", "--dataset", "mine/data", "--out", "out", "--arms")
    engine = ("fts5", "--engine", "mine/engine.py:search", "--control", "fts5")
    begun, judged, demo, tantivy = harness_of(
        path,
        ("init", "mine", "--control", "fts5"),
        (*words, *engine),
        ("demo",),
        (*words, "tantivy"),
        at=here,
    )
    assert (begun[0], "Next: cd mine && ./ci.sh" in begun[1]) == (0, True), begun
    assert judged[0] == 0, judged
    assert (here / "out" / "decision.json").is_file()
    assert {found.name for found in here.iterdir()} <= {"mine", "out", ".cache"}
    for (code, said), extra in ((demo, "demo"), (tantivy, "engines")):
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
    python("-c", begin, at=tmp_path, path=(site,))
    demo, path = tmp_path / "demo", (site,)
    for name in "params.yaml", "dvc.yaml", "policy/migration.toml", "qrels/python-docs/test.qrels":
        assert (demo / name).is_file(), name
    done = python("-m", "dvc", "repro", "prepare", at=demo, path=path)
    assert "> harness stage prepare --dataset python-docs" in done
    assert (tmp_path / "demo" / "build" / "python-docs" / "data").is_dir()
    assert "gate@python-docs" in python("-m", "dvc", "dag", "report", at=demo, path=path)
