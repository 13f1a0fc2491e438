"""Search in notes."""

import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import run
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness.core.errors import DatasetError
from harness.core.records import Document
from harness_engines.kept.index import built
from harness_engines.kept.kit import NOTES as NOTES_KIT
from harness_engines.stacks.writing import retrieval, store
from harness_engines.stacks.writing.arm import WritingSearcher
from harness_engines.stacks.writing.retrieval import LocalRerank, Retriever, VectorCache, plan
from harness_engines.stacks.writing.store import chunks, shown, trimmed
from harness_engines.vector import embedder as models
from tests.make.models import NOTES_SETTINGS, Letters, notes, writing

ALL = tuple(retrieval.PlannedKind)
FREQUENCY = {'"the"': 90, '"wind"': 7, '"tunnel"': 3, '"absent"': 0}


def frequency(query: str) -> int:
    return FREQUENCY.get(query, 50)


def queries(text: str, context: str = "") -> list[str]:
    return [*plan(text, ALL, frequency, context)]


def test_what_is_planned() -> None:
    assert plan("the wind Tunnel", ALL, frequency) == (
        '"the" AND "wind" AND "Tunnel"',
        '"the wind tunnel"',
        '"tunnel"',
        '"the" OR "wind" OR "tunnel"',
    )
    assert queries("Wind") == ['"Wind"']
    assert plan("Wind", [retrieval.PlannedKind.ANY], frequency) == ('"Wind"',)
    planned = plan("the wind", [retrieval.PlannedKind.ANY, retrieval.PlannedKind.PHRASE], frequency)
    assert planned == ('"the wind"', '"the" OR "wind"')
    assert retrieval.quoted("NEAR") == '"NEAR"'


def test_what_was_typed_keeps_its_meaning() -> None:
    assert retrieval.typed_query('+flow "boundary layer" -heat') == (
        '("flow" AND "boundary layer") NOT ("heat")'
    )
    assert retrieval.typed_query("flow OR heat") == '"flow" OR "heat"'
    assert retrieval.typed_query("read_csv now") == '"read csv" AND "now"'
    planned = queries("budget plan +costs -travel", "trains")
    assert len(planned) == retrieval.MOST_QUERIES
    assert all('NOT ("travel")' in one and '"costs"' in one for one in planned)


def test_the_context_widens_and_never_narrows() -> None:
    alone, near = queries("wind"), queries("wind", "Tunnel notes")
    assert alone == ['"wind"']
    assert (near[0], near[-1]) == ('"wind"', '"wind" OR "tunnel" OR "notes"')
    both = queries("the wind", "tunnel wings")
    assert both[:3] == queries("the wind")[:3]
    assert both[3] == '"the" OR "wind" OR "tunnel" OR "wings"'


@given(st.text())
def test_whatever_is_typed_fts5_can_read(text: str) -> None:
    planned = plan(text, ALL, frequency, text[::-1])
    assert len(planned) <= retrieval.MOST_QUERIES
    assert len({*planned}) == len(planned)
    with sqlite3.connect(":memory:") as db:
        db.execute("CREATE VIRTUAL TABLE search USING fts5(text)")
        for one in planned:
            db.execute("SELECT rowid FROM search WHERE search MATCH ?", (one,)).fetchall()
    db.close()


NOTES = (
    Document("b", "Tides", "The moon pulls.\n\nThe sea rises."),
    Document("a", "Sea", "Salt and water."),
    Document("c", "", ""),
)


@contextmanager
def stored(
    folder: Path, notes: Sequence[Document], characters: int = 0, words: int = 40
) -> Iterator[store.Store]:
    with built(folder, store.TABLES.format(tokenize="porter unicode61")) as db:
        store.put(db, notes, characters)
        yield store.Store(db, 2.0, words)


def test_chunks_are_found_and_read(tmp_path: Path) -> None:
    with stored(tmp_path, NOTES, 16) as held:
        assert (held.documents(), held.count('"sea"')) == (len(NOTES), 2)
        ids = list(held.find('"sea"', 10))
        assert held.chunks(ids[:1], '"sea"').keys() == {ids[0]}
        found = [held.chunks(ids, '"sea"')[rowid] for rowid in ids]
        assert [(one.doc_id, one.number) for one in found] == [("a", 0), ("b", 1)]
        assert found[1].passage == "The sea rises."
        assert found[1].ref == "doc:b#chunk:1"
        assert len(held.find('"sea"', 1)) == 1
        (stemmed,) = held.find('"pulling"', 10)
        assert held.chunks([stemmed], '"pulling"')[stemmed].passage == "The moon pulls."


@pytest.mark.parametrize(("enough", "shown"), [(1, ["a"]), (2, ["a", "b"]), (3, ["a", "b"])])
def test_the_first_query_that_finds_enough_is_taken_else_the_longest(
    tmp_path: Path, enough: int, shown: list[str]
) -> None:
    changed = {"combine": "best", "enough": enough, "rerank": False}
    given = retrieval.WritingSettings.model_validate({**NOTES_SETTINGS, **changed})
    with stored(tmp_path, NOTES) as held:
        alone = Retriever(held, given, LocalRerank(None, False, VectorCache(1, 1)))  # noqa: FBT003  as below
        found = alone.find("sea salt").ranked
    assert sorted(one.chunk.doc_id for one in found) == shown


