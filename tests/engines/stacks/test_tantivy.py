"""Tantivy: the same answers however written, opened only when whole, and its traps."""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from harness.check.subject import DOCUMENTS
from harness.core.engine import Hit, Searcher
from harness.core.errors import IndexNotReady
from harness.core.records import Document
from harness_engines.stacks.text.tantivy import Tantivy, TantivySettings
from tests.make.damage import overwrite

WORDS = ("ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen")

pytestmark = pytest.mark.slow


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


@pytest.mark.parametrize("bm25_over", ["document", "fields"])
def test_threads_and_memory_change_no_answer(tmp_path: Path, bm25_over: str) -> None:
    documents = tied(2_000)
    ways = (
        {"writer_threads": 1},
        {"writer_threads": 2},
        {"writer_threads": 3, "heap_bytes": 2**26},
    )
    searchers: list[Searcher] = []
    with ExitStack() as opened:
        for at, way in enumerate(ways):
            (tmp_path / str(at)).mkdir()
            written = engine(bm25_over=bm25_over, **way)
            written.build(documents, tmp_path / str(at))
            searchers.append(opened.enter_context(written.open(tmp_path / str(at))))
        parts = [searcher.searcher.num_segments for searcher in searchers]  # type: ignore[attr-defined]  # not of the contract
        assert parts[0] == 1
        assert max(parts) > 1, "nothing is shown where no index lies in several parts"
        for text in QUESTIONS:
            for k in (1, 10, 100):
                answers = {searcher.search(text, k) for searcher in searchers}
                assert len(answers) == 1
                assert list(answers)[0].hits  # noqa: RUF015  a set of one


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
    assert len({score for score, _ in keys}) == 1
    assert len(keys) == 800


@pytest.fixture
def built(index: Path) -> Path:
    engine().build(DOCUMENTS, index)
    return index


def refused(index: Path) -> None:
    with pytest.raises(IndexNotReady, match="harness stage index"), engine().open(index):
        pass


@pytest.mark.parametrize("kind", ["store", "term", "idx", "pos", "fast", "fieldnorm"])
@pytest.mark.parametrize("damage", ["gone", "cut", "empty"])
def test_a_damaged_part_is_not_ready(built: Path, kind: str, damage: str) -> None:
    (part,) = built.glob(f"*.{kind}")
    if damage == "gone":
        part.unlink()
    else:
        overwrite(part, part.read_bytes()[:-7] if damage == "cut" else b"")
    refused(built)


def search(index: Path, documents: list[Document], text: str, **given: Any) -> tuple[Hit, ...]:  # noqa: ANN401
    made = engine(**given)
    made.build(documents, index)
    with made.open(index) as searcher:
        return searcher.search(text, 10).hits


@pytest.fixture
def titled() -> list[Document]:
    return [Document("a", "moss fern", "stone gravel"), Document("b", "", "fern moss")]


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


@pytest.mark.parametrize("text", ["the", "to be or not to be", '"of the"', "+the", "the -king"])
def test_stop_words_alone_ask_for_nothing(index: Path, text: str) -> None:
    documents = [Document("a", "", "the king of england, to be")]
    assert search(index, documents, text, language="english") == ()
