"""FTS5: the same bytes each time, opened only when whole, and its traps."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harness.check.subject import DOCUMENTS
from harness.core.errors import IndexNotReady
from harness.core.records import Document
from harness_engines import registry as arms
from harness_engines.lexical.grammar import FTS5, parse
from harness_engines.stacks.agent_mail.contract import Filters, RankingMode
from harness_engines.stacks.agent_mail.sqlite.search import ColumnWeights, Fts5Engine
from harness_engines.stacks.text.fts5 import FILE, Fts5, Fts5Settings, written
from tests.make.damage import overwrite, run_sql
from tests.make.mail.messages import one, stored

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


@pytest.mark.parametrize("table", ["search", "document", "search_docsize", "search_data"])
def test_a_dropped_table_is_not_ready(built: Path, table: str) -> None:
    own = table in {"search", "document"}
    allow = "PRAGMA writable_schema = ON"
    drop = f"DROP TABLE {table}" if own else f"DELETE FROM sqlite_master WHERE name = '{table}'"  # noqa: S608  our own names
    run_sql(built / FILE, allow, drop)
    refused(built, "harness stage index")


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM document WHERE id = 1",
        "INSERT INTO search (rowid, title, text) VALUES (99, 'more', 'more')",
        "INSERT INTO search (search) VALUES ('delete-all')",
    ],
)
def test_rows_that_the_manifest_does_not_count_are_not_ready(built: Path, statement: str) -> None:
    run_sql(built / FILE, statement)
    refused(built, f"says {len(DOCUMENTS)} documents, the index holds")


def test_a_file_that_is_gone_is_not_ready(built: Path) -> None:
    (built / FILE).unlink()
    refused(built, FILE)
    assert not (built / FILE).exists()


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9])
def test_a_file_cut_short_is_not_ready(built: Path, share: float) -> None:
    whole = (built / FILE).read_bytes()
    overwrite(built / FILE, whole[: int(share * len(whole))])
    refused(built, FILE)


def test_garbage_is_not_ready(built: Path) -> None:
    overwrite(built / FILE, b"no database" * 1000)
    refused(built, FILE)


def test_a_folder_in_its_place_is_not_ready(built: Path) -> None:
    (built / FILE).unlink()
    (built / FILE).mkdir()
    refused(built, FILE)


def test_a_folder_with_signs_in_its_name_opens(tmp_path: Path) -> None:
    folder = tmp_path / "50% of a?b#c d"
    folder.mkdir()
    assert found(PLAIN, DOCUMENTS, "soprano", folder) == ["opera"]


def test_nothing_can_be_written(built: Path) -> None:
    with PLAIN.open(built) as searcher, pytest.raises(sqlite3.OperationalError, match="readonly"):
        searcher.db.execute("DELETE FROM document")


def test_closed_it_answers_no_more(built: Path) -> None:
    with PLAIN.open(built) as searcher:
        pass
    with pytest.raises(sqlite3.ProgrammingError):
        searcher.search("water", 3)


def test_one_id_twice_is_refused(index: Path) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        PLAIN.build([Document("a", "", "x"), Document("a", "", "y")], index)


def test_a_title_weighs_more_than_the_text(index: Path) -> None:
    documents = (Document("a", "moss", "stone"), Document("b", "stone", "moss"))
    assert found(PLAIN, documents, "stone", index) == ["b", "a"]


def test_only_porter_knows_stems(tmp_path: Path) -> None:
    for name in ("plain", "porter"):
        (tmp_path / name).mkdir()
    documents = (Document("a", "", "mending punctures"),)
    assert found(PLAIN, documents, "mended puncture", tmp_path / "plain") == []
    assert found(PORTER, documents, "mended puncture", tmp_path / "porter") == ["a"]


def test_accents_are_folded(index: Path) -> None:
    assert found(PLAIN, (Document("a", "", "naïve café"),), "cafe", index) == ["a"]


@pytest.mark.parametrize(
    ("text", "joined", "asked"),
    [
        ("salt water", "both", '"salt" OR "water"'),
        ('"salt water"', "words", '"salt water"'),
        ("read_csv", "both", '("read csv" OR "read" OR "csv")'),
        ("read_csv", "words", '("read" OR "csv")'),
        ("read_csv", "phrase", '"read csv"'),
        ("salt -water", "both", '("salt") NOT ("water")'),
        ("+salt +water", "both", '"salt" AND "water"'),
        ("+salt water", "both", '("salt") AND ("salt" OR "water" OR "water")'),
        ("", "both", ""),
    ],
)
def test_what_fts5_is_asked(text: str, joined: str, asked: str) -> None:
    assert FTS5.select(parse(text), lambda one: written(one, joined)).expression == asked


def test_what_must_be_there_counts_no_more_than_what_may(index: Path) -> None:
    documents = tuple(
        Document(f"d{at}", "", text)
        for at, text in enumerate(["salt salt water", "salt water water", "moss", "fern", "stone"])
    )
    PLAIN.build(documents, index)
    with PLAIN.open(index) as searcher:
        plain = searcher.search("salt water", 10).hits
        must = searcher.search("+salt water", 10).hits
    assert [hit.raw_score for hit in must] == pytest.approx([2 * hit.raw_score for hit in plain])
    assert [hit.doc_id for hit in must] == [hit.doc_id for hit in plain]


TEXTS = ("see br-2tnl", "br 2tnl", "crash", "craze", "x y", "it doesn't", "C a b", "moss", "moss")
TABLES = {
    "plain": "",
    "signs": ", tokenize=\"unicode61 tokenchars '-_'\"",
    "trigram": ", tokenize='trigram'",
    "no_positions": ", detail=none",
    "columns_only": ", detail=column",
}
REFUSED = (
    *("br-2tnl", "", "  ", '"', "(x", "x AND", "OR x", "NOT x", "-x", "C++", "a.b", "a/b"),
    *("don't", "a:b", "*", '"x\0y"'),
)
Ask = Callable[[str], list[int]]


@pytest.fixture(scope="module")
def bare() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as db:
        for name, options in TABLES.items():
            db.execute(f"CREATE VIRTUAL TABLE {name} USING fts5(t{options})")
            db.executemany(f"INSERT INTO {name} VALUES (?)", [(text,) for text in TEXTS])  # noqa: S608  named here
        yield db


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


def matched(db: sqlite3.Connection, asked: str, table: str = "plain") -> list[int]:
    sql = f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rowid"  # noqa: S608  named here
    return [row[0] for row in db.execute(sql, (asked,))]


@pytest.mark.parametrize("typed", REFUSED)
def test_what_people_type_is_a_syntax_error(bare: sqlite3.Connection, typed: str) -> None:
    with pytest.raises(sqlite3.OperationalError):
        matched(bare, typed)


@pytest.mark.parametrize("typed", REFUSED)
def test_ours_answers_it(ours: dict[str, Ask], typed: str) -> None:
    for ask in ours.values():
        ask(typed)


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
    ],
)
def test_ours_finds_what_was_meant(ours: dict[str, Ask], typed: str, found: set[int]) -> None:
    assert {name: set(ask(typed)) for name, ask in ours.items()} == dict.fromkeys(ours, found)


def test_a_hyphen_is_refused_even_where_it_is_a_letter(bare: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such column: 2tnl"):
        matched(bare, "br-2tnl", "signs")
    assert matched(bare, '"br-2tnl"', "signs") == [1]
    assert matched(bare, '"br-2tnl"') == [1, 2], "a phrase of two words"


def test_ours_puts_the_name_whole_before_its_words(ours: dict[str, Ask]) -> None:
    assert ours["mail"]("br-2tnl") == [1, 2]


def test_a_star_belongs_outside_of_the_marks(
    bare: sqlite3.Connection, ours: dict[str, Ask]
) -> None:
    assert matched(bare, '"cra"*') == [3, 4]
    assert matched(bare, '"cra*"') == []
    assert set(ours["mail"]("cra*")) == {3, 4}
    assert ours["mail"]('"cra*"') == []


def test_a_phrase_without_words_spoils_an_and(bare: sqlite3.Connection) -> None:
    assert matched(bare, '"!!!" AND crash') == []
    assert matched(bare, '"!!!" OR crash') == [3]


def test_a_nul_ends_the_text(bare: sqlite3.Connection, ours: dict[str, Ask]) -> None:
    assert matched(bare, "x\0nowhere") == matched(bare, "x AND y\0nowhere") == [5]
    assert matched(bare, "nowhere\0x") == []
    assert ours["mail"]("nowhere\0x") == ours["arm"]("nowhere\0x") == [5]


def test_trigrams_know_no_shorter_word(bare: sqlite3.Connection, ours: dict[str, Ask]) -> None:
    assert matched(bare, "cr", "trigram") == []
    assert matched(bare, "cra", "trigram") == [3, 4]
    assert [ask("x") for ask in ours.values()] == [[5], [5]]


@pytest.mark.parametrize("table", ["no_positions", "columns_only"])
def test_without_positions_there_is_no_phrase(bare: sqlite3.Connection, table: str) -> None:
    with pytest.raises(sqlite3.OperationalError, match="phrase queries are not supported"):
        matched(bare, '"br 2tnl"', table)


def test_weights_are_named_in_three_ways_and_are_one() -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE VIRTUAL TABLE w USING fts5(s, b)")
        rows = [("crash", "moss"), ("moss", "crash"), *[("a", "b")] * 5]
        db.executemany("INSERT INTO w VALUES (?, ?)", rows)
        named = "SELECT rowid, bm25(w, 10.0, 1.0) FROM w WHERE w MATCH 'crash' ORDER BY 2"
        matching = (
            "SELECT rowid, rank FROM w WHERE w MATCH 'crash' AND rank MATCH 'bm25(10.0, 1.0)'"
            " ORDER BY rank"
        )
        kept = "SELECT rowid, rank FROM w WHERE w MATCH 'crash' ORDER BY rank"
        plain = db.execute(kept).fetchall()
        found = [db.execute(named).fetchall(), db.execute(matching).fetchall()]
        db.execute("INSERT INTO w (w, rank) VALUES ('rank', 'bm25(10.0, 1.0)')")
        assert found == [db.execute(kept).fetchall()] * 2 != [plain] * 2


def test_a_word_of_most_texts_weighs_nothing_and_ours_orders_by_id(tmp_path: Path) -> None:
    texts = ["moss moss moss", *["moss"] * 5, "stone"]
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE VIRTUAL TABLE t USING fts5(x)")
        db.executemany("INSERT INTO t VALUES (?)", [(text,) for text in texts])
        scores = [row[0] for row in db.execute("SELECT rank FROM t WHERE t MATCH 'moss'")]
    assert len(scores) == 6
    assert all(-2e-6 <= score < 0 for score in scores)
    messages = [one(at, text) for at, text in enumerate(reversed(texts), 1)]
    with stored(tmp_path / "mail.db", messages) as store:
        mail = Fts5Engine(store, ColumnWeights(2.0, 1.0, 4.0))
        found = mail.search("moss", Filters(), RankingMode.RELEVANCE, 10).candidates
    assert [candidate.message_id for candidate in found] == [7, 2, 3, 4, 5, 6]
