"""A replay over HTTP: a whole run or none, and retries that the run keeps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.corpus.runs import read_run
from tests.cli.conftest import Harness
from tests.make.search_server import Served, collection, serving, status

pytest.importorskip("jmespath", reason='needs the extra "http"')


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as running:
        yield running


def mine(folder: Path, served: Served, **changed: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(served.toml(**changed), encoding="utf-8")
    return path


def run(folder: Path, arm: Path) -> list[str | Path]:
    data = collection(folder / "theirs")
    return ["run", "--dataset", data, "--arms", f"fts5,{arm}", "--control", "fts5", "--out",
            folder / "out"]  # fmt: skip


def test_a_run_judges_a_server_and_tells_its_retries(
    served: Served, harness: Harness, tmp_path: Path
) -> None:
    served.faults = [status(503, Retry_After="0"), status(429, Retry_After="0")]
    said = harness(*run(tmp_path, mine(tmp_path, served)))
    assert said.code == 0, said.err
    assert "mine: 2 attempts failed and were repeated; their time is in the latencies" in said.err
    assert json.loads((tmp_path / "out" / "decision.json").read_text("utf-8"))
    kept = [read_run(path).retries for path in (tmp_path / "out").rglob("runs/mine.parquet")]
    assert set(kept) == {2}
    page = (tmp_path / "out" / "index.html").read_text("utf-8")
    assert "2 attempts repeated, 1 of them rate-limited" in page
    decided = json.loads((tmp_path / "out" / "decision.json").read_text("utf-8"))
    assert "2 attempts repeated, 1 of them rate-limited" in json.dumps(decided)


def test_an_index_that_moves_is_never_scored(
    served: Served, harness: Harness, tmp_path: Path
) -> None:
    served.after = 2
    said = harness(*run(tmp_path, mine(tmp_path, served)))
    assert said.code == 2
    assert "the index moved while queries ran" in said.err
    assert not (tmp_path / "out" / "decision.json").exists()


def test_a_server_that_is_not_there_is_no_lower_score(
    served: Served, harness: Harness, tmp_path: Path
) -> None:
    path = mine(tmp_path, served, probe_url='"http://127.0.0.1:9/about"', retries="0")
    said = harness(*run(tmp_path, path))
    assert said.code == 2
    assert "127.0.0.1:9/about: cannot connect" in said.err
    assert not (tmp_path / "out" / "decision.json").exists()


def test_a_server_that_fails_every_query_is_not_scored(
    served: Served, harness: Harness, tmp_path: Path
) -> None:
    served.faults, served.forever = [status(500)], True
    said = harness(*run(tmp_path, mine(tmp_path, served)))
    assert said.code == 2
    assert "mine: not one of 4 queries was answered; the first error is: NoAnswer: HTTP 500" in (
        said.err
    )
