"""Ranking and filters of code search."""

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from harness.core.records import Document
from harness_engines.stacks.code import ranking, search, units
from harness_engines.stacks.code.ranking import Boosts, Fusion, RankedUnit
from harness_engines.stacks.code.reading.documents import understand
from harness_engines.stacks.code.search import CodeHits, CodeQuestion, CodeSearch
from harness_engines.stacks.code.units import NAMES, Mode, ScoredUnit, parse
from tests.make.code import BACKENDS, BLEND, RRF, documents, opened, write_shop

pytestmark = pytest.mark.slow
MADE = tuple(
    Document(doc_id, "", text.replace("; ", "\n    "), {"path": path, "kind": kind})
    for doc_id, text, path, kind in (
        ("a", "def read_csv(path: str, axis) -> int:; 'Water tea.'; n=1; return os.path.join(path)",
         "src/app/util.py", "function"),
        ("b", "def parse_url(axis) -> str | None:; # tea; eval(axis)", "src/App/M.py", "function"),
        ("c", "def _hidden(n):; 'Stone water'; np.sum(n)", "lib/a+b/main.pyi", "function"),
        ("d", "def merge(self, data) -> list[str]:; got = input(); held = got; pickle.loads(held)",
         "tests/test_util.py", "method"),
        ("e", "tea river water tea", "docs/été", "section"),
        ("f", "stone cloud", ".hidden", "section"),
        ("g", '{"tea": "river", "n": 1}', "x.json", "record"),
    )
)  # fmt: skip
QUERIES = ("tea", "water tea stone", '"water tea"', "read_csv", "+tea -water", "parse url n", "")

HOW = {"rrf": (RRF, "hash"), "blend": (BLEND, "hash"), "words": (RRF, "")}
KEYS = ("selected", "sparse", "ann", "rrf", "blend", "symbol", "phrase", "graph")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, CodeSearch]]:
    folder = tmp_path_factory.mktemp("ranking")
    with ExitStack() as stack:
        yield {
            f"{backend} {how}": stack.enter_context(
                opened(folder, list(MADE), backend=backend, embedder=embedder, search=search)
            )
            for backend in BACKENDS
            for how, (search, embedder) in HOW.items()
        }


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, CodeSearch]]:
    folder = tmp_path_factory.mktemp("shop")
    found = list(documents(write_shop(folder / "source")))
    with ExitStack() as stack:
        yield {name: stack.enter_context(opened(folder, found, backend=name)) for name in BACKENDS}


def ids(searcher: CodeSearch, text: str, top: int = 100, /, **filters: str) -> list[str]:
    return named(searcher, searcher.search(text, top, parse(filters)))


def named(searcher: CodeSearch, found: CodeHits) -> list[str]:
    return [searcher.catalog.doc_ids[hit.row] for hit in found.hits]


def mode_of(searcher: CodeSearch, hit: RankedUnit) -> Mode:
    return searcher.catalog.entry(hit.row).unit.mode


@pytest.mark.parametrize("text", QUERIES)
def test_explain_has_the_same_keys_everywhere(made: Mapping[str, CodeSearch], text: str) -> None:
    for name, searcher in made.items():
        for hit in searcher.search(text, 20).hits:
            said = hit.why.as_dict()
            assert tuple(said) == KEYS
            assert said["selected"] is not None
            assert said["selected"]["score"] == hit.score
            assert (said["rrf"] is None) or not name.endswith("blend") or "modes" in said["rrf"]
    one, other = (
        {
            hit.row: {key: part and sorted(part) for key, part in hit.why.as_dict().items()}
            for hit in made[f"{backend} rrf"].search(text, 50).hits
        }
        for backend in BACKENDS
    )
    assert one == other


def test_explain_says_who_found_a_hit(made: Mapping[str, CodeSearch]) -> None:
    first = made["tantivy words"].search("tea", 1, mode=Mode.CODE).hits[0].why
    assert first.selected["type"] == "sparse"
    assert first.sparse is not None
    assert first.sparse["backend"] == "tantivy"
    assert first.sparse["weights"] == {"name": 3, "signature": 1, "doc": 2, "comment": 1, "body": 1}
    assert (first.ann, first.rrf, first.blend) == (None, None, None)
    blended = made["sqlite blend"].search("tea", 1, mode=Mode.CODE).hits[0].why
    assert blended.selected["type"] == "blend"
    assert blended.ann is not None
    assert blended.ann["source"] == "dense"


