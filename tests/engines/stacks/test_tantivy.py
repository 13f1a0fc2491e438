"""Tantivy: the same answers however the index was written, and opened only when it is whole."""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import tantivy
from pydantic import ValidationError

from engines.lexical.tantivy import SLACK
from engines.stacks.text.tantivy import IDS, Settings, Tantivy
from harness.check.subject import DOCUMENTS
from harness.core.engine import Hit, Searcher
from harness.core.errors import IndexNotReady
from harness.core.records import Document
from tests.make.damage import overwrite

pytestmark = pytest.mark.slow

WORDS = ("ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen")


def engine(**given: Any) -> Tantivy:  # noqa: ANN401  settings of any type
    usual: dict[str, Any] = {
        "language": "none",
        "bm25_over": "document",
        "title_weight": 2.0,
        "text_weight": 1.0,
        "joined": "both",
    }
    return Tantivy(Settings(**usual | given))


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
    tantivy_engine = engine(writer_threads=2)
    tantivy_engine.build(tied(500), tmp_path)
    with tantivy_engine.open(tmp_path) as searcher:
        for text in QUESTIONS:
            everything = searcher.search(text, 500).hits
            assert list(everything) == sorted(everything, key=lambda h: (-h.raw_score, h.doc_id))
            for k in (1, 7, 50):
                few = searcher.search(text, k).hits
                assert [(h.doc_id, h.raw_score) for h in few] == [
                    (h.doc_id, h.raw_score) for h in everything[:k]
                ]


@pytest.mark.parametrize("k", [1, 3, 40, 799, 800, 801])
def test_where_all_tie_the_first_ids_are_shown(index: Path, k: int) -> None:
    same = [
        Document(f"d{at:04}", "moss", "stone") for at in random.Random(1).sample(range(800), 800)
    ]
    many = engine(writer_threads=2)
    many.build(same, index)
    with many.open(index) as searcher:
        hits = searcher.search("moss stone", k).hits
    assert [hit.doc_id for hit in hits] == [f"d{at:04}" for at in range(min(k, 800))]
    assert {hit.score for hit in hits} == {1.0}


class Counting:
    """A Tantivy searcher that counts how often and how far it is asked."""

    def __init__(self, searcher: Any) -> None:  # noqa: ANN401  has no type of its own
        self.searcher = searcher
        self.limits: list[int] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self.searcher, name)

    def search(self, query: tantivy.Query, limit: int, **more: bool) -> Any:  # noqa: ANN401
        self.limits.append(limit)
        return self.searcher.search(query, limit, **more)


def test_it_asks_again_only_where_the_last_place_is_tied(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = [Document(f"d{at:03}", "", "moss" + " fern" * at) for at in range(100)]
    documents += [Document(f"e{at:03}", "", "stone") for at in range(100)]
    few = engine()
    few.build(documents, index)
    with few.open(index) as searcher:
        asked = Counting(searcher.searcher)
        monkeypatch.setattr(type(searcher), "searcher", asked)
        searcher.search("moss", 5)
        assert asked.limits == [5 + SLACK]
        asked.limits.clear()
        hits = searcher.search("stone", 5).hits
        assert [hit.doc_id for hit in hits] == [f"e{at:03}" for at in range(5)]
        assert asked.limits == [5 + SLACK] * 2  # all of the tie, then what ties with the first


@pytest.fixture
def built(index: Path) -> Path:
    engine().build(DOCUMENTS, index)
    return index


def refused(index: Path) -> None:
    with pytest.raises(IndexNotReady, match="harness stage index"), engine().open(index):
        pass


@pytest.mark.parametrize("file", ["meta.json", IDS])
@pytest.mark.parametrize("damage", [None, b"", b"{", b"null", b"\xff"])
def test_a_damaged_description_is_not_ready(built: Path, file: str, damage: bytes | None) -> None:
    if damage is None:
        (built / file).unlink()
    else:
        overwrite(built / file, damage)
    refused(built)


@pytest.mark.parametrize("kind", ["store", "term", "idx", "pos", "fast", "fieldnorm"])
@pytest.mark.parametrize("damage", ["gone", "cut", "empty"])
def test_a_damaged_part_is_not_ready(built: Path, kind: str, damage: str) -> None:
    (part,) = built.glob(f"*.{kind}")
    if damage == "gone":
        part.unlink()
    else:
        overwrite(part, part.read_bytes()[:-7] if damage == "cut" else b"")
    refused(built)


@pytest.mark.parametrize("ids", ['["a"]', '{"a": 1}'])
def test_ids_that_do_not_fit_are_not_ready(built: Path, ids: str) -> None:
    (built / IDS).write_text(ids)
    refused(built)


def test_how_it_is_written_is_no_part_of_the_identity(tmp_path: Path) -> None:
    made = []
    ways: tuple[dict[str, Any], ...] = ({}, {"writer_threads": 2}, {"joined": "words"})
    for at, way in enumerate(ways):
        (tmp_path / str(at)).mkdir()
        made.append(engine(**way).build(DOCUMENTS, tmp_path / str(at)).fingerprint)
    assert made[0] == made[1]
    assert made[0] != made[2]


@pytest.mark.parametrize(
    "given",
    [
        {"title_weight": 1.5},
        {"text_weight": 2.0},
        {"title_weight": 0.0},
        {"heap_bytes": 1},
        {"writer_threads": 0},
        {"language": "klingon"},
    ],
)
def test_settings_that_cannot_be_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        engine(**given)


def test_over_fields_any_weight_will_do() -> None:
    weighed = engine(bm25_over="fields", title_weight=1.5, text_weight=0.5)
    assert weighed.settings.weights == {"title": 1.5, "text": 0.5}


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


@pytest.mark.parametrize("bm25_over", ["document", "fields"])
def test_a_title_weighs_more_than_the_text(index: Path, bm25_over: str) -> None:
    documents = [Document("a", "moss", "stone"), Document("b", "stone", "moss")]
    hits = search(index, documents, "stone", bm25_over=bm25_over)
    assert [hit.doc_id for hit in hits] == ["b", "a"]
