"""Models come from installed packages, and only as the file that was pinned."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from engines.stacks.text.dense import Dense, Settings
from engines.vector import embedder
from engines.vector.embedder import MODELS, Model, ModelFile, model
from harness.core.errors import ModelNotReady, UnknownName
from harness.core.records import Document

WEIGHTS = b"weights"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a package that carries a file; importing it would fail."""
    folder = tmp_path / "site" / "carrier_of_a_model"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('the code of a carrier was run')")
    (folder / "weights.bin").write_bytes(WEIGHTS)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    embedder._verified.cache_clear()  # noqa: SLF001  one carrier a test
    return folder


def pinned(inside: str = "weights.bin", sha256: str = "") -> ModelFile:
    wanted = sha256 or hashlib.sha256(WEIGHTS).hexdigest()
    return ModelFile("carrier_of_a_model", inside, wanted)


def test_the_pinned_file_is_found_and_no_code_is_run(package: Path) -> None:
    assert pinned().path() == package / "weights.bin"


@pytest.mark.usefixtures("package")
def test_other_bytes_are_not_ready() -> None:
    with pytest.raises(ModelNotReady, match="pinned is 0000"):
        pinned(sha256="0" * 64).path()


@pytest.mark.usefixtures("package")
def test_a_file_that_the_package_lacks_is_not_ready() -> None:
    with pytest.raises(ModelNotReady, match=r"other\.bin"):
        pinned("other.bin").path()


def test_a_package_that_is_not_installed_is_not_ready() -> None:
    with pytest.raises(ModelNotReady, match="no_such_carrier"):
        ModelFile("no_such_carrier", "weights.bin", "0" * 64).path()


def test_a_failure_is_not_remembered(package: Path) -> None:
    (package / "weights.bin").write_bytes(b"cut")
    with pytest.raises(ModelNotReady):
        pinned().path()
    (package / "weights.bin").write_bytes(WEIGHTS)
    assert pinned().path() == package / "weights.bin"


def test_an_unknown_model_is_told_what_there_is() -> None:
    with pytest.raises(UnknownName, match="all-MiniLM-L6-v2"):
        model("word2vec")


@pytest.mark.parametrize("known", MODELS, ids=lambda known: known.name)
def test_every_model_of_the_table_is_installed_as_pinned(known: Model) -> None:
    assert model(known.name) is known
    assert known.weights.path().is_file()
    assert known.tokenizer.path().is_file()
    assert known.licence


@pytest.mark.usefixtures("package")
def test_an_arm_without_its_model_is_not_ready(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = MODELS[0]
    spoilt = replace(known, weights=pinned(sha256=known.weights.sha256))
    engine = Dense(Settings(embedder=known.name, max_tokens=16), index / "cache")
    engine.build([Document("a", "", "water")], index)
    monkeypatch.setattr("engines.vector.embedder.model", lambda _: spoilt)
    with pytest.raises(ModelNotReady), engine.open(index):
        pass
    with pytest.raises(ModelNotReady):
        engine.build([Document("a", "", "water")], index)
