"""Stage ``import`` for ir_datasets: what is on the machine, and no download unasked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import DatasetError, UnknownName
from harness.core.records import Document, Qrels, Query
from harness.corpus import trec
from harness.corpus.exchange import Data, writer
from harness.pipeline.imports import Target, import_ir_datasets

ir_datasets: Any = pytest.importorskip("ir_datasets", reason="the extra ir-datasets is absent")
NAME = "harness-test"
DATA = Data(
    "mine",
    lambda: iter((Document("d1", "Red", "shoes\tof two\nlines"), Document("d2", "", "boots"))),
    (Query("q1", "red shoes"), Query("q2", "boots")),
    Qrels({"q1": {"d1": 2, "d2": 0}, "q2": {"d2": 1}}),
)


@pytest.fixture
def target(tmp_path: Path) -> Target:
    to = tmp_path / "datasets", tmp_path / "qrels"
    return Target("mine", *to, split="test")


@pytest.fixture
def registered(tmp_path: Path) -> Iterator[str]:
    """Write data for ir_datasets, and register them as it does with files of one's own."""
    writer("ir-datasets")(tmp_path, DATA)
    found = ir_datasets.create_dataset(
        docs_tsv=str(tmp_path / "docs.tsv"),
        queries_tsv=str(tmp_path / "queries.tsv"),
        qrels_trec=str(tmp_path / "qrels.trec"),
    )
    ir_datasets.registry.register(NAME, found)
    yield NAME
    del ir_datasets.registry._registered[NAME]  # noqa: SLF001  it cannot be unregistered otherwise


def test_what_is_written_for_it_comes_back(registered: str, target: Target) -> None:
    import_report = import_ir_datasets(target, collection=registered, download=False)
    assert (import_report.documents, import_report.queries, import_report.judgements) == (2, 2, 3)
    assert trec.qrels(target.qrels / "mine" / "test.qrels") == DATA.qrels
    corpus = (target.datasets / "mine" / "corpus.jsonl").read_text()
    assert '"text": "Red shoes of two lines"' in corpus
    queries = (target.datasets / "mine" / "queries.jsonl").read_text()
    assert (
        queries == '{"query_id": "q1", "text": "red shoes"}\n{"query_id": "q2", "text": "boots"}\n'
    )


def test_nothing_is_downloaded_unasked(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[str] = []
    monkeypatch.setattr(ir_datasets.lazy_libs, "requests", lambda: requested.append("x"))
    with pytest.raises(DatasetError, match=r"vaswani: its files are not on this machine.*--downl"):
        import_ir_datasets(target, collection="vaswani", download=False)
    assert not requested
    assert not target.datasets.exists()
    with pytest.raises(Exception, match="NoneType"):
        import_ir_datasets(target, collection="vaswani", download=True)
    assert requested


def test_a_collection_without_judgements_is_told_others(target: Target) -> None:
    with pytest.raises(DatasetError, match=r"beir: has no docs in ir_datasets; choose .*beir/arg"):
        import_ir_datasets(target, collection="beir", download=False)


def test_a_name_that_is_not_there_is_told_near_ones(target: Target) -> None:
    with pytest.raises(UnknownName, match=r"named 'vaswanii'; .* Did you mean vaswani"):
        import_ir_datasets(target, collection="vaswanii", download=False)
