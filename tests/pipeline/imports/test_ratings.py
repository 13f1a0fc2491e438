"""Stage ``import`` for ratings of other tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import DatasetError
from harness.corpus import card
from harness.pipeline.imports import Target, import_ratings


@pytest.fixture
def target(tmp_path: Path) -> Target:
    (tmp_path / "corpus.jsonl").write_text('{"doc_id": "d1", "text": "red shoes"}\n')
    to = tmp_path / "datasets", tmp_path / "qrels"
    return Target("mine", *to, split="test")


def test_what_was_not_rated_is_on_the_card(tmp_path: Path, target: Target) -> None:
    case = tmp_path / "case.csv"
    case.write_text("query,docid,rating\nred shoes,d1,2\nboots,d1,\n")
    import_report = import_ratings(
        target, kind="quepid", ratings_file=case, corpus_file=tmp_path / "corpus.jsonl"
    )
    assert (import_report.queries, import_report.judgements, import_report.unjudged_queries) == (
        1,
        1,
        1,
    )
    warnings = card.read(target.datasets / "mine").warnings
    assert warnings[0] == "1 pair was listed without a rating and left out."
    assert (target.qrels / "mine" / "test.qrels").read_text() == "red%20shoes 0 d1 2\n"


def test_ratings_of_documents_that_are_not_there_are_refused(
    tmp_path: Path, target: Target
) -> None:
    case = tmp_path / "case.csv"
    case.write_text("query,docid,rating\nred shoes,d9,2\n")
    with pytest.raises(DatasetError, match=r"not in the corpus: d9;.*--allow-dangling"):
        import_ratings(
            target, kind="quepid", ratings_file=case, corpus_file=tmp_path / "corpus.jsonl"
        )
    assert not target.datasets.exists() or not [*target.datasets.glob("mine")]
