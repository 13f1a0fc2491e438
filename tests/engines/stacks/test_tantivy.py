"""Tantivy: the same answers however written, opened only when whole, and its traps."""

from __future__ import annotations

import json
import pickle
import random
import re
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import tantivy
from pydantic import ValidationError

from harness.check.subject import DOCUMENTS
from harness.core.engine import Hit, Searcher
from harness.core.errors import IndexNotReady
from harness.core.records import Document
from harness_engines import registry as arms
from harness_engines.lexical.tantivy import SLACK, best
from harness_engines.stacks.agent_mail.contract import RankingMode
from harness_engines.stacks.agent_mail.tantivy.index import HASH, INDEX, fields
from harness_engines.stacks.text.tantivy import IDS, Tantivy, TantivySettings
from tests.make.damage import overwrite
from tests.make.mail.messages import NOON, one
from tests.make.mail.tantivy import Case, delete, upsert
from tests.make.mail.tantivy import built as built_traps_tantivy
from tests.source import modules

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
    return built_traps_tantivy(tmp_path / "mail", MAIL)


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
    made = built_traps_tantivy(tmp_path / "not" / "there", MAIL, threads=2)
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
    made = built_traps_tantivy(tmp_path / "mail", [one(at, "moss") for at in range(10)])
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
    return {m.file: m.path.read_text(encoding="utf-8") for m in modules("harness_engines").values()}