@pytest.mark.parametrize("doc_id", ["/notes/a.md", "C:\\notes\\a.md", "~/a"])
def test_an_absolute_path_is_refused(doc_id: str) -> None:
    with pytest.raises(DatasetError, match="absolute path"):
        store.source_ref(doc_id, 0)


def test_chunks_are_cut_between_paragraphs() -> None:
    text = "one two\n\nthree\n\n\nfour five six\n\nseven"
    assert list(chunks(text, 14)) == ["one two\n\nthree", "four five six", "seven"]
    assert list(chunks(text, 0)) == [text]
    assert list(chunks("", 10)) == [""]
    assert list(chunks("word " * 5, 9)) == ["word word", "word word", "word"]
    assert list(chunks("x" * 25, 10)) == ["x" * 10, "x" * 10, "x" * 5]


def test_a_text_is_trimmed_at_a_word() -> None:
    assert trimmed("one two three", 9) == "one two"
    assert trimmed("one two three", 7) == "one two"
    assert trimmed("one two  ", 20) == "one two"
    assert trimmed("onetwothree", 5) == "onetw"
    assert trimmed(" onetwothree", 5) == " onet"
    assert shown("Tides", "The moon pulls", 80) == "Tides\nThe moon pulls"
    assert shown("Tides", "The moon pulls", 10) == "Tides\nThe"
    assert shown("", "The moon", 80) == "The moon"
    assert store.source_ref("notes/a b#1.md", 2) == "doc:notes/a%20b%231.md#chunk:2"


@pytest.mark.slow
def test_a_text_is_embedded_once_a_model() -> None:
    cache, one, other = VectorCache(10, 10_000), Letters("one"), Letters("other")
    for embedder in (one, one, other):
        vector = cache.vector(embedder, "abba")
        assert vector[:2].tolist() == pytest.approx([0.5**0.5, 0.5**0.5])
    assert (one.read, other.read, len(cache)) == (["abba"], ["abba"], 2)
    with pytest.raises(ValueError, match="read-only"):
        cache.vector(one, "abba")[0] = 1
    cache, letters = VectorCache(2, 10_000), Letters()
    for text in ("a", "b", "a", "c", "a", "b"):
        cache.vector(letters, text)
    assert letters.read == ["a", "b", "c", "b"]


def test_the_bytes_that_are_held_have_a_bound() -> None:
    cache, letters = VectorCache(10_000, 20_000), Letters()
    for at in range(50):
        cache.vector(letters, f"{at} " + "é" * 1_000)
        assert cache.held_bytes <= 20_000
    assert 0 < len(cache) < 50


RERANK = LocalRerank(Letters(), enabled=True, cache=VectorCache(100, 100_000))


def test_the_nearest_comes_first_and_equal_ones_as_they_came() -> None:
    outcome = RERANK.order("abba", ["zz", "ab", "ba", "aab"])
    assert (outcome.order, outcome.reason) == ((1, 2, 3, 0), None)
    assert outcome.cosines == pytest.approx((0.0, 1.0, 1.0, 3 / 10**0.5), abs=1e-6)
    found = replace(RERANK, fts_share=0.9).order("ab", ["zz", "ab"], [1.0, 0.0])
    assert found.order == (0, 1)
    assert found.keys == pytest.approx((0.9, 0.1), abs=1e-6)
    assert found.cosines == pytest.approx((0.0, 1.0), abs=1e-6)
    assert replace(RERANK, fts_share=0.0).order("ab", ["zz", "ab"], [1.0, 0.0]).order == (1, 0)


def test_without_a_model_the_order_stays_and_the_reason_is_told() -> None:
    absent, off = replace(RERANK, embedder=None), replace(RERANK, enabled=False)
    why = retrieval.UnrankedReason
    assert absent.order("abba", ["zz", "ab"]) == ((0, 1), (), (), why.MODEL_NOT_READY)
    assert off.order("abba", ["zz", "ab"]) == ((0, 1), (), (), why.DISABLED)
    assert RERANK.order("abba", []) == ((), (), (), why.NO_CANDIDATES)
    assert absent.order("abba", []).reason is why.MODEL_NOT_READY


REWRITTEN = "round numbers down to whole numbers"
"""No docstring says it so; many share a word with it, and a few functions do it."""
ROUNDING = {"around", "ceil", "fix", "floor", "floor_divide", "rint", "round", "trunc"}
LIMIT = 8


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
    monkeypatch.setattr(models, "find_spec", lambda _: None)
    models._verified.cache_clear()  # noqa: SLF001  what was found before is forgotten
    with writing().open(folder) as opened:
        assert isinstance(opened, WritingSearcher)
        yield opened
    models._verified.cache_clear()  # noqa: SLF001


