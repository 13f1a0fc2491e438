"""Operators hold for every hit of every stack: what finds it, and what unions it went through."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from harness.core.engine import Engine, Searcher
from harness.core.records import Document
from harness_engines import registry as arms
from harness_engines.stacks.code import arm as code
from harness_engines.stacks.documents import arm as documents
from harness_engines.stacks.text import blend, dense, fts5, hybrid, tantivy
from harness_engines.stacks.writing import arm as writing
from tests.make.code import BLEND, SETTINGS
from tests.make.notes import SETTINGS as NOTES

BOTH, BUDGET, TRAVEL, PLAN = "both", "budget", "travel", "plan"
TEXTS = {
    BOTH: "The budget for travel is spent.",
    BUDGET: "The yearly budget and its costs.",
    TRAVEL: "To travel by train, whatever the budgeted hour.",
    PLAN: "Deploy the release plan on Monday, then plan the next release.",
    "reverse": "A plan of release notes, and costs.",
}
DOCUMENTS = tuple(Document(doc_id, "", text) for doc_id, text in TEXTS.items())
WORDS = {"tier": "free", "embedder": "", "sparse": "", "max_tokens": 64}
FORMULA = {"fusion": "specification"}


def of_file(name: str) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((arms.FOLDER / f"{name}.toml").read_text())["settings"]
    return found


def engine(name: str, cache: Path) -> Engine:
    """Make one small engine of each stack that knows words; vectors are hashes."""
    if name == "writing":
        return writing.engine({**NOTES, "rerank": False}, cache)
    if name == "documents":
        return documents.engine({**WORDS, **FORMULA}, cache)
    if name.startswith("code"):
        backend = name.removeprefix("code over ")
        return code.engine(
            {**SETTINGS, "backend": backend, "embedder": "hash", "search": BLEND}, cache
        )
    given = of_file(name)
    if name == "hybrid-rrf":
        given["legs"]["semantic"]["settings"]["embedder"] = "hash"
    made = {"dense": dense.engine, "hash-hybrid": blend.engine, "hybrid-rrf": hybrid.engine}
    lexical = fts5.engine if name.startswith("fts5") else tantivy.engine
    return made.get(name, lexical)(given | ({"embedder": "hash"} if name == "dense" else {}), cache)


@pytest.fixture(
    scope="module",
    params=[
        *("fts5", "fts5-porter", "tantivy", "tantivy-stem", "hash-hybrid", "hybrid-rrf", "dense"),
        *("writing", "documents", "code over sqlite", "code over tantivy"),
    ],
)
def searcher(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Searcher]:
    made = engine(request.param, tmp_path_factory.mktemp("cache"))
    index = tmp_path_factory.mktemp("index")
    made.build(DOCUMENTS, index)
    with ExitStack() as stack:
        yield stack.enter_context(made.open(index))


def shown(searcher: Searcher, text: str) -> set[str]:
    return {hit.doc_id for hit in searcher.search(text, 10).hits}


def test_a_refusal_alone_gives_what_lacks_the_word_in_each_stack(searcher: Searcher) -> None:
    assert shown(searcher, "-deploy") == set(TEXTS) - {PLAN}
    assert shown(searcher, "-travel -release") == {BUDGET}


def test_what_is_refused_is_never_shown(searcher: Searcher) -> None:
    for text in ("budget -travel", "budget costs -travel"):
        found = shown(searcher, text)
        assert BUDGET in found
        assert not found & {BOTH, TRAVEL}


def test_what_must_be_there_is_there_in_each_stack(searcher: Searcher) -> None:
    found = shown(searcher, "+travel budget costs")
    assert BOTH in found
    assert found <= {BOTH, TRAVEL}
    assert shown(searcher, "+nowhere budget") == set()


def test_a_phrase_holds_after_every_union(searcher: Searcher) -> None:
    assert shown(searcher, '+"release plan"') == {PLAN}
    assert PLAN not in shown(searcher, 'release plan -"release plan"')


def test_a_phrase_alone_is_in_all_that_is_found(searcher: Searcher) -> None:
    assert shown(searcher, '"release plan"') == {PLAN}
    assert shown(searcher, '"plan of release"') == {"reverse"}
    assert shown(searcher, '"release plan" -monday') == set()
