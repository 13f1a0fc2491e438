"""FTS5: the same bytes each time, opened only when whole, and its traps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.check.subject import DOCUMENTS
from harness.core.errors import IndexNotReady
from harness.core.records import Document
from harness_engines import registry as arms
from harness_engines.stacks.agent_mail.contract import Filters, RankingMode
from harness_engines.stacks.agent_mail.sqlite.search import ColumnWeights, Fts5Engine
from harness_engines.stacks.text.fts5 import FILE, Fts5, Fts5Settings
from tests.make.mail_messages import one, stored

PLAIN = Fts5(Fts5Settings(tokenize="unicode61", title_weight=2.0, text_weight=1.0, joined="both"))
PORTER = Fts5(
    Fts5Settings(tokenize="porter unicode61", title_weight=2.0, text_weight=1.0, joined="both")
)


@pytest.fixture
def built(index: Path) -> Path:
    PLAIN.build(DOCUMENTS, index)
    return index


def refused(index: Path, why: str) -> None:
    with pytest.raises(IndexNotReady, match=why), PLAIN.open(index):
        pass


def found(engine: Fts5, documents: tuple[Document, ...], text: str, index: Path) -> list[str]:
    engine.build(documents, index)
    with engine.open(index) as searcher:
        return [hit.doc_id for hit in searcher.search(text, 10).hits]


def test_the_same_documents_give_the_same_bytes(built: Path, tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    PLAIN.build(DOCUMENTS[::-1], tmp_path / "again")
    assert (tmp_path / "again" / FILE).read_bytes() == (built / FILE).read_bytes()


@pytest.mark.parametrize(
    ("engine", "documents", "text", "shown"),
    [
        (PLAIN, (Document("a", "moss", "stone"), Document("b", "stone", "moss")), "stone", "ba"),
        (PLAIN, (Document("a", "", "mending punctures"),), "mended puncture", ""),
        (PORTER, (Document("a", "", "mending punctures"),), "mended puncture", "a"),
        (PLAIN, (Document("a", "", "naïve café"),), "cafe", "a"),
    ],
    ids=["a title weighs more", "no stems", "stems", "accents are folded"],
)
def test_what_is_shown(
    engine: Fts5, documents: tuple[Document, ...], text: str, shown: str, tmp_path: Path
) -> None:
    folder = tmp_path / "50% of a?b#c d"
    folder.mkdir()
    assert found(engine, documents, text, folder) == [*shown]


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
        mail = Fts5Engine(store, ColumnWeights(2.0, 1.0, 4.0))

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
        for refused in REFUSED:
            ask(refused)