def test_rrf_is_the_sum_over_the_sources() -> None:
    words = [ScoredUnit(7, 8.0), ScoredUnit(3, 2.0)]
    sources = {"sparse": words, "ann": [ScoredUnit(3, 0.5)], "minhash": []}
    found = ranking.fused(sources, Fusion.model_validate(RRF))
    assert [one.row for one in found] == [3, 7]
    assert found[0].why.rrf is not None
    assert found[0].why.rrf["score"] == pytest.approx(1 / 62 + 1 / 61)
    assert found[0].why.rrf["ranks"] == {"sparse": 2, "ann": 1}
    assert found[1].score == pytest.approx(0.5)
    how = {"scoreBlend": {"sparse": 1.0, "ann": 3.0, "minhash": 1.0}}
    found = ranking.fused(sources, Fusion.model_validate(how))
    assert [(one.row, one.score) for one in found] == [(3, 0.4375), (7, 0.25)]
    assert found[1].why.blend is not None
    assert found[1].why.blend["parts"] == {"sparse": 1.0, "ann": 0.0}
    scored = [ScoredUnit(9, 4.0), ScoredUnit(5, 2.0), ScoredUnit(2, 2.0)]
    found = ranking.fused({"sparse": scored, "ann": []}, Fusion.model_validate(BLEND))
    assert [(one.row, one.score, one.why.selected["type"]) for one in found] == [
        (9, 1.0, "sparse"), (2, 0.5, "sparse"), (5, 0.5, "sparse"),
    ]  # fmt: skip


def entry(text: str, **terms: str) -> units.IndexedUnit:
    return units.IndexedUnit(understand(Document("d", "", text)), units.UnitTexts(**terms))


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
        found, _ = search.boosted(entry(text), CodeQuestion.of(asked, "none"), weights)
        assert found == pytest.approx(expected)


def test_words_together_are_boosted_up_to_five_pairs() -> None:
    weights = Boosts(definition=1.0, export=1.0, phrase=0.1)
    one = entry("x", doc="a b c d e f g h", body="b a")
    for terms, pairs in (("a b", 1), ("a c", 0), ("b a b", 2), ("a b c d e f g", 5), ("a", 0)):
        found, _ = search.boosted(one, CodeQuestion.of(terms, "none"), weights)
        assert found == pytest.approx(1 + 0.1 * pairs)
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


@pytest.mark.parametrize("name", [f"{backend} {how}" for backend in BACKENDS for how in HOW])
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
    (first,) = ids(searcher, "price of tea", 1, path="prices.py", type="method")
    assert first.startswith("shop/prices.py::")


@pytest.mark.parametrize("backend", BACKENDS)
def test_mixed_modes_fuse_by_rank(shop: Mapping[str, CodeSearch], backend: str) -> None:
    searcher = shop[backend]
    by_mode = {
        mode: named(searcher, searcher.search("tea prices name", 100, mode=mode)) for mode in Mode
    }
    for mode in (Mode.CODE, Mode.PROSE, Mode.RECORDS):
        found = searcher.search("tea prices name", 100, mode=mode).hits
        assert by_mode[mode]
        assert {mode_of(searcher, hit) for hit in found} == {mode}
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
        assert [mode_of(searcher, hit) for hit in hits] == [Mode.PROSE] * 3
    assert hits[0].score == 1.0
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
    assert ids(made["sqlite rrf"], "", lang="python") == ["a", "b", "c", "d"]
    assert made["sqlite rrf"].search(" ", 100).hits == ()


