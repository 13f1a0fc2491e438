"""Tantivy: the same answers however written, opened only when whole, and its traps."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import tantivy
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.check.subject import DOCUMENTS
from harness.core.engine import Hit, Searcher
from harness.core.errors import IndexNotReady
from harness.core.records import Document
from harness_engines.lexical import tantivy as lexical_tantivy
from harness_engines.lexical.tantivy import SLACK, Columns, Keyed, best, first
from harness_engines.stacks.text.tantivy import IDS, Tantivy, TantivySettings
from tests.make.damage import overwrite
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


def test_it_asks_again_only_where_tied(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        *product(("meta.json", IDS), (None, b"", b"{", b"null", b"\xff")),
        *product((IDS,), (b'["a"]', b'{"a": 1}')),
    ],
)
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
def test_bad_settings_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        engine(**given)
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


def test_the_arm_reads_what_was_typed(built: Path) -> None:
    with engine().open(built) as searcher:
        for typed in ('"salt"*', "(salt", '"salt', "salt:", "`salt`", "SALT"):
            assert [hit.doc_id for hit in searcher.search(typed, 5).hits] == ["bread"], typed
        shown = {hit.doc_id for hit in searcher.search("-salt", 100).hits}
    assert shown == {document.doc_id for document in DOCUMENTS} - {"bread"}


def test_nothing_of_ours_asks_the_parser() -> None:
    asking = [file for file, source in sources().items() if ".parse_query" in source]
    assert asking == []
    ways = [
        call
        for text in sources().values()
        for call in re.findall(r"tantivy\.Document[.(]\w*", text)
    ]
    assert set(ways) == {"tantivy.Document.from_dict"}


def sources() -> dict[str, str]:
    """Text of every module of the engines."""
    return {m.file: m.path.read_text(encoding="utf-8") for m in modules("harness_engines").values()}


_slow = pytest.mark.slow


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    for name in ("number", "time"):
        builder.add_integer_field(name, indexed=True, fast=True)
    builder.add_text_field("text", tokenizer_name="raw")
    return builder.build()


SCHEMA = _schema()


def searcher(folder: Path, parts: Sequence[Sequence[tuple[int, int]]]) -> tantivy.Searcher:
    """Index pairs of number and time, each of ``parts`` in a segment of its own."""
    index = tantivy.Index(SCHEMA, path=str(folder))
    for part in parts:
        with index.writer(15_000_000, 1) as writer:
            for number, time in part:
                row = {"number": number, "time": time, "text": "same"}
                writer.add_document(tantivy.Document.from_dict(row, index.schema))
    index.reload()
    return index.searcher()


ALL = tantivy.Query.all_query()
WRITTEN = [[(9, 1), (4, 2), (7, 2)], [(1, 2), (-3, 1), (8, 3)]]


def test_equal_scores_go_by_number_over_all_segments(tmp_path: Path) -> None:
    found = searcher(tmp_path, WRITTEN)
    assert found.num_segments == 2
    for k in range(1, 8):
        assert [hit.document for hit in best(found, ALL, k, schema=SCHEMA, ids="number")] == (
            [-3, 1, 4, 7, 8, 9][:k]
        )


def test_a_field_orders_as_a_score_does(tmp_path: Path) -> None:
    found = searcher(tmp_path, WRITTEN)
    whole = [Keyed(8, 3), Keyed(1, 2), Keyed(4, 2), Keyed(7, 2), Keyed(-3, 1), Keyed(9, 1)]
    for k in range(1, 8):
        assert best(found, ALL, k, schema=SCHEMA, ids="number", by="time") == whole[:k]


def test_a_time_too_long_for_a_float_keeps_its_last_digit(tmp_path: Path) -> None:
    found = searcher(tmp_path, [[(1, 2**62), (2, 2**62 + 1), (3, -(2**63))]])
    hits = best(found, ALL, 3, schema=SCHEMA, ids="number", by="time")
    assert hits == [Keyed(2, 2**62 + 1), Keyed(1, 2**62), Keyed(3, -(2**63))]


@pytest.mark.parametrize(("parts", "k"), [(WRITTEN, 0), (WRITTEN, -1), ([], 5), ([], 3)])
def test_none_are_wanted_and_tantivy_does_not_panic(
    tmp_path: Path, parts: Sequence[Sequence[tuple[int, int]]], k: int
) -> None:
    found = searcher(tmp_path, parts)
    assert best(found, ALL, k, schema=SCHEMA, ids="number") == []
    assert parts or first(found, ALL, k, ids="number", by=None) == Columns((), ())


@given(
    times=st.lists(st.integers(0, 3), min_size=1, max_size=40),
    cut=st.integers(0, 40),
    k=st.integers(1, 45),
)
@settings(max_examples=20, deadline=None)
def test_where_segments_end_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], cut: int, k: int
) -> None:
    numbered = list(enumerate(times))[::-1]
    found = searcher(tmp_path_factory.mktemp("cut"), [numbered[:cut], numbered[cut:]])
    by_hand = sorted(enumerate(times), key=lambda pair: (-pair[1], pair[0]))[:k]
    assert best(found, ALL, k, schema=SCHEMA, ids="number", by="time") == [
        Keyed(*pair) for pair in by_hand
    ]


class CountingHits:
    """Remembers how many hits Tantivy was asked for, time after time."""

    def __init__(self, searcher: tantivy.Searcher) -> None:
        self.searcher, self.limits = searcher, list[int]()
        self.num_docs, self.fast_field_values = searcher.num_docs, searcher.fast_field_values

    def search(
        self, query: tantivy.Query, limit: int, *, count: bool, order_by_field: str | None
    ) -> tantivy.SearchResult:
        self.limits.append(limit)
        return self.searcher.search(query, limit, count=count, order_by_field=order_by_field)


@given(
    times=st.lists(st.integers(0, 3), min_size=1, max_size=40),
    cut=st.integers(0, 40),
    k=st.integers(1, 45),
    by=st.sampled_from(["time", None]),
)
@settings(max_examples=20, deadline=None)
def test_documents_in_order_are_fetched_once_and_no_more_than_wanted(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], cut: int, k: int, by: str | None
) -> None:
    numbered = list(enumerate(times))
    cut = max(cut, len(times) // 2 + 1)  # the larger segment comes first
    made = searcher(tmp_path_factory.mktemp("order"), [numbered[:cut], numbered[cut:]])
    counting = CountingHits(made)
    columns = first(counting, ALL, k, ids="number", by=by)  # type: ignore[arg-type]
    assert counting.limits == [min(k, len(times))]
    assert list(map(Keyed, *columns)) == best(made, ALL, k, schema=SCHEMA, ids="number", by=by)


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_long_tie_is_cut(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Segments overlap, and few hits are fetched beyond those wanted, so most are asked again."""
    count = data.draw(st.integers(30, 120))
    numbers = data.draw(st.permutations(range(-40, count - 40)))
    times = [data.draw(st.sampled_from([1, 1, 1, 2, 3])) for _ in numbers]
    pairs = list(zip(numbers, times, strict=True))
    ends = sorted(data.draw(st.lists(st.integers(0, count), max_size=3)))
    parts = [pairs[a:b] for a, b in zip([0, *ends], [*ends, count], strict=True)]
    found = searcher(tmp_path_factory.mktemp("ties"), parts)
    by, k = data.draw(st.sampled_from(["time", None])), data.draw(st.integers(1, count))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lexical_tantivy, "SLACK", data.draw(st.integers(1, 4)))
        hits = best(found, ALL, k, schema=SCHEMA, ids="number", by=by)
    keyed = [(-time if by else -1.0, number) for number, time in pairs]
    assert hits == [Keyed(number, -key) for key, number in sorted(keyed)[:k]]
