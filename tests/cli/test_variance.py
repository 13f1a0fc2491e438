"""``harness variance``: corpora and assessors as random factors, on the screen."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from harness.corpus import trec
from harness.corpus.runs import read_run
from harness.corpus.score_table import read_scores
from harness.measures.quality import score
from harness.stages.compare.variance import Compared, over_assessors, over_corpora
from harness.stats.components import Floats, of_corpora
from tests.cli.conftest import Harness
from tests.make.toy import NAME, Toy

WORDS = ("variance", "--control", "fts5", "--candidate", "tantivy")
PAIR = Compared("fts5", "tantivy", "nDCG@10")


def differences(project: Toy) -> Floats:
    found = read_scores(project.layout.per_query, ["arm"])
    return found["tantivy",]["nDCG@10"].values - found["fts5",]["nDCG@10"].values


def second(project: Toy, to: Path) -> Path:
    """Write the judgements of an assessor who finds every fifth relevant document irrelevant."""
    lines = (project.layout.data / "qrels.trec").read_text().splitlines()
    changed = []
    for at, line in enumerate(lines):
        query, zero, doc, grade = line.split()
        changed.append(" ".join((query, zero, doc, "0" if at % 5 == 0 else grade)))
    to.write_text("\n".join(changed) + "\n")
    return to


def test_two_corpora_are_taken_apart(project: Toy, harness: Harness, tmp_path: Path) -> None:
    left = tmp_path / "left"
    words = ("--arms", "fts5,tantivy", "--control", "fts5", "--out", left)
    assert harness("run", "--dataset", project.root / "beir", *words).code == 0
    said = harness(*WORDS, "--dataset", NAME, "--out", left)
    assert said.code == 0, said
    of = differences(project)
    mean = f"toy: {of.mean():+.4f}".replace("-", "\N{MINUS SIGN}")
    assert f"  {mean} over 41 queries" in said.out
    assert "  beir: " in said.out
    found = of_corpora([of, of], confidence=0.95)
    assert f"{found.parts[1].variance:.2e}" in said.out
    assert "0% (estimated below 0)" in said.out
    assert "mean, other queries and other corpora: " in said.out


def test_two_assessors_are_taken_apart(project: Toy, harness: Harness, tmp_path: Path) -> None:
    own, other = project.layout.data / "qrels.trec", second(project, tmp_path / "b.qrels")
    said = harness(*WORDS, "--dataset", NAME, "--assessor", own, "--assessor", other)
    assert said.code == 0, said
    assert re.search(r"query by assessor, and error +0\.\d+", said.out)
    varied = over_assessors(project.layout, [own, other], PAIR, confidence=0.95)
    runs = [read_run(project.layout.run(arm)) for arm in ("fts5", "tantivy")]
    ids = [f"q{at:02}" for at in range(40)]
    for path in (own, other):
        scores = [score(run, trec.qrels(path), ("nDCG@10",), ids)["nDCG@10"] for run in runs]
        shared = [q for q in scores[0].by_query if q in scores[1].by_query]
        mean = np.mean([scores[1].by_query[q] - scores[0].by_query[q] for q in shared])
        assert varied.means[str(path)] == pytest.approx(mean, abs=0.02)
    assert len(set(varied.means.values())) == 2
    assert "a margin below twice that" in said.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--dataset", NAME), "need 2 corpora or more"),
        (("--dataset", NAME, "--dataset", NAME), "toy comes twice"),
        (("--dataset", NAME, "--assessor", "a.qrels"), "a.qrels"),
        (("--dataset", NAME, "--assessor", "a", "--assessor", "./a"), "comes twice"),
        (("--dataset", NAME, "--measure", "nDCG@7"), "was not scored by nDCG@7"),
        (("--dataset", "none"), "no dataset named 'none'"),
    ],
)
def test_bad_input_is_named(
    project: Toy, harness: Harness, words: tuple[str, ...], says: str
) -> None:
    assert project
    assert says in harness(*WORDS, *words).error


def test_scores_that_were_changed_since_are_refused(project: Toy, tmp_path: Path) -> None:
    shutil.copyfile(project.layout.per_query, tmp_path / "kept")
    project.layout.per_query.write_bytes((tmp_path / "kept").read_bytes() + b" ")
    with pytest.raises(Exception, match="per_query"):
        over_corpora([project.layout], PAIR, confidence=0.95)
