"""Every filter of specification 003, on both backends, against parts known when they were made."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.records import Document
from harness_engines.stacks.code.reading.documents import understand
from harness_engines.stacks.code.search import CodeSearch
from harness_engines.stacks.code.units import (
    NAMES,
    Chargrams,
    Filters,
    InvalidFilter,
    literals,
    parse,
    passes,
)
from tests.engines.code import anything
from tests.make.code import BACKENDS, opened
from tests.thinned import examples

pytestmark = pytest.mark.slow
MADE = anything.make(seed=11, count=60)
UNITS = [understand(made.document) for made in MADE]
PATHS = Chargrams([made.texts["path"] for made in MADE])
EVERYTHING = len(MADE)
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
    "py",
    ".",
    "util",
    "UTIL",
    "src/",
    "/",
    "a+b",
    "été",
    "ÉTÉ",
    "test_",
    "zz",
    "Make",
    "x",
    "App/u",
)
SIGNATURES = ("read_csv", "(path", ": int", "-> ", "self, ", "axis", "()", "str | none", "|  None")


def values(name: str) -> st.SearchStrategy[str]:
    """Give values that documents have, some that none has, parts of texts, and expressions."""
    if name not in {"file", "path", "signature"}:
        return st.sampled_from(POOL[name])
    known = sorted({made.texts[name] for made in MADE} - {""})
    cut = st.tuples(st.sampled_from(known), st.integers(0, 12), st.integers(1, 9))
    parts = cut.map(lambda drawn: drawn[0][drawn[1] :][: drawn[2]])
    plain = st.sampled_from(SIGNATURES if name == "signature" else PARTS)
    return st.one_of(parts, plain, st.sampled_from(REGEXES)).filter(
        lambda value: value.strip() != "" and value != "//"
    )


@pytest.fixture(scope="module")
def backends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, CodeSearch]]:
    folder = tmp_path_factory.mktemp("filters")
    documents = [made.document for made in MADE]
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(opened(folder, documents, backend=name)) for name in BACKENDS
        }


@pytest.fixture(scope="module")
def unfiltered(backends: Mapping[str, CodeSearch]) -> Mapping[tuple[str, str], frozenset[str]]:
    every = frozenset(made.document.doc_id for made in MADE)
    return {
        (name, text): ids(searcher, text, {}) if text else every
        for name, searcher in backends.items()
        for text in TEXTS
    }


def ids(searcher: CodeSearch, text: str, filters: Filters) -> frozenset[str]:
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
        wanted = {made.document.doc_id for made in MADE if made.passes(name, value)}
        seen.add(len(wanted))
        asked = parse({name: value})
        for backend, searcher in backends.items():
            assert ids(searcher, text, asked) == wanted & unfiltered[backend, text]

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
        for made in MADE
        if all(made.passes(name, value) for name, value in asked.items())
    }
    for backend, searcher in backends.items():
        assert ids(searcher, text, parse(asked)) == wanted & unfiltered[backend, text]


@settings(max_examples=examples(500), deadline=None)
@given(value=values("path"))
def test_a_prefilter_never_drops_what_the_exact_filter_passes(value: str) -> None:
    found = PATHS.narrowed(value)
    exact = {at for at, unit in enumerate(UNITS) if passes(unit, {"path": value})}
    assert found is None or exact <= set(found.tolist())


def test_a_prefilter_does_narrow() -> None:
    found = Chargrams(["src/app/util.py", "tests/x.py", "src/util.py"]).narrowed("util.py")
    assert found is not None
    assert found.tolist() == [0, 2]
    assert literals("/^src.*util?$/") == ["src", "uti"]
    assert literals("/a(b|c)/") == []


def test_what_only_the_prefilter_lets_through_is_looked_at() -> None:
    texts = ["abc-bcd", "abcd"]
    assert Chargrams(texts).narrowed("abcd") is not None
    found = Chargrams(texts).narrowed("abcd")
    assert found is not None
    assert found.tolist() == [0, 1]  # both have abc and bcd; the exact filter tells them apart


def test_the_exact_filter_runs_behind_the_prefilter(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    documents = [
        Document("one", "", "tea", {"path": "abc-bcd"}),
        Document("two", "", "tea", {"path": "abcd"}),
    ]
    with opened(tmp_path_factory.mktemp("exact"), documents) as searcher:
        assert ids(searcher, "tea", {"path": "abcd"}) == {"two"}


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
