"""What is typed means the same to FTS5 and to Tantivy: the same documents match.

The corpus holds every combination of three words, in every order, so that any difference in how
OR, AND, NOT, signs, phrases and joined words are understood changes the set that matches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, combinations, permutations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.core.engine import Engine, Searcher
from harness.core.records import Document
from harness_engines.lexical.grammar import mask, parse
from harness_engines.lexical.terms import Clause
from harness_engines.stacks.text import fts5, tantivy
from tests.thinned import examples

pytestmark = pytest.mark.slow
WORDS = ("ant", "bee", "cat")
TEXTS = [
    list(order)
    for size in range(4)
    for some in combinations(WORDS, size)
    for order in permutations(some)
]
DOCUMENTS = tuple(
    Document(f"{'-'.join(title)}|{'-'.join(text)}", " ".join(title), " ".join(text))
    for title, text in chain(
        (([], text) for text in TEXTS), ((text, ["dog"]) for text in TEXTS), [(["ant"], ["bee"])]
    )
)
JOINED = ("phrase", "words", "both")


def engines(joined: str) -> Mapping[str, Engine]:
    usual = {"title_weight": 2.0, "text_weight": 1.0, "joined": joined}
    return {
        "fts5": fts5.engine({**usual, "tokenize": "unicode61"}, None),  # type: ignore[arg-type]  # keeps nothing
        **{
            f"tantivy over {over}": tantivy.engine(
                {**usual, "language": "none", "bm25_over": over},
                None,  # type: ignore[arg-type]  # keeps nothing
            )
            for over in ("document", "fields")
        },
    }


@dataclass(frozen=True)
class Opened:
    """One setting of ``joined``, in every lexical engine."""

    joined: str
    searchers: Mapping[str, Searcher]

    def matched(self, text: str) -> dict[str, frozenset[str]]:
        """Documents that each engine shows."""
        return {
            name: frozenset(hit.doc_id for hit in searcher.search(text, 1_000).hits)
            for name, searcher in self.searchers.items()
        }


@pytest.fixture(scope="module", params=JOINED)
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    with ExitStack() as stack:
        searchers = {}
        for name, engine in engines(request.param).items():
            folder = tmp_path_factory.mktemp("index")
            engine.build(DOCUMENTS, folder)
            searchers[name] = stack.enter_context(engine.open(folder))
        yield Opened(request.param, searchers)


def has(document: Document, clause: Clause, joined: str) -> bool:
    """Say by looking at it whether a document satisfies a clause."""
    fields = [document.title.split(), document.text.split()]
    words = [word.lower() for word in clause.words]
    if clause.begun:
        return any(word.startswith(words[0]) for field in fields for word in field)
    phrase = any(
        field[at : at + len(words)] == words for field in fields for at in range(len(field))
    )
    if clause.quoted or joined == "phrase":
        return phrase
    return phrase or any(word in field for word in words for field in fields)


def by_definition(text: str, joined: str) -> frozenset[str]:
    """Documents that ought to match: all that must, none that must not, else any that may.

    A text of refusals alone means all that it does not refuse.
    """
    tree = parse(text)
    every = DOCUMENTS if tree.parts else ()
    return frozenset(
        one.doc_id
        for one in every
        if mask(tree, lambda clause: has(one, clause, joined), True)  # noqa: B023, FBT003  at once
    )


@pytest.mark.parametrize(
    "text",
    [
        "ant",
        "ant bee",
        "ant OR bee",
        "ant AND bee",
        "ant AND NOT bee",
        "ant NOT bee",
        "+ant bee",
        "+ant +bee cat",
        "ant -bee",
        "-ant",
        "-ant -bee",
        '"ant bee"',
        '"bee ant cat"',
        '+"ant bee" cat',
        'cat -"ant bee"',
        "ant_bee",
        "+ant_bee",
        "cat -ant_bee",
        "cat NOT ant-bee",
        "ant_bee AND cat",
        "+ant -ant",
        "eel",
        "eel ant",
        "+eel ant",
        "ant -eel",
        "cat NOT (ant OR bee)",
        "cat NOT (ant AND bee)",
        "ant OR bee AND cat",
        "(ant OR bee) AND cat",
        "ant OR NOT bee",
        "(ant bee) -(cat ant_bee)",
        "be*",
        "+a* -c*",
    ],
)
def test_each_way_of_asking_matches_by_definition(opened: Opened, text: str) -> None:
    expected = by_definition(text, opened.joined)
    for name, matched in opened.matched(text).items():
        assert matched == expected, name


term = st.sampled_from([*WORDS, '"ant bee"', '"bee cat"', "ant_bee", "bee-cat-ant", "eel", "Ant"])
piece = st.builds(str.__add__, st.sampled_from(["", "", "+", "-"]), term)
operator = st.sampled_from(["AND", "OR", "NOT", "(", ")"])
asked = st.lists(piece | operator, max_size=9).map(" ".join)


@settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(text=asked)
def test_any_question_matches_by_definition_in_every_engine(opened: Opened, text: str) -> None:
    expected = by_definition(text, opened.joined)
    for name, matched in opened.matched(text).items():
        assert matched == expected, name


def test_settings_of_joined_words_differ_where_they_should() -> None:
    found = {joined: by_definition("ant_bee", joined) for joined in JOINED}
    assert found["phrase"] < found["words"]
    assert found["words"] == found["both"]


def test_both_puts_the_phrase_before_its_words(tmp_path_factory: pytest.TempPathFactory) -> None:
    for name, engine in engines("both").items():
        folder = tmp_path_factory.mktemp("index")
        engine.build(DOCUMENTS, folder)
        with engine.open(folder) as searcher:
            texts = {document.doc_id: document for document in DOCUMENTS}
            shown = [texts[hit.doc_id] for hit in searcher.search("ant_bee", 1_000).hits]
        pair = [d for d in shown if sorted(d.text.split()) == ["ant", "bee"] and not d.title]
        assert [d.text for d in pair] == ["ant bee", "bee ant"], name
