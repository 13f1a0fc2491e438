"""Sources put together, boosts, modes, the cut at the top, and what explain says of it all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.records import Document
from harness_engines.stacks.code import ranking, search
from harness_engines.stacks.code.ranking import KEYS, Boosts, Fusion
from harness_engines.stacks.code.reading.documents import understand
from harness_engines.stacks.code.search import CodeSearch
from harness_engines.stacks.code.units import Entry, Mode, Texts, parse
from harness_engines.stacks.code.words import Scored
from tests.engines.code import anything
from tests.make.code import BACKENDS, BLEND, RRF, documents, opened, write_shop
from tests.thinned import examples

pytestmark = pytest.mark.slow
MADE = anything.make(seed=5, count=50)
QUERIES = ("tea", "water tea stone", '"water tea"', "read_csv", "+tea -water", "parse url n", "")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, CodeSearch]]:
    folder = tmp_path_factory.mktemp("ranking")
    every = [one.document for one in MADE]
    with ExitStack() as stack:
        yield {
            f"{backend} {how}": stack.enter_context(
                opened(folder, every, backend=backend, embedder=embedder, search=search)
            )
            for backend in BACKENDS
            for how, search, embedder in (
                ("rrf", RRF, "hash"),
                ("blend", BLEND, "hash"),
                ("words", RRF, ""),
            )
        }


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, CodeSearch]]:
    folder = tmp_path_factory.mktemp("shop")
    found = list(documents(write_shop(folder / "source")))
    with ExitStack() as stack:
        yield {name: stack.enter_context(opened(folder, found, backend=name)) for name in BACKENDS}


def ids(searcher: CodeSearch, text: str, top: int = 100, **filters: str) -> list[str]:
    return [hit.unit.doc_id for hit in searcher.search(text, top, parse(filters)).hits]


@pytest.mark.parametrize("backend", BACKENDS)
def test_both_backends_find_the_same_words(made: Mapping[str, CodeSearch], backend: str) -> None:
    for text in QUERIES:
        assert set(ids(made[f"{backend} words"], text)) == set(ids(made["sqlite words"], text))
    assert ids(made[f"{backend} words"], '"water tea"') != ids(
        made[f"{backend} words"], "water tea"
    )


@settings(max_examples=examples(100), deadline=None)
@given(
    text=st.lists(
        st.sampled_from([*anything.WORDS, "read", "csv", "x"]), min_size=1, max_size=4
    ).map(" ".join)
)
def test_explain_has_the_same_keys_from_every_backend(
    made: Mapping[str, CodeSearch], text: str
) -> None:
    for name, searcher in made.items():
        for hit in searcher.search(text, 20).hits:
            assert hit.why is not None
            said = hit.why.as_dict()
            assert tuple(said) == KEYS
            assert said["selected"] is not None
            assert said["selected"]["score"] == hit.score
            assert (said["rrf"] is None) or not name.endswith("blend") or "modes" in said["rrf"]
            assert said["graph"] is None
    by_backend = [
        {hit.unit.doc_id: _shape(hit.why) for hit in made[f"{backend} rrf"].search(text, 50).hits}
        for backend in BACKENDS
    ]
    assert by_backend[0] == by_backend[1]


def _shape(why: Any) -> dict[str, Any]:  # noqa: ANN401  a breakdown
    """Reduce an explanation to its keys, all the way down."""
    return {key: sorted(part) if part else None for key, part in why.as_dict().items()}


def test_the_keys_are_the_specifications() -> None:
    assert KEYS == ("selected", "sparse", "ann", "rrf", "blend", "symbol", "phrase", "graph")


def test_explain_says_who_found_a_hit(made: Mapping[str, CodeSearch]) -> None:
    first = made["tantivy words"].search("tea", 1, mode=Mode.CODE).hits[0].why
    assert first is not None
    assert first.selected["type"] == "sparse"
    assert first.sparse is not None
    assert first.sparse["backend"] == "tantivy"
    assert first.sparse["weights"] == {"name": 3, "signature": 1, "doc": 2, "comment": 1, "body": 1}
    assert (first.ann, first.rrf, first.blend) == (None, None, None)
    blended = made["sqlite blend"].search("tea", 1, mode=Mode.CODE).hits[0].why
    assert blended is not None
    assert blended.selected["type"] == "blend"
    assert blended.ann is not None
    assert blended.ann["source"] == "dense"


def test_rrf_is_the_sum_over_the_sources() -> None:
    found = ranking.fused(
        {"sparse": [Scored(7, 9.0), Scored(3, 2.0)], "ann": [Scored(3, 0.9)], "minhash": []},
        Fusion.model_validate(RRF),
    )
    assert [one.row for one in found] == [3, 7]
    assert found[0].rrf is not None
    assert found[0].rrf["score"] == pytest.approx(1 / 62 + 1 / 61)
    assert found[0].rrf["ranks"] == {"sparse": 2, "ann": 1}
    assert found[1].score == pytest.approx(0.5)


def test_a_blend_counts_what_a_source_did_not_find_as_nothing() -> None:
    how = {"scoreBlend": {"sparse": 1.0, "ann": 3.0, "minhash": 1.0}}
    found = ranking.fused(
        {"sparse": [Scored(7, 8.0), Scored(3, 2.0)], "ann": [Scored(3, 0.5)]},
        Fusion.model_validate(how),
    )
    assert [(one.row, one.score) for one in found] == [(3, 0.4375), (7, 0.25)]
    assert found[1].blend is not None
    assert found[1].blend["parts"] == {"sparse": 1.0, "ann": 0.0}


def test_one_source_alone_keeps_its_order_and_ties_go_by_row() -> None:
    scored = [Scored(9, 4.0), Scored(5, 2.0), Scored(2, 2.0)]
    found = ranking.fused({"sparse": scored, "ann": []}, Fusion.model_validate(BLEND))
    assert [(one.row, one.score, one.type) for one in found] == [
        (9, 1.0, "sparse"), (2, 0.5, "sparse"), (5, 0.5, "sparse"),
    ]  # fmt: skip


def entry(text: str, **terms: str) -> Entry:
    return Entry(understand(Document("d", "", text)), Texts(**terms))


@pytest.mark.parametrize(
    ("asked", "text", "factor"),
    [
        ("read_csv", "def read_csv(): pass", 1.2 * 1.1),
        ("how to read csv files", "def read_csv(): pass", 1.2 * 1.1),
        ("readCSV", "def read_csv(): pass", 1.2 * 1.1),
        ("_read_csv", "def _read_csv(): pass", 1.2),
        ("read", "def read_csv(): pass", 1.0),
        ("csv read", "def read_csv(): pass", 1.0),
    ],
)
def test_a_symbol_is_boosted_where_the_question_names_it(
    asked: str, text: str, factor: float
) -> None:
    weights = Boosts(definition=1.2, export=1.1, phrase=0.0)
    found = search.boosted(entry(text), search.asked(asked.split(), ()), weights)
    assert found.factor == pytest.approx(factor)
    assert (
        search.boosted(
            entry(text), search.asked(asked.split(), ()), Boosts(definition=1, export=1, phrase=0)
        ).factor
        == 1.0
    )


def test_words_together_are_boosted_up_to_five_pairs() -> None:
    weights = Boosts(definition=1.0, export=1.0, phrase=0.1)
    one = entry("x", doc="a b c d e f g h", body="b a")
    for terms, pairs in (("a b", 1), ("a c", 0), ("b a b", 2), ("a b c d e f g", 5), ("a", 0)):
        found = search.boosted(one, search.asked([], terms.split()), weights)
        assert found.factor == pytest.approx(1 + 0.1 * pairs)
    assert search.most(weights) == 1.5


def test_near_duplicates_are_found_by_what_they_share() -> None:
    texts = [f"a b c d e f g h i j k l m n {x}".split() for x in ("o", "p q r s t u v w")]
    held = np.stack([ranking.row(terms) for terms in (*texts, [], ["o"])])
    found = ranking.nearest(held, texts[0], 0.5, 10, None)
    assert [one.row for one in found] == [0, 1]
    assert found[0].score == 1.0
    assert found[1].score == pytest.approx(12 / 21, abs=0.15)
    assert ranking.nearest(held, texts[0], 0.99, 10, None) == found[:1]
    gated = ranking.nearest(held, texts[0], 0.5, 10, np.array([1, 2]))
    assert gated == found[1:]
    assert ranking.nearest(held, ["a", "b"], 0.1, 10, None) == []


def test_pasted_code_is_found_as_a_near_duplicate(made: Mapping[str, CodeSearch]) -> None:
    pasted = next(one.document for one in MADE if "pickle" in one.document.text)
    hits = made["sqlite words"].search(pasted.text, 5).hits
    found = {hit.unit.doc_id: hit.why for hit in hits}
    why = found[pasted.doc_id]
    assert why is not None
    assert why.ann == {"score": 1.0, "source": "minhash", "minhash": 1.0}


@pytest.mark.parametrize(
    "name", [f"{b} {how}" for b in BACKENDS for how in ("rrf", "blend", "words")]
)
def test_the_top_is_the_head_of_the_whole_and_full_where_there_is_enough(
    made: Mapping[str, CodeSearch], name: str
) -> None:
    for text in QUERIES:
        for filters in ({"lang": "python"}, {"type": "method", "param": "self"}, {"ext": "json"}):
            whole = ids(made[name], text, 1000, **filters)
            for top in (1, 3, 10):
                assert ids(made[name], text, top, **filters) == whole[:top]
                assert len(whole[:top]) == min(top, len(whole))
    assert ids(made[name], "tea", 0, lang="python") == []


def test_more_is_fetched_than_the_depth_where_more_is_asked_for(tmp_path: Path) -> None:
    many = [Document(f"d{at:03d}", "", f"tea number {at}") for at in range(40)]
    with opened(tmp_path, many, depth=1) as searcher:
        assert len(searcher.search("tea", 30).hits) == 30
        assert len(searcher.search("tea", 1000).hits) == 40


@pytest.mark.parametrize("backend", BACKENDS)
def test_filters_gate_before_ranking(shop: Mapping[str, CodeSearch], backend: str) -> None:
    searcher = shop[backend]
    everything = ids(searcher, "price of tea")
    assert len(everything) > 5
    for at, last in enumerate(everything):
        path = last.partition("::")[0].partition("#")[0]
        assert last in ids(searcher, "price of tea", at + 1, path=path)
    assert ids(searcher, "price of tea", 1, path="prices.py", type="method")[0].startswith(
        "shop/prices.py::"
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_mode_is_ranked_by_itself_and_mixed_fuses_by_rank(
    shop: Mapping[str, CodeSearch], backend: str
) -> None:
    searcher = shop[backend]
    by_mode = {
        mode: [hit.unit.doc_id for hit in searcher.search("tea prices name", 100, mode=mode).hits]
        for mode in Mode
    }
    for mode in (Mode.CODE, Mode.PROSE, Mode.RECORDS):
        found = searcher.search("tea prices name", 100, mode=mode).hits
        assert by_mode[mode]
        assert {hit.unit.mode for hit in found} == {mode}
    order = [
        (rank, doc_id)
        for mode in (Mode.CODE, Mode.PROSE, Mode.RECORDS)
        for rank, doc_id in enumerate(by_mode[mode], start=1)
    ]
    assert by_mode[Mode.MIXED] == [doc_id for _, doc_id in sorted(order)]


def test_a_mode_that_weighs_more_comes_first(tmp_path: Path) -> None:
    found = list(documents(write_shop(tmp_path / "source")))
    weights = {"code": 1.0, "prose": 5.0, "records": 1.0}
    with opened(tmp_path, found, modes=weights) as searcher:
        hits = searcher.search("tea prices name", 3).hits
    assert [hit.unit.mode for hit in hits] == [Mode.PROSE] * 3
    assert hits[0].score == 1.0
    assert hits[0].why is not None
    assert hits[0].why.rrf is not None
    assert hits[0].why.rrf["modes"] == {"mode": "prose", "rank": 1, "k": 60, "weight": 5.0}


def test_a_heavier_field_lifts_what_stands_in_it(tmp_path: Path) -> None:
    two = [
        Document("body", "", "def f():\n    kettle = 1\n    return kettle"),
        Document("doc", "", 'def f():\n    """A kettle."""\n    return cup'),
    ]
    light = {"name": 1, "signature": 1, "doc": 1, "comment": 1, "body": 9}
    heavy = {**light, "doc": 9, "body": 1}
    for backend in BACKENDS:
        for fields, first in ((light, "body"), (heavy, "doc")):
            with opened(tmp_path, two, backend=backend, fields=fields) as searcher:
                assert ids(searcher, "kettle")[0] == first


def test_without_a_text_what_passes_is_listed_by_id(made: Mapping[str, CodeSearch]) -> None:
    listed = made["sqlite rrf"].search("", 100, {"lang": "json"}).hits
    assert [hit.unit.doc_id for hit in listed] == sorted(
        one.document.doc_id for one in MADE if "json" in one.known["lang"]
    )
    assert made["sqlite rrf"].search(" ", 100).hits == ()


def test_modes_in_one_ranking_go_by_score(tmp_path: Path) -> None:
    found = list(documents(write_shop(tmp_path / "source")))
    with opened(tmp_path, found, mixed="scores") as by_score:
        shown = by_score.search("prices of a tea", 10).hits
        assert [hit.score for hit in shown] == sorted((hit.score for hit in shown), reverse=True)
        assert shown[0].score > shown[1].score
        modes = {hit.unit.mode for hit in shown}
    assert len(modes) > 1
    heavy = {"code": 1.0, "prose": 0.1, "records": 0.1}
    with opened(tmp_path, found, mixed="scores", modes=heavy) as weighed:
        first = weighed.search("prices of a tea", 10).hits
        codes = [hit for hit in first if hit.unit.mode is Mode.CODE]
        assert list(first[: len(codes)]) == codes
    code = [one for one in found if one.metadata.get("mode") == "code"]
    with opened(tmp_path, code, mixed="scores") as one, opened(tmp_path, code) as other:
        assert one.search("load prices", 10).hits == other.search("load prices", 10).hits