def unranked(searcher: WritingSearcher) -> Retriever:
    found = searcher.retriever
    return replace(found, rerank=replace(found.rerank, enabled=False))


def told(retriever: Retriever, text: str, **asked: Any) -> dict[str, Any]:  # noqa: ANN401
    found = dict(NOTES_KIT.answer(retriever, {"queryText": text, "limit": LIMIT, **asked}))
    assert [*found] == ["items", "diagnostics"]
    assert [*found["diagnostics"]] == ["mode", "planner", "rerank"]
    for item in found["items"]:
        assert [*item] == ["sourceRef", "snippet", "score"]
        assert item["snippet"]
    return found


@pytest.mark.slow
def test_path_a_the_model_changes_the_first_hit(searcher: WritingSearcher) -> None:
    reranked = told(searcher.retriever, REWRITTEN)
    plain = told(unranked(searcher), REWRITTEN)
    assert reranked["diagnostics"]["mode"] == "fulltext_reranked"
    assert reranked["diagnostics"]["rerank"]["enabled"] is True
    assert plain["diagnostics"]["rerank"] == {"enabled": False, "reason": "DISABLED"}
    first, before = (
        found["items"][0]["sourceRef"].removeprefix("doc:notes/").split(".md#")[0]
        for found in (reranked, plain)
    )
    assert first in ROUNDING
    assert before not in ROUNDING


@pytest.mark.slow
def test_no_model_keeps_the_order_of_fts(
    searcher: WritingSearcher, without: WritingSearcher
) -> None:
    found, plain = told(without.retriever, REWRITTEN), told(unranked(searcher), REWRITTEN)
    assert found["items"] == plain["items"]
    assert len(found["items"]) == LIMIT
    assert found["diagnostics"]["mode"] == "fulltext"
    assert found["diagnostics"]["rerank"] == {"enabled": False, "reason": "MODEL_NOT_READY"}
    assert searcher.search("sort", 5).served_by == searcher.manifest.fingerprint
    answer = without.search("sort", 5)
    assert len(answer.hits) == 5
    assert answer.served_by != without.manifest.fingerprint
    assert answer.note == "MODEL_NOT_READY"


@pytest.mark.slow
def test_rerank_only_reorders(searcher: WritingSearcher) -> None:
    found = searcher.retriever.find(REWRITTEN)
    plain = unranked(searcher).find(REWRITTEN)
    window = len(found.outcome.order)
    ours, theirs = (sorted(c.chunk.rowid for c in one.ranked[:window]) for one in (found, plain))
    assert ours == theirs
    assert found.ranked[window:] == plain.ranked[window:]
    for text in (REWRITTEN, "array", "sum over an axis"):
        for retriever in (searcher.retriever, unranked(searcher)):
            told = retrieval.scores(retriever.find(text))
            assert list(told) == sorted(told, reverse=True)
            assert all(0 <= score <= 1 for score in told)


@pytest.mark.slow
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


@pytest.mark.slow
def test_hits_of_each_query_and_what_was_selected(searcher: WritingSearcher) -> None:
    found = told(searcher.retriever, "matrix product", limit=3)
    planner = found["diagnostics"]["planner"]
    assert planner["queries"][0] == '"matrix" AND "product"'
    assert planner["queries"][1] == '"matrix product"'
    assert len(planner["queries"]) == 4
    both, in_a_row, _, either = planner["perQueryHits"]
    assert either >= both >= in_a_row > 0
    assert planner["selectedCount"] == len(found["items"]) == 3
    cosines = found["diagnostics"]["rerank"]["scores"]
    assert len(cosines) == 12
    best = max(cosines, key=lambda one: one["score"])
    assert best["sourceRef"] == found["items"][0]["sourceRef"]


@pytest.mark.slow
def test_nothing_typed_finds_nothing_and_says_so(searcher: WritingSearcher) -> None:
    found = told(searcher.retriever, " ?! ")
    nothing = {"queries": [], "perQueryHits": [], "selectedCount": 0}
    assert (found["items"], found["diagnostics"]["planner"]) == ([], nothing)
    assert found["diagnostics"]["rerank"] == {"enabled": False, "reason": "NO_CANDIDATES"}


@pytest.mark.slow
def test_a_note_is_shown_once_by_its_best_chunk(searcher: WritingSearcher) -> None:
    hits = searcher.search("array", 100).hits
    assert len({hit.doc_id for hit in hits}) == len(hits)
    ranked = searcher.retriever.find("array").ranked
    assert hits[0].doc_id == ranked[0].chunk.doc_id
    assert len({c.chunk.doc_id for c in ranked}) < len(ranked)
    near = searcher.retriever.find("polynomial", "roots of a cubic")
    alone = searcher.retriever.find("polynomial")
    assert {c.chunk.rowid for c in alone.ranked} < {c.chunk.rowid for c in near.ranked}


def test_a_search_by_words_alone_does_not_load_what_vectors_need() -> None:
    said = "import sys, harness_engines.stacks.writing.arm; print('numpy' in sys.modules)"
    assert run([sys.executable, "-c", said], capture_output=True, check=True).stdout == b"False\n"
