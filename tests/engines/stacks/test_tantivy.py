"""Tantivy over title and text: its order, phrases and stop words."""

import random
from pathlib import Path
from typing import Any

import pytest
from tantivy import Query

from harness.core.engine import Hit
from harness.core.records import Document
from harness_engines.lexical.tantivy import columns
from harness_engines.stacks.text.tantivy import Tantivy, TantivySearcher, TantivySettings

WORDS = ("ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen")


def engine(**given: Any) -> Tantivy:  # noqa: ANN401  settings of any type
    usual: dict[str, Any] = {
        "language": "none",
        "bm25_over": "document",
        "title_weight": 2.0,
        "text_weight": 1.0,
        "joined": "both",
    }
    return Tantivy(TantivySettings(**usual | given))


def tied(count: int) -> list[Document]:
    """Documents of so few words that most are equal to many others."""
    rng = random.Random(3)
    return [
        Document(
            f"d{at:04}",
            " ".join(rng.choices(WORDS, k=rng.randint(0, 2))),
            " ".join(rng.choices(WORDS, k=rng.randint(1, 3))),
        )
        for at in range(count)
    ]


QUESTIONS = (
    *WORDS[:3],
    "ant bee",
    "ant bee cat dog eel",
    "+ant bee cat",
    "ant AND bee",
    "ant -bee",
    '"ant bee" cat',
    "ant-bee-cat",
)


@pytest.mark.slow
def test_the_order_is_that_of_a_full_sort(tmp_path: Path) -> None:
    same = random.Random(1).sample(
        [Document(f"d{at:04}", "moss", "stone") for at in range(800)], 800
    )
    for name, documents in (("tied", tied(500)), ("same", same)):
        (tmp_path / name).mkdir()
        made = engine(writer_threads=2)
        made.build(documents, tmp_path / name)
        with made.open(tmp_path / name) as searcher:
            for text in ("moss stone",) if name == "same" else QUESTIONS:
                everything = searcher.search(text, 800).hits
                keys = [(-hit.raw_score, hit.doc_id) for hit in everything]
                assert keys == sorted(keys)
                for k in (1, 3, 7, 40, 799, 801):
                    few = [(-h.raw_score, h.doc_id) for h in searcher.search(text, k).hits]
                    assert few == keys[:k]
            assert isinstance(searcher, TantivySearcher)
            moss = Query.term_query(searcher.schema, "text", "moss")
            for k in (1, 7, 40):
                found = columns(searcher.searcher, moss, k, schema=searcher.schema, ids="id")
                every = range(k if name == "same" else 0)
                assert list(found.documents) == list(every)
    assert len({score for score, _ in keys}) == 1
    assert len(keys) == 800


def search(index: Path, documents: list[Document], text: str, **given: Any) -> tuple[Hit, ...]:  # noqa: ANN401
    made = engine(**given)
    made.build(documents, index)
    with made.open(index) as searcher:
        return searcher.search(text, 10).hits


@pytest.fixture
def titled() -> list[Document]:
    return [Document("a", "moss fern", "stone gravel"), Document("b", "", "fern moss")]


@pytest.mark.slow
@pytest.mark.parametrize("bm25_over", ["document", "fields"])
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('"moss fern"', ["a"]),
        ('"fern moss"', ["b"]),
        ('"fern stone"', []),
        ('"stone gravel"', ["a"]),
    ],
)
def test_no_phrase_reaches_over_the_end_of_a_title(
    index: Path, titled: list[Document], bm25_over: str, text: str, shown: list[str]
) -> None:
    hits = search(index, titled, text, bm25_over=bm25_over)
    assert [hit.doc_id for hit in hits] == shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('"king of england"', ["a"]),
        ('"king england"', ["b"]),
        ('"kings of england"', ["a"]),
        ('"king by the sea"', []),
        ("king-of-england", ["a", "b"]),
    ],
)
def test_a_stop_word_keeps_its_place_in_a_phrase(index: Path, text: str, shown: list[str]) -> None:
    documents = [Document("a", "", "the king of england"), Document("b", "", "king england")]
    hits = search(index, documents, text, language="english")
    assert [hit.doc_id for hit in hits] == shown


@pytest.mark.slow
@pytest.mark.parametrize("text", ["the", "to be or not to be", '"of the"', "+the", "the -king"])
def test_stop_words_alone_ask_for_nothing(index: Path, text: str) -> None:
    documents = [Document("a", "", "the king of england, to be")]
    assert search(index, documents, text, language="english") == ()
