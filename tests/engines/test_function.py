"""A function as an engine: found, called, versioned, and refused by name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.core.engine import Answer
from harness.core.errors import HarnessError, IndexNotReady
from harness.core.names import Place
from harness.core.records import Document
from harness_engines import registry
from harness_engines.contract import forbidden

DOCUMENTS = (Document("a", "", "x"), Document("b", "", "y"), Document("7", "", "z"))


def answer(folder: Path, body: str, *, text: str = "", written: str = "") -> Answer:
    file = folder / "ours.py"
    file.write_text(f"{text}\ndef search(text, k):\n    return {body}\n")
    arm = registry.load(written or f"{file}:search", folder)
    (folder / "index").mkdir(exist_ok=True)
    arm.build(DOCUMENTS, folder / "index")
    with arm.open(folder / "index") as searcher:
        return searcher.search("x", 10)


@pytest.mark.parametrize(
    ("body", "hits"),
    [
        ("['b', 'a']", [("b", 1.0, 1.0), ("a", 0.5, 0.5)]),
        ("[('b', 4.0), ('a', 1)]", [("b", 1.0, 4.0), ("a", 0.25, 1.0)]),
        ("[('b', 2.0), ('a', 2.0), (7, -1.0)]", [("a", 1.0, 2.0), ("b", 1.0, 2.0), ("7", 0, -1)]),
        ("[]", []),
    ],
)
def test_ids_or_pairs_become_hits(tmp_path: Path, body: str, hits: list[tuple[object]]) -> None:
    assert [tuple(hit) for hit in answer(tmp_path, body).hits] == hits


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("[('a', 1.0), ('b', 2.0)]", "higher than the one before"),
        ("[('a', float('nan'))]", "which is not finite"),
        ("[None]", "give an id, or a pair"),
    ],
)
def test_what_is_no_ranking_is_refused(tmp_path: Path, body: str, said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        answer(tmp_path, body)


def test_another_text_is_another_engine_and_its_index_is_refused(tmp_path: Path) -> None:
    before = answer(tmp_path, "['a']").served_by
    (tmp_path / "words.py").write_text("")
    beside = registry.load(f"{tmp_path / 'ours.py'}:search", tmp_path)
    with (
        pytest.raises(IndexNotReady, match="was built by another arm"),
        beside.open(tmp_path / "index"),
    ):
        pass
    assert answer(tmp_path, "['a']").served_by != before


def test_a_file_imports_what_lies_beside_it_and_in_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, name in (("pack_of_a_test", "inner"), ("tools", "beside_of_a_test")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{name}.py").write_text("IDS = ['a']\n")
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    text = "from pack_of_a_test import inner\nimport beside_of_a_test"
    found = answer(tmp_path / "tools", "inner.IDS + beside_of_a_test.IDS[1:]", text=text)
    assert [hit.doc_id for hit in found.hits] == ["a"]


def test_a_module_of_the_repository_is_found_from_a_folder_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "src" / "shop_of_a_test"
    package.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (package / "__init__.py").write_text("")
    (package / "rank.py").write_text("def best(text, k):\n    return ['a'][:k]\n")
    (tmp_path / "search-eval").mkdir()
    monkeypatch.chdir(tmp_path / "search-eval")
    monkeypatch.setattr(sys, "path", [*sys.path])
    arm = registry.load("shop_of_a_test.rank:best", tmp_path)
    assert arm.name == registry.name_of("shop_of_a_test.rank:best") == "rank.best"
    assert arm.path == package / "rank.py"
    (package / "deeper").mkdir()
    (package / "deeper" / "words.py").write_text("")
    again = registry.load("shop_of_a_test.rank:best", tmp_path)
    assert again.engine != arm.engine, "a file of the package is part of the engine"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("no.such:search", "such: no.such cannot be imported"),
        ("absent.py:search", "no file absent.py"),
        ("json:search", "no such function. Define search"),
    ],
)
def test_a_function_that_is_not_there_is_named(tmp_path: Path, written: str, said: str) -> None:
    with pytest.raises(HarnessError, match=said):
        registry.load(written, tmp_path)


def test_without_code_no_function_is_loaded(tmp_path: Path) -> None:
    with forbidden(), pytest.raises(HarnessError, match="brings code"):
        answer(tmp_path, "[]")


def test_an_index_of_other_documents_is_refused(tmp_path: Path) -> None:
    answer(tmp_path, "[]")
    (tmp_path / "index" / "documents.json").write_text("5")
    arm = registry.load(f"{tmp_path / 'ours.py'}:search", tmp_path)
    with pytest.raises(IndexNotReady, match="the index holds 5"), arm.open(tmp_path / "index"):
        pass


def test_what_is_no_function_is_read_as_before() -> None:
    assert Place.of("fts5") is None
    assert Place.of("examples/own_engine/own.toml") is None
    assert registry.name_of("examples/own_engine/own.toml") == "own"
