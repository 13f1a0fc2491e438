"""Stage ``convert``."""

from __future__ import annotations

from pathlib import Path

from harness.corpus.prepared import Prepared
from harness.pipeline.imports import convert
from tests.make.toy import Toy


def test_prepared_data_are_written_with_their_documents(measured: Toy, tmp_path: Path) -> None:
    data = Prepared.open(measured.layout.data)
    files = convert(data, "toy", "beir", tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in files] == [
        "corpus.jsonl",
        "qrels/test.tsv",
        "queries.jsonl",
    ]
    judgements = sum(1 for _ in data.qrels().rows())
    assert len((tmp_path / "qrels" / "test.tsv").read_text().splitlines()) == judgements + 1
