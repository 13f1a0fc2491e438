"""Traps of tantivy-py 0.27: what the library does, and that ours does not fall into it.

When a test of the library fails, a later version has mended the trap, or set another.
"""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import tantivy

from engines import registry as arms
from engines.lexical.tantivy import best
from engines.stacks.agent_mail.contract import RankingMode
from engines.stacks.agent_mail.tantivy.index import HASH, INDEX, fields
from harness.check.subject import DOCUMENTS
from tests.make.mail.messages import NOON, one
from tests.make.mail.tantivy import Case, built, delete, upsert
from tests.source import modules

pytestmark = pytest.mark.slow

HEAP = 15_000_000
ALL = tantivy.Query.all_query()
MAIL = tuple(
    one(at, subject, body, created_ts=NOON + at)
    for at, (subject, body) in enumerate(
        [("crash of the fox", "cra craze"), ("or near", "moss"), ("moss", "b 2 tail")], start=1
    )
)


@pytest.fixture
def bare(tmp_path: Path) -> tantivy.Index:
    """Make an index with an unsigned number and a text, and one document in it."""
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("u", indexed=True, fast=True)
    builder.add_date_field("sent", fast=True)
    builder.add_text_field("t", stored=True)
    made = tantivy.Index(builder.build(), path=str(tmp_path))
    add(made, u=7, t="crash", sent=datetime(2026, 1, 1, tzinfo=UTC))
    return made


@pytest.fixture
def mail(tmp_path: Path) -> Case:
    return built(tmp_path / "mail", MAIL)


def add(index: tantivy.Index, **row: object) -> None:
    change(index, lambda w: w.add_document(tantivy.Document.from_dict(row, index.schema)))


def change(index: tantivy.Index, do: Callable[[tantivy.IndexWriter], object]) -> None:
    writer = index.writer(HEAP, 1)
    do(writer)
    writer.commit()
    writer.wait_merging_threads()
    index.reload()


def test_a_mistyped_number_loses_its_batch_and_all_that_follows(bare: tantivy.Index) -> None:
    writer = bare.writer(HEAP, 1)
    good = tantivy.Document.from_dict({"u": 1, "t": "moss"}, bare.schema)
    writer.add_document(good)
    writer.add_document(tantivy.Document(u=[1], t="moss"))
    with pytest.raises(ValueError, match="Expected a U64"):
        writer.commit()
    writer.add_document(good)
    writer.commit()
    bare.reload()
    assert bare.searcher().num_docs == 1, "the second commit raised nothing and wrote nothing"
    writer.rollback()
    writer.add_document(good)
    writer.commit()
    bare.reload()
    assert bare.searcher().num_docs == 2


def test_ours_types_every_document_by_the_schema() -> None:
    """``test_tantivy_lifecycle`` shows that a wrong value loses no other message."""
    ways = [
        call
        for text in sources().values()
        for call in re.findall(r"tantivy\.Document[.(]\w*", text)
    ]
    assert set(ways) == {"tantivy.Document.from_dict"}


def test_an_unsigned_key_deletes_nothing(bare: tantivy.Index) -> None:
    change(bare, lambda w: w.delete_documents_by_term("u", 7))
    assert bare.searcher().num_docs == 1
    key = tantivy.Query.term_query(bare.schema, "u", 7)
    change(bare, lambda w: w.delete_documents_by_query(key))
    assert bare.searcher().num_docs == 0


def test_ours_deletes(mail: Case) -> None:
    assert mail.ids("moss") == [3, 2]
    mail.engine.update_incremental([delete(3)])
    assert mail.ids("moss") == [2]


def test_an_unknown_field_is_dropped_without_a_word(bare: tantivy.Index) -> None:
    add(bare, u=8, tt="moss")
    assert bare.searcher().num_docs == 2
    assert not bare.searcher().search(bare.parse_query("moss", ["t"]), 5).hits


