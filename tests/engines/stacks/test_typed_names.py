"""Names with signs, elided words, versions, mail addresses and hosts, in every word index.

Each is found first where it stands as it was typed, and what it begins or ends with is found too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from harness.core.engine import Searcher
from harness.core.records import Document
from harness_engines import registry
from tests.engines.stacks.test_meaning import engine

TEXTS = {
    "c": "A letter C, a grade of C, and C once more.",
    "c-plus": "Templates of C++ are read twice by a compiler.",
    "c-plus-new": "A loop of C++17 reads what it shows.",
    "c-sharp": "Whoever writes C# is wanted in Bergen.",
    "net": "A net of ropes, and a net of wire.",
    "dot-net": "Programs of .NET need a runtime, and somebody who keeps it.",
    "ignored": "Names in .gitignore are left out.",
    "ignore": "A gitignore is no gitignore where nobody reads it.",
    "elided": "Toute la ville regarde l'avion qui passe au loin.",
    "curly": "Le bruit de l\u2019avion r\u00e9veille les enfants du quartier.",
    "bare": "Un avion bleu, un avion rouge.",
    "version": "With release 2.4.1 the daemon starts by itself.",
    "numbers": "Take 4 of them, or 2, or 1, with a release.",
    "address": "Write to jane.doe@corp.example before noon.",
    "words": "Jane met a doe; a corp is no example, an example no corp, says Jane.",
    "host": "Apply at forms.corp.example for leave.",
    "forms": "An example of a corp that has forms, and forms.",
    "fifth": "Numbers from .5 to 5.",
}
DOCUMENTS = tuple(Document(doc_id, "", text) for doc_id, text in TEXTS.items())
ARMS = (
    *("fts5", "fts5-porter", "tantivy", "tantivy-stem", "writing", "documents"),
    *("code over sqlite", "code over tantivy", "mail-fts5", "mail-tantivy"),
)
FIRST = {
    "C#": "c-sharp",
    "c#": "c-sharp",
    "C++17": "c-plus-new",
    ".NET": "dot-net",
    ".net,": "dot-net",
    ".gitignore": "ignored",
    "l\u2019avion bruit": "curly",
    "2.4.1": "version",
    "jane.doe@corp.example": "address",
    "forms.corp.example": "host",
}


@pytest.fixture(scope="module", params=ARMS)
def searcher(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Searcher]:
    name, cache = request.param, tmp_path_factory.mktemp("cache")
    mail = name.startswith("mail")
    made = registry.load(name, cache).engine if mail else engine(name, cache)
    index = tmp_path_factory.mktemp("index")
    made.build(DOCUMENTS, index)
    with ExitStack() as stack:
        yield stack.enter_context(made.open(index))


def shown(searcher: Searcher, text: str) -> list[str]:
    return [hit.doc_id for hit in searcher.search(text, 30).hits]


@pytest.mark.parametrize("typed", FIRST)
def test_a_name_is_found_first_where_it_stands_as_typed(searcher: Searcher, typed: str) -> None:
    assert shown(searcher, typed)[:1] == [FIRST[typed]]


def test_each_text_with_the_sign_comes_before_those_with_the_letter(searcher: Searcher) -> None:
    assert set(shown(searcher, "C++")[:2]) == {"c-plus", "c-plus-new"}


def test_a_sign_that_is_demanded_or_refused_is_part_of_the_name(searcher: Searcher) -> None:
    assert shown(searcher, "+C#") == ["c-sharp"]
    assert set(shown(searcher, "-C++")) == set(TEXTS) - {"c-plus", "c-plus-new"}
    assert set(shown(searcher, "net -.NET")) == {"net"}


def test_an_elided_word_is_found_with_and_without_its_article(searcher: Searcher) -> None:
    every = {"elided", "curly", "bare"}
    for typed in ("avion", "l'avion", "l\u2019avion", "+l'avion", "L'AVION"):
        assert set(shown(searcher, typed)) == every, typed
    assert set(shown(searcher, "l'avion")[:2]) == every - {"bare"}
    assert set(shown(searcher, "-l'avion")) == set(TEXTS) - every
