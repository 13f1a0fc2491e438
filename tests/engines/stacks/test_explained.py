"""What stacks say of their own answers: about the hits that are shown, and fit for JSON."""

from __future__ import annotations

import json
import tomllib

import pytest

from harness.core.engine import Explains
from tests.engines.conftest import Standing

TEXT = "moon sea water tides"
OF_AN_ANSWER = {
    "blend": "vector_share",
    "code": "mode",
    "documents": "stagesUsed",
    "mail": "method",
    "writing": "queries",
}
OF_A_HIT = {"blend": "cosine", "code": "selected", "documents": "chunk", "writing": "snippet"}
SILENT = {"dense", "fts5", "hybrid", "rerank", "tantivy"}


@pytest.mark.slow
def test_an_answer_is_explained_by_the_stacks_that_can(standing: Standing) -> None:
    stack = tomllib.loads(standing.arm.path.read_text(encoding="utf-8"))["stack"]
    searcher = standing.searcher
    assert isinstance(searcher, Explains) == (stack not in SILENT), stack
    if not isinstance(searcher, Explains):
        return
    shown = [hit.doc_id for hit in standing.searcher.search(TEXT, 5).hits]
    found = searcher.explain(TEXT, 5, {})
    assert OF_AN_ANSWER[stack] in json.loads(json.dumps(found.answer, allow_nan=False))
    if stack in OF_A_HIT:
        assert list(found.hits) == shown
        assert all(OF_A_HIT[stack] in why for why in found.hits.values())
        json.dumps(dict(found.hits), allow_nan=False)


@pytest.mark.parametrize("table", [OF_AN_ANSWER, OF_A_HIT])
def test_the_tables_name_stacks(table: dict[str, str]) -> None:
    assert not SILENT & table.keys()
