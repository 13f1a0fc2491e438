"""``harness convert``, and ``harness import`` of what it wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.corpus import card
from harness.corpus.exchange import RATED
from tests.cli.conftest import Harness
from tests.make.toy import Toy
from tests.source import ROOT

EXAMPLE = ROOT / "examples" / "quepid"
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


def test_a_folder_is_converted_to_beir_and_imported(project: Toy, harness: Harness) -> None:
    assert harness("convert", "beir", "--format", "trec", "--out", "theirs").code == 0
    files = [f"theirs/{name}" for name in ("topics.tsv", "qrels.trec", "corpus.jsonl")]
    assert harness("import", "trec", *files, "--name", "back").code == 0
    own, first = (card.read(project.root / "datasets" / name) for name in ("back", "toy"))
    assert own.sha256.corpus == first.sha256.corpus
    assert own.sha256.qrels == first.sha256.qrels


def test_a_case_of_quepid_is_judged_to_a_verdict(project: Toy, harness: Harness) -> None:
    """From the CSV and the documents to a decision, by the commands alone."""
    case, corpus = (EXAMPLE / name for name in ("case.csv", "corpus.jsonl"))
    words = ("import", "ratings", case, corpus, "--format", "quepid", "--name", "shop")
    said = harness(*words)
    assert "imported shop (test): 12 documents, 6 queries, 24 judgements" in said.out
    assert "Without a judgement, and so left out: 1 of 7 queries." in said.out
    ran = ("run", "--dataset", "shop", "--arms", "fts5,tantivy", "--control", "fts5")
    said = harness(*ran, "--out", "out")
    assert said.code == 0, said
    (about,) = json.loads((project.root / "out" / "decision.json").read_text())["datasets"]
    (step,) = about["steps"]
    assert {found["verdict"] for found in step["findings"]} >= {"inconclusive"}
    assert harness("convert", "shop", "--format", "quepid", "--out", "theirs").code == 0
    back = ("import", "ratings", "theirs/ratings.csv", corpus, "--format", "quepid")
    assert "6 queries, 24 judgements" in harness(*back, "--name", "back").out
    own, first = (card.read(project.root / "datasets" / name) for name in ("back", "shop"))
    assert (own.sha256.qrels, own.sha256.queries) == (first.sha256.qrels, first.sha256.queries)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("convert", "toy", "--format", "csv", "--out", "o"),
            "no format named 'csv'; there is beir",
        ),
        (("convert", "nope", "--format", "beir", "--out", "o"), "no dataset named 'nope'"),
        (("convert", "beir", "--format", "beir", "--out", "beir/x"), "which is read"),
        (("convert", "toy", "--format", "beir", "--out", "build"), "did not write"),
        (
            ("import", "ratings", "r.csv", "c", "--format", "csv", "--name", "n"),
            "no format of ratings named 'csv'; there is quepid",
        ),
        (
            ("import", "ratings", "r.csv", "beir/corpus.jsonl", "--format", "ltr", "--name", "n"),
            "r.csv:1: the line is not: grade qid:ID # document",
        ),
        (
            ("import", "ratings", "r.csv", "none", "--format", "quepid", "--name", "n"),
            "none: missing file",
        ),
    ],
)
def test_what_is_wrong_is_named(
    project: Toy, harness: Harness, words: tuple[str, ...], says: str
) -> None:
    (project.root / "r.csv").write_text("query,docid,rating\na,d00,1\n")
    assert says in harness(*words).error
    assert not Path(project.root / "datasets" / "n").exists()