def test_ours_fills_the_fields_that_there_are(mail: Case) -> None:
    meta = json.loads((mail.engine.root / INDEX / "meta.json").read_text(encoding="utf-8"))
    assert {field["name"] for field in meta["schema"]} == set(fields(MAIL[0], mail.engine.weights))


def test_none_wanted_is_a_panic_that_is_no_exception(bare: tantivy.Index) -> None:
    with pytest.raises(BaseException, match="Limit must be greater than 0") as caught:
        bare.searcher().search(ALL, 0)
    assert not isinstance(caught.value, Exception)
    assert type(caught.value).__name__ == "PanicException"


def test_ours_gives_none_where_none_are_wanted(bare: tantivy.Index, mail: Case) -> None:
    assert best(bare.searcher(), ALL, 0, schema=bare.schema, ids="u") == []
    for ranking in RankingMode:
        for text in ("moss", ""):
            assert mail.ids(text, ranking=ranking, depth=0) == []


def test_snippets_count_bytes_and_ours_makes_none(bare: tantivy.Index) -> None:
    add(bare, u=8, t="é é fox")
    query = bare.parse_query("fox", ["t"])
    maker = tantivy.SnippetGenerator.create(bare.searcher(), query, bare.schema, "t")
    address = bare.searcher().search(query, 1).hits[0][1]
    snippet = maker.snippet_from_doc(bare.searcher().doc(address))
    (marked,) = snippet.highlighted()
    text = snippet.fragment()
    assert text[marked.start : marked.end] != "fox"
    assert text.encode()[marked.start : marked.end] == b"fox"
    assert not [file for file, source in sources().items() if "SnippetGenerator" in source]


def test_an_index_forgets_its_tokenizer_and_ours_tells_it_again(mail: Case) -> None:
    opened = tantivy.Index.open(str(mail.engine.root / INDEX))
    with pytest.raises(ValueError, match="tokenizer"):
        opened.parse_query("moss", ["body"])
    assert mail.fresh().ids("moss") == [3, 2]
    again = mail.fresh()
    again.engine.update_incremental([upsert(one(9, "moss"))])
    assert 9 in again.ids("moss")


def test_one_writer_and_what_it_needs(bare: tantivy.Index, tmp_path: Path) -> None:
    writer = bare.writer(HEAP, 1)
    with pytest.raises(ValueError, match="LockBusy"):
        bare.writer(HEAP, 1)
    writer.wait_merging_threads()
    with pytest.raises(RuntimeError, match="consumed"):
        writer.commit()
    with pytest.raises(ValueError, match="at least 15000000"):
        bare.writer(HEAP - 1, 1)
    with pytest.raises(ValueError, match="at least 15000000"):
        bare.writer(2 * HEAP - 1, 2)
    with pytest.raises(ValueError, match="does not exist"):
        tantivy.Index(bare.schema, path=str(tmp_path / "nowhere"))


def test_ours_writes_twice_and_makes_its_folder(tmp_path: Path) -> None:
    made = built(tmp_path / "not" / "there", MAIL, threads=2)
    for at in (8, 9):
        made.engine.update_incremental([upsert(one(at, "moss"))])
    made.engine.rebuild()
    assert (made.engine.root / HASH).exists()


def test_addresses_have_no_hash_and_searchers_no_pickle(bare: tantivy.Index) -> None:
    """So hits are kept by number, and a process that replays opens its own index."""
    address = bare.searcher().search(ALL, 1).hits[0][1]
    with pytest.raises(TypeError, match="unhashable"):
        hash(address)
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(bare.searcher())


def test_deleted_documents_count_in_weights_and_a_rebuild_forgets_them(tmp_path: Path) -> None:
    made = built(tmp_path / "mail", [one(at, "moss") for at in range(10)])
    made.engine.update_incremental([delete(at) for at in range(5)])
    searcher = tantivy.Index.open(str(made.engine.root / INDEX)).searcher()
    assert searcher.num_docs == 5
    assert searcher.doc_freq("subject", "moss") == 10
    made.source.by_id = {at: made.source.by_id[at] for at in range(5, 10)}
    made.engine.rebuild()
    searcher = tantivy.Index.open(str(made.engine.root / INDEX)).searcher()
    assert searcher.doc_freq("subject", "moss") == 5