def test_modes_in_one_ranking_go_by_score(tmp_path: Path) -> None:
    found = list(documents(write_shop(tmp_path / "source")))
    with opened(tmp_path, found, mixed="scores") as by_score:
        shown = by_score.search("prices of a tea", 10).hits
        assert [hit.score for hit in shown] == sorted((hit.score for hit in shown), reverse=True)
        assert shown[0].score > shown[1].score
        modes = {mode_of(by_score, hit) for hit in shown}
    assert len(modes) > 1
    heavy = {"code": 1.0, "prose": 0.1, "records": 0.1}
    with opened(tmp_path, found, mixed="scores", modes=heavy) as weighed:
        first = weighed.search("prices of a tea", 10).hits
        codes = [hit for hit in first if mode_of(weighed, hit) is Mode.CODE]
        assert list(first[: len(codes)]) == codes
    code = [one for one in found if one.metadata.get("mode") == "code"]
    with opened(tmp_path, code, mixed="scores") as one, opened(tmp_path, code) as other:
        assert one.search("load prices", 10).hits == other.search("load prices", 10).hits


FOUND = {
    "lang": {"PYTHON": "abcd", "json": "g", "java": ""},
    "ext": {".py": "abd", "pyi": "c", "json": "g"},
    "file": {"ut": "ad", "util": "ad", "/^test_/": "d"},
    "path": {"src/A": "ab", "/(app|lib)[/]/": "ac", "a+b": "c"},
    "type": {"Function": "abc", "method": "d", "section": "ef", "record": "g"},
    "signature": {"(p": "a", "(path": "a", "/-> (int|str)$/": "a", "str | none": "b"},
    "risk": {"low": "bd", "medium": "bd", "HIGH": "d"},
    "risk_tag": {"user-input": "d", "code-execution": "b"},
    "risk_source": {"input": "d"},
    "risk_sink": {"eval": "b", "loads": "", "pickle.loads": "d"},
    "risk_category": {"Injection": "bd", "input": "d"},
    "risk_flow": {"input->pickle.loads": "d", "input": ""},
    "inferred_type": {"INT": "a", "str": "a"},
    "return_type": {"int": "a", "str  |  None": "b", "LIST[str]": "d"},
    "param": {"AXIS": "ab", "tea": "g"},
    "uses": {"os.path": "a", "join": "a", "got": "d"},
    "calls": {"os.path.join": "a", "Join": "a", "sum": "c", "os": ""},
}
"""Ids of what passes, by the name of a filter and what is asked for."""


@pytest.fixture(scope="module")
def unfiltered(made: Mapping[str, CodeSearch]) -> Mapping[tuple[str, str], set[str]]:
    return {
        (f"{name} words", text): {*ids(made[f"{name} words"], text)} if text else {*"abcdefg"}
        for name in BACKENDS
        for text in QUERIES
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_filter_chooses_what_a_brute_force_reading_chooses(
    name: str, made: Mapping[str, CodeSearch], unfiltered: Mapping[tuple[str, str], set[str]]
) -> None:
    for (value, passing), (how, text) in product(FOUND[name].items(), unfiltered):
        found = {*ids(made[how], text, 100, **{name: value})}
        assert found == unfiltered[how, text] & {*passing}, (value, text)


def test_filters_are_anded(
    made: Mapping[str, CodeSearch], unfiltered: Mapping[tuple[str, str], set[str]]
) -> None:
    asked = [(how, text) for how, text in unfiltered if text in {"water tea stone", ""}]
    for (name, other), (how, text) in product(combinations(NAMES, 2), asked):
        (one, some), (two, more) = (next(iter(FOUND[key].items())) for key in (name, other))
        passing = {*some} & {*more} & unfiltered[how, text]
        found = {*ids(made[how], text, 100, **{name: one, other: two})}
        assert found == passing, (name, other, text)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"colour": "red"}, "no filter colour; there is lang, ext"),
        ({"lang": "  "}, "lang: is empty"),
        ({"risk": "severe"}, "name low, medium, high"),
        ({"path": "/(/"}, "path: /(/: no regular expression of RE2"),
        ({"path": f"/{'a' * 300}/"}, "path: a regular expression has at most 200 characters"),
        ({"risk_tag": "sql", "--risk-tag": "sql"}, "is given twice"),
    ],
)
def test_a_bad_filter_is_an_error_that_says_what_to_do(params: dict[str, str], said: str) -> None:
    with pytest.raises(units.InvalidFilter, match=re.escape(said)):
        parse(params)


def test_filters_are_read_as_people_write_them() -> None:
    assert parse({"--risk-tag": "sql", "lang": None}) == {"risk_tag": "sql"}
    assert FOUND.keys() == {*NAMES}
