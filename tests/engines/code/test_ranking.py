"""Ranking and filters of code search."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
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
from harness_engines.stacks.code.units import (
    NAMES,
    Chargrams,
    Filters,
    IndexedUnit,
    InvalidFilter,
    Mode,
    UnitTexts,
    literals,
    parse,
    passes,
)
from harness_engines.stacks.code.words import ScoredUnit
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


@settings(max_examples=examples(100), deadline=None)
@given(
    text=st.lists(
        st.sampled_from([*anything.WORDS, "read", "csv", "x"]), min_size=1, max_size=4
    ).map(" ".join)
)
def test_explain_has_the_same_keys_everywhere(made: Mapping[str, CodeSearch], text: str) -> None:
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


def test_explain_says_who_found_a_hit(made: Mapping[str, CodeSearch]) -> None:
    assert KEYS == ("selected", "sparse", "ann", "rrf", "blend", "symbol", "phrase", "graph")
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
        {
            "sparse": [ScoredUnit(7, 9.0), ScoredUnit(3, 2.0)],
            "ann": [ScoredUnit(3, 0.9)],
            "minhash": [],
        },
        Fusion.model_validate(RRF),
    )
    assert [one.row for one in found] == [3, 7]
    assert found[0].rrf is not None
    assert found[0].rrf["score"] == pytest.approx(1 / 62 + 1 / 61)
    assert found[0].rrf["ranks"] == {"sparse": 2, "ann": 1}
    assert found[1].score == pytest.approx(0.5)
    how = {"scoreBlend": {"sparse": 1.0, "ann": 3.0, "minhash": 1.0}}
    found = ranking.fused(
        {"sparse": [ScoredUnit(7, 8.0), ScoredUnit(3, 2.0)], "ann": [ScoredUnit(3, 0.5)]},
        Fusion.model_validate(how),
    )
    assert [(one.row, one.score) for one in found] == [(3, 0.4375), (7, 0.25)]
    assert found[1].blend is not None
    assert found[1].blend["parts"] == {"sparse": 1.0, "ann": 0.0}
    scored = [ScoredUnit(9, 4.0), ScoredUnit(5, 2.0), ScoredUnit(2, 2.0)]
    found = ranking.fused({"sparse": scored, "ann": []}, Fusion.model_validate(BLEND))
    assert [(one.row, one.score, one.type) for one in found] == [
        (9, 1.0, "sparse"), (2, 0.5, "sparse"), (5, 0.5, "sparse"),
    ]  # fmt: skip


def entry(text: str, **terms: str) -> IndexedUnit:
    return IndexedUnit(understand(Document("d", "", text)), UnitTexts(**terms))


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
def test_a_symbol_named_is_boosted(asked: str, text: str, factor: float) -> None:
    for definition, export, expected in ((1.2, 1.1, factor), (1.0, 1.0, 1.0)):
        weights = Boosts(definition=definition, export=export, phrase=0.0)
        found = search.boosted(entry(text), search.asked(asked.split(), ()), weights)
        assert found.factor == pytest.approx(expected)


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
def test_the_top_is_the_head_of_the_whole(made: Mapping[str, CodeSearch], name: str) -> None:
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
def test_mixed_modes_fuse_by_rank(shop: Mapping[str, CodeSearch], backend: str) -> None:
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


MADE_FILTERS = anything.make(seed=11, count=60)
UNITS = [understand(made.document) for made in MADE_FILTERS]
PATHS = Chargrams([made.texts["path"] for made in MADE_FILTERS])
EVERYTHING = len(MADE_FILTERS)
TEXTS = ("", *anything.WORDS, "water tea", "read_csv", "json", "-tea water")
REGEXES = (
    "/^src/", "/util/", "/tes?t_/", "/[Aa]pp/", "/(a|b)[.]/", "/_+u/", "/.y$/", "/a\\+b/",
    "/x*util/",
    "/(?i)APP/", "/é.é/", "/-> (int|str)/", "/path: s.r/", "/app.util/", "/ -> /", "/\\d/",
)  # fmt: skip
POOL: Mapping[str, tuple[str, ...]] = {
    "lang": ("python", "PYTHON", "json", "markdown", "java"),
    "ext": ("py", ".py", "PY", "json", "pyi", "hidden"),
    "type": ("function", "method", "section", "record", "class", "Function"),
    "risk": ("low", "medium", "high", "HIGH"),
    "risk_tag": ("user-input", "code-execution", "deserialization", "sql"),
    "risk_source": ("input", "os.environ"),
    "risk_sink": ("eval", "pickle.loads", "exec", "loads"),
    "risk_category": ("input", "injection", "Injection", "files"),
    "risk_flow": ("input->pickle.loads", "input->eval", "input"),
    "inferred_type": (*anything.TYPES, "DataFrame", "INT"),
    "return_type": ("int", "list[str]", "LIST[STR]", "str  |  None", "str", "None"),
    "param": (*anything.PARAMS, "PATH", "tea", "water", "missing"),
    "uses": ("os", "os.path", "path", "join", "str", "list", "got", "HELPER", "None"),
    "calls": ("os.path.join", "join", "Join", "helper", "np.sum", "sum", "os", "input", "eval"),
}
PARTS = (
    *("py", ".", "util", "UTIL", "src/", "/", "a+b", "été", "ÉTÉ", "test_", "zz", "Make", "x"),
    "App/u",
)
SIGNATURES = ("read_csv", "(path", ": int", "-> ", "self, ", "axis", "()", "str | none", "|  None")


def values(name: str) -> st.SearchStrategy[str]:
    """Give values that documents have, some that none has, parts of texts, and expressions."""
    if name not in {"file", "path", "signature"}:
        return st.sampled_from(POOL[name])
    known = sorted({made.texts[name] for made in MADE_FILTERS} - {""})
    cut = st.tuples(st.sampled_from(known), st.integers(0, 12), st.integers(1, 9))
    parts = cut.map(lambda drawn: drawn[0][drawn[1] :][: drawn[2]])
    plain = st.sampled_from(SIGNATURES if name == "signature" else PARTS)
    return st.one_of(parts, plain, st.sampled_from(REGEXES)).filter(
        lambda value: value.strip() != "" and value != "//"
    )


@pytest.fixture(scope="module")
def backends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, CodeSearch]]:
    folder = tmp_path_factory.mktemp("filters")
    documents = [made.document for made in MADE_FILTERS]
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(opened(folder, documents, backend=name)) for name in BACKENDS
        }


@pytest.fixture(scope="module")
def unfiltered(backends: Mapping[str, CodeSearch]) -> Mapping[tuple[str, str], frozenset[str]]:
    every = frozenset(made.document.doc_id for made in MADE_FILTERS)
    return {
        (name, text): ids_filters(searcher, text, {}) if text else every
        for name, searcher in backends.items()
        for text in TEXTS
    }


def ids_filters(searcher: CodeSearch, text: str, filters: Filters) -> frozenset[str]:
    return frozenset(hit.unit.doc_id for hit in searcher.search(text, EVERYTHING, filters).hits)


@pytest.mark.parametrize("name", NAMES)
def test_a_filter_chooses_what_a_brute_force_reading_chooses(
    name: str,
    backends: Mapping[str, CodeSearch],
    unfiltered: Mapping[tuple[str, str], frozenset[str]],
) -> None:
    seen: set[int] = set()

    @settings(max_examples=examples(500), deadline=None, database=None)
    @given(value=values(name), text=st.sampled_from(TEXTS))
    def holds(value: str, text: str) -> None:
        wanted = {made.document.doc_id for made in MADE_FILTERS if made.passes(name, value)}
        seen.add(len(wanted))
        asked = parse({name: value})
        for backend, searcher in backends.items():
            assert ids_filters(searcher, text, asked) == wanted & unfiltered[backend, text]

    holds()
    assert len(seen) > 1
    assert max(seen) > 0


@settings(max_examples=examples(500), deadline=None, database=None)
@given(
    asked=st.lists(st.sampled_from(NAMES), min_size=2, max_size=4, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: values(name) for name in names})
    ),
    text=st.sampled_from(TEXTS),
)
def test_filters_are_anded(
    backends: Mapping[str, CodeSearch],
    unfiltered: Mapping[tuple[str, str], frozenset[str]],
    asked: dict[str, str],
    text: str,
) -> None:
    wanted = {
        made.document.doc_id
        for made in MADE_FILTERS
        if all(made.passes(name, value) for name, value in asked.items())
    }
    for backend, searcher in backends.items():
        assert ids_filters(searcher, text, parse(asked)) == wanted & unfiltered[backend, text]


@settings(max_examples=examples(500), deadline=None)
@given(value=values("path"))
def test_a_prefilter_never_drops_what_the_exact_filter_passes(value: str) -> None:
    found = PATHS.narrowed(value)
    exact = {at for at, unit in enumerate(UNITS) if passes(unit, {"path": value})}
    assert found is None or exact <= set(found.tolist())


def test_the_exact_filter_follows_the_prefilter(tmp_path_factory: pytest.TempPathFactory) -> None:
    found = Chargrams(["src/app/util.py", "tests/x.py", "src/util.py"]).narrowed("util.py")
    assert found is not None
    assert found.tolist() == [0, 2]
    assert literals("/^src.*util?$/") == ["src", "uti"]
    assert literals("/a(b|c)/") == []
    texts = ["abc-bcd", "abcd"]
    assert Chargrams(texts).narrowed("abcd") is not None
    found = Chargrams(texts).narrowed("abcd")
    assert found is not None
    assert found.tolist() == [0, 1]  # both have abc and bcd; the exact filter tells them apart
    documents = [
        Document("one", "", "tea", {"path": "abc-bcd"}),
        Document("two", "", "tea", {"path": "abcd"}),
    ]
    with opened(tmp_path_factory.mktemp("exact"), documents) as searcher:
        assert ids_filters(searcher, "tea", {"path": "abcd"}) == {"two"}


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"colour": "red"}, "no filter colour; there is lang, ext"),
        ({"lang": "  "}, "lang: is empty"),
        ({"ext": "."}, "ext: is empty"),
        ({"risk": "severe"}, "name low, medium, high"),
        ({"path": "/(/"}, "path: /(/: no regular expression of RE2"),
        ({"path": "/(?=a)b/"}, "RE2 has no lookaround and no backreferences"),
        ({"path": "/((a{1000}){1000}){1000}/"}, "invalid repetition size"),
        ({"path": "/\ud800/"}, "surrogates not allowed"),
        ({"path": f"/{'a' * 300}/"}, "path: a regular expression has at most 200 characters"),
        ({"risk_tag": "sql", "--risk-tag": "sql"}, "is given twice"),
    ],
)
def test_a_bad_filter_is_an_error_that_says_what_to_do(params: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidFilter, match=re.escape(said)):
        parse(params)


@pytest.mark.parametrize("expression", ["/^(a+)+$/", "/(a|aa|aaa)+$/", "/(.*a){12}b/"])
def test_no_expression_takes_longer_than_its_text(expression: str) -> None:
    made = UNITS[0]
    hostile = replace(made, facts=replace(made.facts, signature="a" * 26 + "!"))
    since = time.process_time()
    assert not passes(hostile, {"signature": expression})
    assert time.process_time() - since < 0.5


def test_filters_are_read_as_people_write_them() -> None:
    assert parse({"--risk-tag": "sql", "lang": None}) == {"risk_tag": "sql"}
    assert set(NAMES) == {
        "lang", "ext", "file", "path", "type", "signature", "risk", "risk_tag", "risk_source",
        "risk_sink", "risk_category", "risk_flow", "inferred_type", "return_type", "param", "uses",
        "calls",
    }  # fmt: skip
