"""What ``harness doctor`` says of a machine, and what it does not let pass."""

from __future__ import annotations

import shutil

import pytest

from engines import registry
from engines.vector.embedder import ModelFile
from harness.cli.check import BROWSERS, WITHOUT
from harness.cli.project import Project
from harness.core import errors
from harness.core.errors import ModelNotReady, NotInstalled
from harness.replay import machine
from harness.replay.machine import Noise
from tests.browser.conftest import NAMES
from tests.cli.conftest import Harness
from tests.make.toy import Toy

pytestmark = pytest.mark.slow


def steady(by: float) -> Noise:
    return Noise(150, 1.0, by, by * 2)


def test_the_machine_is_described(
    project: Toy, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "vector_flags", lambda: ("avx2", "f16c"))
    monkeypatch.setattr(machine, "free_bytes", lambda folder: 12.34e9 * (folder == project.cache))
    monkeypatch.setattr(machine, "load_of_core", lambda: 0.5)
    monkeypatch.setattr(machine, "noise", lambda _: steady(1.25))
    said = harness("doctor")
    assert said.code == 0
    for line in (
        "vectors   avx2, f16c",
        "room      12.3 GB free for .cache",
        "load      0.50 of each core in the last minute",
        "noise     the same work against itself: p50 1.00, p95 1.25 times; the slowest 2.5 times",
        "model     splade-tiny: tokenizer.json is the pinned one",
    ):
        assert line in said.out
    assert "noisy" not in said.out


@pytest.mark.parametrize(("by", "noisy"), [(100.0, False), (100.1, True)])
def test_noise_is_held_to_what_the_policy_allows(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, by: float, *, noisy: bool
) -> None:
    monkeypatch.setattr(machine, "noise", lambda _: steady(by))
    said = harness("doctor")
    assert ("the policy's gates on time allow 100: a race now may end" in said.out) is noisy
    assert said.code == 0


def test_a_folder_is_a_data_set(project: Toy, harness: Harness) -> None:
    shutil.rmtree(project.root / "datasets")
    params = project.root / "params.yaml"
    params.write_text(params.read_text().replace("datasets: [toy]", "datasets: [beir]"))
    said = harness("doctor")
    assert "dataset   beir: a folder, for harness run --dataset beir" in said.out
    assert said.code == 0


def test_extras_are_those_of_the_project() -> None:
    assert list(WITHOUT) == list(errors.EXTRAS)
    assert BROWSERS == NAMES


@pytest.mark.parametrize("there", [True, False])
def test_what_is_optional_is_told_and_is_no_problem(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, *, there: bool
) -> None:
    names = ("json",) if there else ("json", "no_such_module")
    monkeypatch.setitem(errors.EXTRAS, "serve", names)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}" if there else None)
    said = harness("doctor")
    assert said.code == 0
    told = (
        ("extra     serve: installed", "browser   /bin/chromium")
        if there
        else ("extra     serve: no_such_module not installed, so measures", "browser   none on the")
    )
    for line in (*told, "well      nothing that is needed is missing", "memory    "):
        assert line in said.out


def test_a_model_that_is_missing_is_a_problem(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_: ModelFile) -> None:
        raise ModelNotReady("the model is [gone]; bring it back")

    monkeypatch.setattr(ModelFile, "path", gone)
    said = harness("doctor")
    assert said.code == 2
    assert "problem   the model is [gone]; bring it back" in said.out
    assert "well" not in said.out


@pytest.mark.parametrize("packaged", [True, False])
def test_arms_of_an_extra_are_a_problem_where_the_project_names_them(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, project: Toy, *, packaged: bool
) -> None:
    def without(*_: object) -> None:
        raise NotInstalled("tantivy: the package tantivy is not installed")

    monkeypatch.setattr(registry, "load", without)
    monkeypatch.setitem(errors.EXTRAS, "engines", ("no_such_module",))
    here = Project(project.root, packaged=packaged)
    monkeypatch.setattr(Project, "here", lambda: here)
    said = harness("doctor")
    assert said.code == (0 if packaged else 2)
    assert ("problem   tantivy: the package tantivy is not" in said.out) is not packaged
    assert ("project   none here" in said.out) is packaged
    assert "model     " not in said.out
    assert " need an extra: code-blend, " in said.out
