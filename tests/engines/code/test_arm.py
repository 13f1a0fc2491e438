"""Code search as a stack under test: settings, filters as params, and broken parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from engines import registry as arms
from engines.stacks.code import arm as code
from engines.stacks.code import ranking
from engines.stacks.code.units import InvalidFilter
from engines.stacks.text import fts5
from harness.core.engine import TakesParams
from harness.core.errors import IndexNotReady
from harness.core.records import Document, Query
from harness.core.run import Status
from harness.policy.load import load_policy
from harness.replay.drive import observe
from tests.make.code import BACKENDS, BLEND, GRAPH, RRF, SETTINGS, stack
from tests.make.damage import overwrite

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = [
    Document("a", "", "def load_prices():\n    return {'price': 4}", {"path": "shop/prices.py"}),
    Document("b", "", "def checkout(price):\n    load_prices()", {"path": "shop/till.py"}),
    Document("c", "Tea", "A shop that sells tea by its price."),
]


@pytest.fixture
def index(tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    return folder


def test_params_are_filters(tmp_path: Path, index: Path) -> None:
    made = stack(tmp_path, embedder="hash")
    made.build(DOCUMENTS, index)
    with made.open(index) as searcher:
        assert isinstance(searcher, TakesParams)
        assert {hit.doc_id for hit in searcher.search("price", 10).hits} == {"a", "b", "c"}
        asked = {"path": "till", "calls": "load_prices"}
        assert [hit.doc_id for hit in searcher.search_with("price", 10, asked).hits] == ["b"]
        with pytest.raises(InvalidFilter, match="no filter colour"):
            searcher.search_with("price", 10, {"colour": "red"})
        failed = observe(searcher, Query("q", "price", params={"lang": ""}), 10, 10**10)
        assert failed.row.status is Status.FAILED


def test_an_arm_shows_no_context(tmp_path: Path, index: Path) -> None:
    made = stack(tmp_path, context={"per_hit": 5, "total": 5})
    made.build(DOCUMENTS, index)
    with made.open(index) as searcher:
        behind = code.searcher(searcher).search("checkout", 1)
        assert [hit.unit.doc_id for hit in behind.hits] == ["b"]
        assert [hit.unit.doc_id for hit in behind.context] == ["a"]
        assert [hit.doc_id for hit in searcher.search("checkout", 1).hits] == ["b"]


def test_only_an_arm_of_this_stack_can_be_explained(tmp_path: Path, index: Path) -> None:
    settings = {"tokenize": "unicode61", "title_weight": 1.0, "text_weight": 1.0, "joined": "both"}
    other = fts5.engine(settings, tmp_path)
    other.build(DOCUMENTS, index)
    with other.open(index) as searcher, pytest.raises(TypeError, match="not an open index"):
        code.searcher(searcher)


def _gone(path: Path) -> None:
    path.unlink()


def _other(path: Path) -> None:
    overwrite(path, b"[]")


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("damage", [_gone, _other])
def test_a_broken_file_is_an_index_that_is_not_ready(
    tmp_path: Path, index: Path, name: str, damage: Callable[[Path], None]
) -> None:
    made = stack(tmp_path, backend=name, embedder="hash")
    made.build(DOCUMENTS, index)
    files = [
        *index.glob("*"),
        *(index / "words").glob("*.pos"),
        *(index / "words").glob("meta.json"),
    ]
    for path in files:
        if path.is_dir():
            continue
        whole = path.read_bytes()
        damage(path)
        with pytest.raises(IndexNotReady, match="harness stage index"), made.open(index):
            pass
        path.write_bytes(whole)
    with made.open(index) as searcher:
        assert searcher.search("tea", 3).hits


def test_versions_tell_arms_apart(tmp_path: Path) -> None:
    versions = {name: stack(tmp_path, backend=name).version() for name in BACKENDS}
    assert ", sqlite 3" in versions["sqlite"]
    assert ", tantivy 0" in versions["tantivy"]
    assert all("datasketch" in version for version in versions.values())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"search": {}}, "name one of search.rrf and search.scoreBlend"),
        ({"search": {**RRF, **BLEND}}, "name one of search.rrf and search.scoreBlend"),
        ({"fields": dict.fromkeys(SETTINGS["fields"], 0)}, "no field has a weight above 0"),
        ({"graph": {**GRAPH, "seedK": 3}}, "seedK goes with"),
        ({"graph": {**GRAPH, "seedSelection": "topK"}}, "seedK goes with"),
        ({"boosts": {"definition": 0.5, "export": 1.0, "phrase": 0.0}}, "greater than or equal"),
        ({"backend": "lucene"}, "'sqlite' or 'tantivy'"),
        ({"mode": "both"}, "'mixed'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        ranking.Settings.model_validate({**SETTINGS, **changed})


def test_each_question_of_the_policy_differs_in_one_setting(tmp_path: Path) -> None:
    steps = load_policy(ROOT / "policy" / "code.toml").steps
    one = {"parity": "backend", "vectors": "embedder", "blend": "search", "boosts": "boosts",
           "fields": "fields", "graph": "graph"}  # fmt: skip
    assert [step.name for step in steps] == list(one)
    for step in steps:
        pair = [arms.load(name, tmp_path).engine for name in (step.control, step.candidate)]
        left, right = (made.settings.model_dump() for made in pair if isinstance(made, code.Code))
        assert [key for key in left if left[key] != right[key]] == [one[step.name]]
