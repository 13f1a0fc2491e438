"""``harness queries``: a sample is made, judged as traffic, and compared with a later log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.core.errors import EvidenceError
from harness.core.records import Drawn, Query
from harness.corpus import beir
from harness.pipeline.report_inputs import traffic
from tests.cli.conftest import Harness
from tests.make.toy import Toy

pytestmark = pytest.mark.slow
RUN = ("run", "--dataset", "beir", "--arms", "fts5,tantivy", "--control", "fts5", "--out", "out")


def a_log(folder: Path, name: str = "log.jsonl") -> Path:
    rows = [{"query": f"word{at % 40} of a {at % 7}"} for at in range(400)]
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"query": "cut')
    return path


def test_a_sample_is_written_with_what_was_left_out(project: Toy, harness: Harness) -> None:
    a_log(project.root)
    words = ("queries", "from-log", "log.jsonl", "--size", "60", "--out")
    said = harness(*words, "q.jsonl")
    assert said.code == 0, said
    assert "400 of 401 lines are requests that count" in said.out
    assert "1 left out: the line is cut off or malformed" in said.out
    assert "limit of masking: names of people" in said.out
    assert "wrote 60 queries to q.jsonl" in said.out
    assert all(query.drawn for query in beir.queries(project.root / "q.jsonl"))
    assert "is there already" in harness(*words, "q.jsonl").error
    assert "which is read" in harness(*words, "datasets/toy/q.jsonl").error
    found = harness("queries", "drift", "q.jsonl", a_log(project.root, "later.jsonl"))
    assert "0.0% of 400 requests are of another kind than then" in found.out
    assert harness("queries", "drift", "log.jsonl", "log.jsonl").code == 2


def test_the_page_shows_the_mean_over_the_traffic_beside_the_plain_one(
    project: Toy, harness: Harness
) -> None:
    path = project.root / "beir" / "queries.jsonl"
    assert harness(*RUN).code == 0
    page = (project.root / "out" / "index.html").read_text()
    assert "over the requests of the log" not in page
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for at, line in enumerate(lines):
        line["drawn"] = {"stratum": f"s{at % 2}", "inclusion": 0.5 + at % 2 / 2, "requests": at + 1}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert harness(*RUN).code == 0
    for name in ("index.html", "report.md"):
        page = (project.root / "out" / name).read_text()
        assert "nDCG@10 over the requests of the log, and over the sampled queries" in page
        assert "plain mean, as the gates judge it" in page
    lines[0]["drawn"]["inclusion"] = 1.5
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = harness(*RUN).error
    assert "queries.jsonl:1: 'drawn' is" in said
    assert "inclusion (above 0, at most 1)" in said


def test_a_sample_with_queries_of_elsewhere_has_no_traffic() -> None:
    both = [Query("a", "x", drawn=Drawn("s", 1.0, 1)), Query("b", "y")]
    with pytest.raises(EvidenceError, match=r"1 of 2 queries have a place in a sample"):
        traffic(both, {}, {}, "nDCG@10", None)  # type: ignore[arg-type]


def test_a_log_without_judgements_is_taken_to_a_verdict(project: Toy, harness: Harness) -> None:
    """From queries that nobody has judged, by a pool that is judged in part, to a decision."""
    queries = [*beir.queries(project.root / "beir" / "queries.jsonl")]
    (project.root / "q.jsonl").write_text(
        beir.queries_text(Query(q.query_id, q.text) for q in queries)
    )
    words = ("queries", "pool", "q.jsonl", "beir/corpus.jsonl", "--arms", "fts5,tantivy")
    said = harness(*words, "--depth", "3", "--out", "first.qrels")
    assert said.code == 0, said
    assert "judge them: harness judge first.qrels" in said.out
    assert "is there already" in harness(*words, "--depth", "3", "--out", "first.qrels").error
    assert "no arm named 'x'" in harness(
        "queries", "pool", "q.jsonl", "beir/corpus.jsonl", "--arms", "x", "--depth", "3",
        "--out", "other",
    ).error  # fmt: skip
    pool = project.root / "first.qrels"
    lines = pool.read_text().splitlines()
    pool.write_text("".join(f"{one[:-1]}{at % 2 if at else '?'}\n" for at, one in enumerate(lines)))
    taken = ("import", "jsonl", "beir/corpus.jsonl", "q.jsonl", "first.qrels", "--name", "mine")
    assert f"{len(lines) - 1} judgements" in harness(*taken).out
    assert "The pool leaves 1 pair open." in (
        (project.root / "datasets" / "mine" / "card.toml").read_text()
    )
    ran = ("run", "--dataset", "mine", "--arms", "fts5,tantivy", "--control", "fts5")
    assert harness(*ran, "--out", "out").code == 0
    assert (project.root / "out" / "decision.json").is_file()
