"""Generated queries of AND, OR, NOT and parentheses find what they say, in every stack.

Each query is made beside a rule over the words of a document, so nothing here reads the query. An
arm that ranks by vectors may leave documents out that share nothing with the query; it never shows
one that the rule refuses.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path
from shutil import which
from typing import NamedTuple

import pytest

from harness.core.engine import Searcher
from harness.core.records import Document
from harness_engines import registry
from tests.engines.stacks.test_operators import engine
from tests.source import ROOT
from tests.thinned import examples

pytestmark = pytest.mark.slow
WORDS = ("ant", "bee", "cat", "dog", "eel")
HELD = {
    f"d{at}": frozenset(some)
    for at, some in enumerate(c for size in range(5) for c in combinations(WORDS[:4], size))
}
DOCUMENTS = tuple(Document(d, "", " ".join([*sorted(held), "sea"])) for d, held in HELD.items())
SETS = ("fts5", "fts5-porter", "tantivy", "tantivy-stem", "mail-fts5", "mail-tantivy", "writing")
PARTS = ("documents", "code over sqlite", "code over tantivy")
"""Show what the rule allows and has a word that is looked for."""
VECTORS = ("dense", "hash-hybrid", "hybrid-rrf")
OUTSIDE = {"lucene": "lucene/lucene.toml", "postgres": "postgres/postgres.toml"}
Rule = Callable[[frozenset[str]], bool]


class Asked(NamedTuple):
    """A query, how close its operator binds, what it means, and the words it looks for or not."""

    text: str
    binds: int
    rule: Rule
    wanted: frozenset[str]
    refused: frozenset[str] = frozenset()


def within(one: Asked, binds: int) -> str:
    return one.text if one.binds >= binds else f"({one.text})"


def made(rng: random.Random, deep: int) -> Asked:
    """Make a query; parentheses stand only where its meaning needs them."""
    if not deep or rng.random() < 0.25:
        word = rng.choice(WORDS)
        return Asked(word, 3, lambda held: word in held, frozenset({word}))
    a, b = made(rng, deep - 1), made(rng, deep - 1)
    both = a.wanted | b.wanted, a.refused | b.refused
    match rng.choice(("AND", "OR", "NOT", "AND NOT")):
        case "AND":
            text = f"{within(a, 2)} AND {within(b, 2)}"
            return Asked(text, 1, lambda held: a.rule(held) and b.rule(held), *both)
        case "OR":
            text = f"{within(a, 0)} OR {within(b, 0)}"
            return Asked(text, 0, lambda held: a.rule(held) or b.rule(held), *both)
        case "NOT":
            text = f"NOT {within(a, 2)}"
            return Asked(text, 1, lambda held: not a.rule(held), a.refused, a.wanted)
    text, but = (
        f"{within(a, 2)} AND NOT {within(b, 2)}",
        (a.wanted | b.refused, a.refused | b.wanted),
    )
    return Asked(text, 1, lambda held: a.rule(held) and not b.rule(held), *but)


def queries(many: int) -> list[Asked]:
    rng = random.Random(20261128)
    return [made(rng, rng.randint(1, 4)) for _ in range(many)]


@pytest.fixture(scope="module", params=[*SETS, *PARTS, *VECTORS, *OUTSIDE])
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Searcher]]:
    name, cache = request.param, tmp_path_factory.mktemp("cache")
    if name == "lucene" and not (which("java") and [*Path("/usr/share/java").glob("lucene-c*")]):
        pytest.skip("needs Lucene: apt-get install default-jre-headless liblucene8-java")
    outside = OUTSIDE.get(name)
    if outside or name.startswith("mail"):
        arm = str(ROOT / "examples" / outside) if outside else name
        found = registry.load(arm, cache).engine
    else:
        found = engine(name, cache)
    index = tmp_path_factory.mktemp("index")
    found.build(DOCUMENTS, index)
    with ExitStack() as stack:
        yield name, stack.enter_context(found.open(index))


def test_a_query_finds_what_it_says(opened: tuple[str, Searcher]) -> None:
    name, searcher = opened
    for asked in queries(examples(1_000)):
        shown = {hit.doc_id for hit in searcher.search(asked.text, 100).hits}
        allowed = {doc_id for doc_id, held in HELD.items() if asked.rule(held)}
        assert shown <= allowed, asked.text
        if name in SETS or name in OUTSIDE:
            assert shown == allowed, asked.text
        if name in PARTS:
            assert shown >= {d for d in allowed if HELD[d] & (asked.wanted or HELD[d])}, asked.text


def test_the_beginning_of_a_word_finds_what_begins_so(opened: tuple[str, Searcher]) -> None:
    name, searcher = opened
    for text, word in (("be*", "bee"), ("+do* se*", "dog"), ("se* -ca*", "")):
        shown = {hit.doc_id for hit in searcher.search(text, 100).hits}
        meant = {d for d, held in HELD.items() if (word in held if word else "cat" not in held)}
        assert shown <= meant or (name in VECTORS and text == "be*"), text
        assert shown >= meant or name in VECTORS, text


def test_an_operator_that_binds_nothing_is_a_word(opened: tuple[str, Searcher]) -> None:
    _, searcher = opened
    rng = random.Random(20261129)

    def shown(text: str) -> set[str]:
        return {hit.doc_id for hit in searcher.search(text, 100).hits}

    for asked in queries(examples(1_000)):
        before = rng.choice(("", "", "AND ", "OR "))
        behind = rng.choice((" AND", " OR", " NOT", " AND NOT", " OR AND"))
        said = shown(f"{before}{asked.text}{behind}")
        assert said == shown(f"{before.lower()}{asked.text}{behind.lower()}"), asked.text
        if "NOT" not in asked.text:
            assert said >= shown(asked.text), asked.text
