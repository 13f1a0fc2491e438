"""The hybrid stack: two legs that are whole, of one corpus and of this building."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from engines import contract
from engines import registry as arms
from engines.ranking import fuse
from engines.stacks.text import hybrid
from engines.stacks.text.hybrid import Hybrid, Settings
from harness.check.subject import DOCUMENTS, OBVIOUS
from harness.core.errors import IndexNotReady
from harness.core.records import Document


def given() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((arms.FOLDER / "hybrid-rrf.toml").read_text())
    found["settings"]["legs"]["semantic"]["settings"]["embedder"] = "hash"
    return dict(found["settings"])


@pytest.fixture
def engine(tmp_path: Path) -> Hybrid:
    return Hybrid(Settings.model_validate(given()), tmp_path / "cache")


@pytest.fixture
def built(engine: Hybrid, index: Path) -> Path:
    engine.build(DOCUMENTS, index)
    return index


def refused(engine: Hybrid, index: Path, why: str) -> None:
    with pytest.raises(IndexNotReady, match=why), engine.open(index):
        pass


def test_it_shows_what_its_legs_show_fused(engine: Hybrid, built: Path) -> None:
    rankings = {}
    for name, leg in engine.engines().items():
        with leg.open(built / name) as searcher:
            rankings[name] = {
                text: [hit.doc_id for hit in searcher.search(text, 100).hits] for text in OBVIOUS
            }
    weights = {"lexical": 1.0, "semantic": 1.0}
    with engine.open(built) as searcher:
        for text in OBVIOUS:
            by_leg = {name: shown[text] for name, shown in rankings.items()}
            expected = fuse(by_leg, weights, rrf_k=60, k=10)
            assert searcher.search(text, 10).hits == expected


@pytest.mark.parametrize("leg", ["lexical", "semantic"])
def test_a_leg_that_is_gone_is_not_ready(engine: Hybrid, built: Path, leg: str) -> None:
    shutil.rmtree(built / leg)
    refused(engine, built, "no index here")


@pytest.mark.parametrize("leg", ["lexical", "semantic"])
def test_a_leg_of_another_building_is_not_ready(
    engine: Hybrid, built: Path, tmp_path: Path, leg: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    engine.build([Document(f"x{at}", "", "moss") for at in range(len(DOCUMENTS))], other)
    shutil.rmtree(built / leg)
    (other / leg).replace(built / leg)
    refused(engine, built, "version")


def test_a_building_killed_before_its_last_step_is_not_ready(
    engine: Hybrid, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(contract, "joined", killed)
    with pytest.raises(KeyboardInterrupt):
        engine.build(DOCUMENTS, index)
    refused(engine, index, "version")


def test_its_identity_holds_that_of_its_legs(engine: Hybrid, built: Path) -> None:
    whole = contract.read(built)
    for name in engine.engines():
        assert contract.read(built / name).fingerprint[:16] in whole.version
    assert json.loads((built / "manifest.json").read_text())["version"] == whole.version


def test_a_leg_that_weighs_more_decides(tmp_path: Path) -> None:
    shown = {}
    documents = [
        Document("phrase", "", "gravel lantern stone fern"),
        Document("words", "", "lantern gravel"),
    ]
    for weight in (0.01, 100.0):
        settings = given()
        settings["legs"]["lexical"] = {**settings["legs"]["lexical"], "weight": weight}
        engine = hybrid.engine(settings, tmp_path / "cache")
        folder = tmp_path / str(weight)
        folder.mkdir()
        engine.build(documents, folder)
        with engine.open(folder) as searcher:
            shown[weight] = [hit.doc_id for hit in searcher.search("gravel_lantern", 4).hits]
    assert shown == {0.01: ["words", "phrase"], 100.0: ["phrase", "words"]}


@pytest.mark.parametrize(
    "changed",
    [
        {"rrf_k": 0},
        {"depth": 0},
        {"legs": {}},
        {"legs": {"lexical": given()["legs"]["lexical"]}},
        {"legs": {"A": given()["legs"]["lexical"], "b": given()["legs"]["semantic"]}},
        {"legs": {"a": given()["legs"]["lexical"], "b": {"stack": "fts5"}}},
    ],
)
def test_settings_that_cannot_be_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate(given() | changed)
