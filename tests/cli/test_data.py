"""Import, export, query sets and logs."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness.corpus import beir, card, trec
from harness.corpus.exchange import RATED
from harness.pipeline.receipts import read_manifest
from harness.shadow.log import LogWriter
from harness.shadow.record import Observation
from tests.cli.conftest import Harness
from tests.make.shadow_records import SEEN, observation
from tests.make.toy import GATES, HEAD, NAME, STEP, Toy

pytestmark = pytest.mark.slow
FILES = {
    "quepid": "ratings.csv",
    "rank-eval": "rank_eval.json",
    "opensearch": "judgments.json",
    "ltr": "judgements.txt",
}


@pytest.mark.parametrize("kind", RATED)
def test_a_data_set_comes_back_from_its_ratings(project: Toy, harness: Harness, kind: str) -> None:
    said = harness("convert", "toy", "--format", kind, "--out", "theirs")
    assert said.code == 0, said
    file = f"theirs/{FILES[kind]}"
    assert said.out.splitlines() == [file, "theirs/harness-convert.txt"] or file in said.out
    words = ("import", "ratings", file, "beir/corpus.jsonl", "--format", kind, "--name", "back")
    said = harness(*words)
    assert "imported back (test): 60 documents, 41 queries, 2401 judgements" in said.out
    own, first = (card.read(project.root / "datasets" / name) for name in ("back", "toy"))
    assert own.sha256.corpus == first.sha256.corpus
    assert (own.sha256.qrels == first.sha256.qrels) == (kind in {"rank-eval", "ltr"})


@pytest.fixture
def kinds(project: Toy) -> dict[str, tuple[str | Path, ...]]:
    """Write the collection of the toy in every kind, and give the words to import each."""
    folder = project.root / "beir"
    read = beir.Beir(folder, "test")
    trec.write_qrels(folder / "test.qrels", read.qrels())
    topics = "".join(f"{query.query_id}\t{query.text}\n" for query in read.queries())
    (folder / "topics.tsv").write_text(topics)
    corpus, queries = folder / "corpus.jsonl", folder / "queries.jsonl"
    return {
        "beir": (folder,),
        "trec": (folder / "topics.tsv", folder / "test.qrels", corpus),
        "jsonl": (corpus, queries, folder / "test.qrels"),
    }


@pytest.mark.parametrize("kind", ["beir", "trec", "jsonl"])
def test_a_collection_is_imported_and_prepared(
    project: Toy, harness: Harness, kinds: dict[str, tuple[str | Path, ...]], kind: str
) -> None:
    words = ("import", kind, *kinds[kind], "--name", "other", "--licence", "CC0-1.0")
    said = harness(*words, "--source", "a test")
    assert said.code == 0, said.err
    assert "imported other (test): 60 documents, 41 queries, 2401 judgements" in said.out
    assert "harness run --dataset other" in said.out
    assert harness("stage", "prepare", "--dataset", "other").code == 0
    own, first = (card.read(project.root / "datasets" / name) for name in ("other", "toy"))
    assert (own.licence, own.source) == ("CC0-1.0", "a test")
    assert own.sha256.corpus == first.sha256.corpus
    assert own.sha256.qrels == first.sha256.qrels


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
    assert "already exists" in harness(*words, "q.jsonl").error
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


WORDS = ("--dataset", NAME, "--control", "fts5", "--candidate", "tantivy")
EACH_S = 720
BOUNDS = 'period = "day"\nblock_s = 1440\nmax_query_share = 0.1\nmax_client_share = 0.1\n'
GATE = '\n[[step.gate]]\nname = "{0}"\nrule = "{0}"\n{1}\n' + BOUNDS
LIVE = "".join(
    GATE.format(rule, more)
    for rule, more in (
        ("anytime_overlap", "k = 10\nfloor = 0.8"),
        ("anytime_failures", "max_share = 0.05"),
        ("anytime_slow", "max_ratio = 2.0\nmax_share = 0.05"),
    )
)


def pairs(project: Toy, count: int) -> list[Observation]:
    old, new = (
        replace(SEEN, served_by=read_manifest(project.layout, arm).fingerprint)
        for arm in ("fts5", "tantivy")
    )
    start = int((time.time() - 60 - count * EACH_S) * 1e9)
    return [
        observation(
            number,
            at=start + number * EACH_S * 1_000_000_000,
            client=f"{number % 50:032x}",
            query=f"{number:032x}",
            control=old,
            candidate=new,
            jaccard=1.0,
        )
        for number in range(1, count + 1)
    ]


def written(folder: Path, observations: list[Observation]) -> Path:
    with LogWriter(folder, rotate_bytes=1_000_000, sync_ns=0) as out:
        out.append(observations, [], [])
    return folder


def policy(project: Toy) -> Path:
    path = project.root / "policy" / "live.toml"
    path.write_text(HEAD + STEP + GATES + LIVE)
    return path


def test_a_log_that_was_taken_in_is_judged(project: Toy, harness: Harness, tmp_path: Path) -> None:
    decide = ("gate", "--policy", policy(project))
    before = harness(*decide)
    assert before.code == 3
    assert "no live traffic of tantivy beside fts5" in before.out
    said = harness("shadow", "traffic", written(tmp_path / "log", pairs(project, 300)), *WORDS)
    assert said.code == 0, said
    assert "300 attempts" in said.out
    assert "300 count, 0 of them unanswered" in said.out
    assert harness(*decide).code == 0
