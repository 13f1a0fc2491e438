"""``examples/from_a_log/judge.py``: a pool filled in by the judgements that are there."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from harness.corpus import judgements
from tests.source import ROOT

SCRIPT = ROOT / "examples" / "from_a_log" / "judge.py"
QUERIES = ("red shoes", "boots", "a hat")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Write a pool of three queries, and judgements of two of them in two files."""
    pairs = [
        judgements.JudgingPair(
            query_id=f"q{at}",
            doc_id=f"d{doc}",
            query=text,
            title="",
            snippet="",
            narrows=1.0,
            scale=(0, 1),
        )
        for at, text in enumerate(QUERIES)
        for doc in range(2)
    ]
    judgements.begin(tmp_path / "first.qrels", judgements.Pool(tuple(pairs), (None,) * len(pairs)))
    rows = "".join(
        f'{{"_id": "k{at}", "text": "{text.title()}"}}\n' for at, text in enumerate(QUERIES)
    )
    (tmp_path / "queries.jsonl").write_text(rows)
    for name, row in (("dev", "k0\td1\t2"), ("train", "k1\td0\t1")):
        (tmp_path / f"{name}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{row}\n")
    return tmp_path


def judge(files: Path, monkeypatch: pytest.MonkeyPatch, *qrels: str) -> None:
    words = [str(SCRIPT), str(files / "first.qrels"), "--queries", str(files / "queries.jsonl")]
    words += ["--qrels", *(str(files / name) for name in qrels)]
    monkeypatch.setattr(sys, "argv", words)
    runpy.run_path(str(SCRIPT), run_name="__main__")


def test_a_query_that_is_not_judged_stays_open(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    judge(files, monkeypatch, "dev.tsv")
    assert judgements.read_pool(files / "first.qrels").grades == (0, 1, None, None, None, None)
    judge(files, monkeypatch, "dev.tsv", "train.tsv")
    assert judgements.read_pool(files / "first.qrels").grades == (0, 1, 1, 0, None, None)
    assert "4 of 6 pairs are judged" in capsys.readouterr().out


def test_a_file_that_is_missing_is_named(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as found:
        judge(files, monkeypatch, "none.tsv")
    assert found.value.code == 2
    assert "none.tsv: missing file" in capsys.readouterr().err
    assert judgements.read_pool(files / "first.qrels").open == (0, 1, 2, 3, 4, 5)
