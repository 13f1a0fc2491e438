"""Rankings without unjudged documents."""

from __future__ import annotations

import pytest

from harness.measures.missing_judgements import condense
from harness.measures.quality import score
from tests.make.runs import qrels_of, random_case, run_of


def test_unjudged_documents_go_and_the_rest_closes_up() -> None:
    run = run_of({"p": ["x", "a", "y", "b"], "empty": [], "q": ["a", "x"], "other": ["x"]})
    qrels = qrels_of({"p": {"a": 1, "b": 0}, "q": {"x": 0}})
    short = condense(run, qrels)
    assert [short.ranking(q) for q in run.query_ids] == [("a", "b"), (), ("x",), ("x",)]
    assert [hit.score for hit in short.hits("p")] == [0.5, 0.25]
    assert run.ranking("p") == ("x", "a", "y", "b")


@pytest.mark.parametrize("name", ["nDCG", "AP", "P"])
def test_equals_the_judged_only_measures_of_ir_measures(name: str) -> None:
    run, qrels = random_case(5, lowest=0)
    plain = score(condense(run, qrels), qrels, (f"{name}@10",), run.query_ids)
    only = score(run, qrels, (f"{name}(judged_only=True)@10",), run.query_ids)
    ours = plain[f"{name}@10"].by_query
    theirs = only[f"{name}(judged_only=True)@10"].by_query
    assert ours == pytest.approx(theirs, abs=1e-12)
    assert ours != score(run, qrels, (f"{name}@10",), run.query_ids)[f"{name}@10"].by_query
