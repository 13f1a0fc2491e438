"""``harness measure``: means with intervals, every value in a file, and bad input by name."""

from __future__ import annotations

import json

import pytest

from harness.corpus.runs import read_scores
from tests.cli.conftest import Harness
from tests.make.toy import Toy

pytestmark = pytest.mark.slow


def test_it_says_what_score_says(project: Toy, harness: Harness) -> None:
    layout = project.layout
    words = ("measure", str(layout.run("fts5")), "--qrels", str(layout.data / "qrels.trec"))
    said = harness(*words, "--measures", "nDCG@10, RR@10", "--out", "values.parquet")
    assert said.code == 0, said
    mean = json.loads(layout.scores.read_text())["fts5"]["nDCG@10"]
    assert f"nDCG@10: {mean['mean']:.4f} [" in said.out
    assert "n = 41" in said.out
    found = read_scores(project.root / "values.parquet", [])[()]
    wanted = read_scores(layout.per_query, ["arm"])["fts5",]
    assert found["RR@10"].by_query == wanted["RR@10"].by_query
    again = harness(*words, "--out", "values.parquet")
    assert (again.code, "is there already" in again.error) == (2, True)
    unknown = harness(*words, "--measures", "nDCG@ten")
    assert unknown.code == 2
    absent = harness("measure", "absent.parquet", *words[2:])
    assert absent.code == 2
    assert "absent.parquet" in absent.error
    both = harness(*words, "--workers", "2", "--cluster", "tcp://127.0.0.1:9")
    assert both.code == 2
    assert "two ways" in both.error
