"""FTS5 and Tantivy: the same answers however written, and their traps."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tantivy import Query

from harness.check.subject import DOCUMENTS
from harness.core.engine import Hit
from harness.core.errors import IndexNotReady
from harness.core.records import Document
from harness_engines import registry as arms
from harness_engines.lexical.tantivy import best
from harness_engines.stacks.agent_mail.contract import Filters, RankingMode, Weights
from harness_engines.stacks.agent_mail.sqlite.search import Fts5Engine
from harness_engines.stacks.text.fts5 import Fts5, Fts5Settings
from harness_engines.stacks.text.tantivy import Tantivy, TantivySearcher, TantivySettings
from tests.make.mail_messages import one, stored

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
                numbers = best(searcher.searcher, moss, k, schema=searcher.schema, ids="id")
                every = range(k if name == "same" else 0)
                assert [one.document for one in numbers] == list(every)
    assert len({score for score, _ in keys}) == 1
    assert len(keys) == 800


@pytest.fixture
def built(index: Path) -> Path:
    engine().build(DOCUMENTS, index)
    return index


def refused(index: Path) -> None:
    with pytest.raises(IndexNotReady, match="harness stage index"), engine().open(index):
        pass


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


PLAIN = Fts5(Fts5Settings(tokenize="unicode61", title_weight=2.0, text_weight=1.0, joined="both"))


def refused_by_fts5(index: Path, why: str) -> None:
    with pytest.raises(IndexNotReady, match=why), PLAIN.open(index):
        pass


def found(engine: Fts5, documents: tuple[Document, ...], text: str, index: Path) -> list[str]:
    engine.build(documents, index)
    with engine.open(index) as searcher:
        return [hit.doc_id for hit in searcher.search(text, 10).hits]


TEXTS = ("see br-2tnl", "br 2tnl", "crash", "craze", "x y", "it doesn't", "C a b", "moss", "moss")
REFUSED = ("", "  ", '"', "NOT x", "-x", "a/b", "a:b", "*")
Ask = Callable[[str], list[int]]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Ask]]:
    """Ask the arm and the mail engine, which number the texts from 1."""
    folder = tmp_path_factory.mktemp("ours")
    arm, index = arms.load("fts5", folder / "cache").engine, folder / "index"
    index.mkdir()
    arm.build([Document(str(at), "", text) for at, text in enumerate(TEXTS, 1)], index)
    messages = [one(at, "", text) for at, text in enumerate(TEXTS, 1)]
    with arm.open(index) as searcher, stored(folder / "mail.db", messages) as store:
        mail = Fts5Engine(store, Weights(2, 4))

        def of_mail(text: str) -> list[int]:
            found = mail.search(text, Filters(), RankingMode.RELEVANCE, 100)
            assert not found.note
            return [candidate.message_id for candidate in found.candidates]

        yield {
            "arm": lambda text: [int(hit.doc_id) for hit in searcher.search(text, 100).hits],
            "mail": of_mail,
        }


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("br-2tnl", {1, 2}),
        ('"br-2tnl"', {1, 2}),
        ("C++", {7}),
        ("doesn't", {6}),
        ("(x", {5}),
        ("x AND", {5}),
        ("OR x", {5}),
        ("a.b", {7}),
        ('"x\0y"', {5}),
        ("!!! AND crash", {3}),
        ('"!!!" AND crash', {3}),
        ("nowhere\0x", {5}),
        ("x", {5}),
        ("cra*", {3, 4}),
        ('"cra*"', set()),
    ],
)
def test_ours_finds_what_was_meant(ours: dict[str, Ask], typed: str, found: set[int]) -> None:
    assert {name: set(ask(typed)) for name, ask in ours.items()} == dict.fromkeys(ours, found)
    for ask in ours.values():
        for refused_by_fts5 in REFUSED:
            ask(refused_by_fts5)
