"""``rag:retrieve`` on real prose: what it answers, with its model and without."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from numpy.typing import NDArray

from engines.kept import index
from engines.stacks.writing.arm import WritingSearcher
from engines.stacks.writing.planner import Context, Kind
from engines.stacks.writing.retrieval import CHARACTERS_A_TOKEN, InvalidArgument, Retriever, scores
from engines.vector import embedder
from harness.core.errors import IndexNotReady
from tests.make.notes import notes, writing

pytestmark = pytest.mark.slow
REWRITTEN = "round numbers down to whole numbers"
"""No docstring says it so; many share a word with it, and a few functions do it."""
ROUNDING = {"around", "ceil", "fix", "floor", "floor_divide", "rint", "round", "trunc"}
WHOLE = {"limit": 8, "budget": 8000}
SHAPE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["items", "diagnostics"],
    "properties": {
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["sourceRef", "snippet", "score"],
                "properties": {
                    "sourceRef": {"type": "string", "pattern": "^doc:[^/\\\\]"},
                    "snippet": {"type": "string", "minLength": 1},
                    "score": {"type": "number"},
                },
            },
        },
        "diagnostics": {
            "type": "object",
            "additionalProperties": False,
            "required": ["mode", "planner", "rerank"],
            "properties": {
                "mode": {"enum": ["fulltext", "fulltext_reranked"]},
                "planner": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["queries", "perQueryHits", "selectedCount"],
                    "properties": {
                        "queries": {"type": "array", "maxItems": 4, "items": {"type": "string"}},
                        "perQueryHits": {"type": "array", "items": {"type": "integer"}},
                        "selectedCount": {"type": "integer", "minimum": 0},
                    },
                },
                "rerank": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["enabled"],
                    "properties": {
                        "enabled": {"type": "boolean"},
                        "reason": {"enum": ["MODEL_NOT_READY", "DISABLED", "NO_CANDIDATES"]},
                        "scores": {"type": "array"},
                    },
                    "if": {"properties": {"enabled": {"const": False}}},
                    "then": {"required": ["reason"]},
                    "else": {"not": {"required": ["reason"]}},
                },
            },
        },
    },
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    index = tmp_path_factory.mktemp("notes")
    writing().build(notes(), index)
    return index


@pytest.fixture(scope="module")
def searcher(folder: Path) -> Iterator[WritingSearcher]:
    with writing().open(folder) as opened:
        assert isinstance(opened, WritingSearcher)
        yield opened


@pytest.fixture
def without(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WritingSearcher]:
    """Open the same notes on a machine that has no model."""
    monkeypatch.setattr(embedder, "find_spec", lambda _: None)
    embedder._verified.cache_clear()  # noqa: SLF001  what was found before is forgotten
    with writing().open(folder) as opened:
        assert isinstance(opened, WritingSearcher)
        yield opened
    embedder._verified.cache_clear()  # noqa: SLF001


def told(retriever: Retriever, text: str, **asked: Any) -> dict[str, Any]:  # noqa: ANN401
    found = retriever.retrieve(text, **{**WHOLE, **asked})
    jsonschema.validate(found, SHAPE)
    return found


def name(ref: str) -> str:
    return ref.removeprefix("doc:notes/").split(".md#")[0]


def test_path_a_the_model_changes_the_first_hit(searcher: WritingSearcher) -> None:
    reranked = told(searcher.retriever, REWRITTEN)
    off = replace(searcher.retriever, rerank=replace(searcher.retriever.rerank, enabled=False))
    plain = told(off, REWRITTEN)
    assert reranked["diagnostics"]["mode"] == "fulltext_reranked"
    assert reranked["diagnostics"]["rerank"]["enabled"] is True
    assert plain["diagnostics"]["rerank"] == {"enabled": False, "reason": "DISABLED"}
    first, before = (found["items"][0]["sourceRef"] for found in (reranked, plain))
    assert first != before
    assert name(first) in ROUNDING
    assert name(before) not in ROUNDING


def test_path_b_the_order_of_fts_stays_without_the_model(
    searcher: WritingSearcher, without: WritingSearcher
) -> None:
    off = replace(searcher.retriever, rerank=replace(searcher.retriever.rerank, enabled=False))
    found, plain = told(without.retriever, REWRITTEN), told(off, REWRITTEN)
    assert found["items"] == plain["items"]
    assert len(found["items"]) == WHOLE["limit"]
    assert found["diagnostics"]["mode"] == "fulltext"
    assert found["diagnostics"]["rerank"] == {"enabled": False, "reason": "MODEL_NOT_READY"}


def test_an_arm_without_its_model_is_not_that_arm(
    searcher: WritingSearcher, without: WritingSearcher
) -> None:
    assert searcher.search("sort", 5).served_by == searcher.manifest.fingerprint
    answer = without.search("sort", 5)
    assert len(answer.hits) == 5
    assert answer.served_by != without.manifest.fingerprint
    assert answer.note == "MODEL_NOT_READY"


def test_rerank_only_reorders(searcher: WritingSearcher) -> None:
    found = searcher.retriever.find(REWRITTEN)
    off = replace(searcher.retriever, rerank=replace(searcher.retriever.rerank, enabled=False))
    plain = off.find(REWRITTEN)
    window = found.window
    assert sorted(c.chunk.rowid for c in found.ranked[:window]) == sorted(
        c.chunk.rowid for c in plain.ranked[:window]
    )
    assert found.ranked[window:] == plain.ranked[window:]


def test_the_snippet_is_the_exact_text_that_was_ranked(searcher: WritingSearcher) -> None:
    seen: list[str] = []
    rerank = searcher.retriever.rerank

    class Watched:
        identity, dimension = "watched", 384

        def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            seen.extend(texts)
            assert rerank.embedder is not None
            return rerank.embedder.embed(texts)

    watched = replace(searcher.retriever, rerank=replace(rerank, embedder=Watched()))
    items = told(watched, "linear  algebra")["items"]
    assert seen[0] == "linear algebra"
    assert {item["snippet"] for item in items} <= set(seen[1:])
    assert max(len(item["snippet"]) for item in items) <= 400


def test_scores_fall_and_lie_in_the_unit_interval(searcher: WritingSearcher) -> None:
    for text in (REWRITTEN, "array", "sum over an axis"):
        for retriever in (
            searcher.retriever,
            replace(searcher.retriever, rerank=replace(searcher.retriever.rerank, enabled=False)),
        ):
            found = scores(retriever.find(text))
            assert list(found) == sorted(found, reverse=True)
            assert all(0 <= score <= 1 for score in found)


def test_hits_of_each_query_and_what_was_selected(searcher: WritingSearcher) -> None:
    found = told(searcher.retriever, "matrix product", limit=3)
    planner = found["diagnostics"]["planner"]
    assert planner["queries"][0] == '"matrix" AND "product"'
    assert planner["queries"][1] == '"matrix product"'
    assert len(planner["perQueryHits"]) == len(planner["queries"]) == 4
    assert (
        planner["perQueryHits"][3] >= planner["perQueryHits"][0] >= planner["perQueryHits"][1] > 0
    )
    assert planner["selectedCount"] == len(found["items"]) == 3
    cosines = found["diagnostics"]["rerank"]["scores"]
    assert len(cosines) == 12
    best = max(cosines, key=lambda one: one["score"])
    assert best["sourceRef"] == found["items"][0]["sourceRef"]


def test_nothing_typed_finds_nothing_and_says_so(searcher: WritingSearcher) -> None:
    found = told(searcher.retriever, " ?! ")
    assert found["items"] == []
    assert found["diagnostics"]["planner"] == {
        "queries": [],
        "perQueryHits": [],
        "selectedCount": 0,
    }
    assert found["diagnostics"]["rerank"] == {"enabled": False, "reason": "NO_CANDIDATES"}


@pytest.mark.parametrize(
    "asked", [{"limit": 0}, {"limit": 51}, {"limit": True}, {"limit": 2.0}, {"budget": 49}]
)
def test_a_limit_or_budget_out_of_range_is_refused(
    searcher: WritingSearcher, asked: dict[str, Any]
) -> None:
    (name,) = asked
    with pytest.raises(InvalidArgument, match=f"{name} is .*; give a whole number from"):
        searcher.retriever.retrieve("sort", **{**WHOLE, **asked})


def test_the_budget_is_kept_and_no_snippet_is_cut_for_it(searcher: WritingSearcher) -> None:
    whole = told(searcher.retriever, REWRITTEN, limit=50)["items"]
    few = told(searcher.retriever, REWRITTEN, limit=50, budget=150)["items"]
    assert 0 < len(few) < len(whole)
    assert sum(math.ceil(len(item["snippet"]) / CHARACTERS_A_TOKEN) for item in few) <= 150
    texts = [item["snippet"] for item in whole]
    assert all(item["snippet"] in texts for item in few)


def test_the_context_finds_more_and_loses_nothing(searcher: WritingSearcher) -> None:
    near = searcher.retriever.find("polynomial", Context(title="roots of a cubic"))
    alone = searcher.retriever.find("polynomial")
    assert {c.chunk.rowid for c in alone.ranked} < {c.chunk.rowid for c in near.ranked}


def test_best_takes_the_query_that_finds_most(searcher: WritingSearcher) -> None:
    changed = {"combine": "best", "enough": 5000, "candidates": 1000}
    given = searcher.retriever.settings.model_copy(update=changed)
    best = replace(searcher.retriever, settings=given).find("matrix product")
    most = max(range(4), key=lambda at: best.per_query[at])
    assert best.planned[most].kind is Kind.ANY
    assert len(best.ranked) == best.per_query[most]
    soon = given.model_copy(update={"enough": 1})
    first = replace(searcher.retriever, settings=soon).find("matrix product")
    assert len(first.ranked) == first.per_query[0] < len(best.ranked)


def test_a_note_is_shown_once_by_its_best_chunk(searcher: WritingSearcher) -> None:
    hits = searcher.search("array", 100).hits
    assert len({hit.doc_id for hit in hits}) == len(hits)
    ranked = searcher.retriever.find("array").ranked
    assert hits[0].doc_id == ranked[0].chunk.doc_id
    assert len({c.chunk.doc_id for c in ranked}) < len(ranked)


def test_a_broken_file_is_not_opened(tmp_path: Path) -> None:
    engine = writing(rerank=False)
    engine.build(notes()[:5], tmp_path)
    (tmp_path / index.FILE).write_bytes(b"no database")
    with pytest.raises(IndexNotReady, match="Build it again"), engine.open(tmp_path):
        pass


def test_the_index_holds_words_and_no_vectors(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == sorted(["manifest.json", index.FILE])