def test_an_order_by_field_gives_the_key_for_a_score_and_ours_both(
    bare: tantivy.Index, mail: Case
) -> None:
    when = bare.searcher().search(ALL, 1, order_by_field="sent").hits[0][0]
    assert when == int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000_000
    scores = {c.message_id: c.raw_score for c in mail.candidates("moss")}
    by_time = mail.candidates("moss", ranking=RankingMode.RECENCY)
    assert [c.message_id for c in by_time] == [3, 2]
    assert {c.message_id: c.raw_score for c in by_time} == scores


@pytest.mark.parametrize(
    ("typed", "read_as"),
    [
        ("cra*", '"cra"'),
        ("t:cra*", '"cra"'),
        ("fox or crash", '"or"'),
        ("NEAR", '"near"'),
        ("b~2", "PhraseQuery"),
        ("C++", '"c"'),
    ],
)
def test_the_parser_reads_something_else(bare: tantivy.Index, typed: str, read_as: str) -> None:
    assert read_as in repr(bare.parse_query(typed, ["t"]))


@pytest.mark.parametrize("typed", ['"cra"*', "-b", "(b", '"b', "foo:", "foo:b", "`b`", "a:b:c"])
def test_the_parser_refuses(bare: tantivy.Index, typed: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        bare.parse_query(typed, ["t"])


def test_the_lenient_parser_finds_nothing_for_an_unknown_field(bare: tantivy.Index) -> None:
    query, errors = bare.parse_query_lenient("foo:b", ["t"])
    assert repr(query) == "Query(EmptyQuery)"
    assert len(errors) == 1


def test_a_term_is_taken_as_it_is(bare: tantivy.Index) -> None:
    found = [
        bare.searcher().search(tantivy.Query.term_query(bare.schema, "t", word), 5).hits
        for word in ("crash", "Crash")
    ]
    assert [len(hits) for hits in found] == [1, 0]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("cra*", [1]),
        ("cra", [1]),
        ("cras", []),
        ('"cra"*', [1]),
        ("fox or near", [1, 2]),
        ("NEAR", [2]),
        ("-near", [1, 3]),
        ("(moss", [2, 3]),
        ('"moss', [2, 3]),
        ("moss:", [2, 3]),
        ("foo:moss", []),
        ("`moss`", [2, 3]),
        ("b~2", [3]),
        ("Fox", [1]),
    ],
)
def test_ours_reads_what_was_typed(mail: Case, typed: str, found: list[int]) -> None:
    assert sorted(mail.ids(typed)) == found


@pytest.mark.parametrize("typed", ['"salt"*', "(salt", '"salt', "salt:", "`salt`", "SALT"])
def test_the_arm_reads_what_was_typed(tmp_path: Path, typed: str) -> None:
    index = tmp_path / "index"
    index.mkdir()
    engine = arms.load("tantivy", tmp_path / "cache").engine
    engine.build(DOCUMENTS, index)
    with engine.open(index) as searcher:
        assert [hit.doc_id for hit in searcher.search(typed, 5).hits] == ["bread"]


def test_the_arm_leaves_out_what_was_refused(tmp_path: Path) -> None:
    index = tmp_path / "index"
    index.mkdir()
    engine = arms.load("tantivy", tmp_path / "cache").engine
    engine.build(DOCUMENTS, index)
    with engine.open(index) as searcher:
        shown = {hit.doc_id for hit in searcher.search("-salt", 100).hits}
    assert shown == {document.doc_id for document in DOCUMENTS} - {"bread"}


def test_nothing_of_ours_asks_the_parser() -> None:
    asking = [file for file, source in sources().items() if ".parse_query" in source]
    assert asking == []


def sources() -> dict[str, str]:
    """Text of every module of the engines."""
    return {m.file: m.path.read_text(encoding="utf-8") for m in modules("engines").values()}
