"""Tantivy's index: fields, rebuilds, segments and orders."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Event as Signal
from threading import Thread

import pytest
import tantivy
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_engines.contract import IndexUnavailable
from harness_engines.lexical import terms
from harness_engines.lexical.tantivy import analyzer
from harness_engines.stacks.agent_mail.contract import (
    Filters,
    Message,
    MessageCandidate,
    RankingMode,
)
from harness_engines.stacks.agent_mail.tantivy import index
from harness_engines.stacks.agent_mail.tantivy.index import (
    BATCH,
    HASH,
    INDEX,
    LONGEST,
    ORDER,
    SHORTEST,
    FieldCopies,
    OpenIndex,
    Segment,
    SegmentIds,
    ascend,
    batches,
    document,
    fields,
    grams,
    noted_layout,
    opened,
    schema,
    schema_hash,
)
from harness_engines.stacks.agent_mail.tantivy.query import Compiler, counted, cut, listed, matching
from tests.make.mail_engines import NONE, WEIGHTS, Case, Source, built, case, delete, upsert
from tests.make.mail_messages import NOON, PHRASES, one, passes, some_filters, some_mail, some_text

MAIL = some_mail(21, 60)


def test_every_value_has_a_field_and_every_field_a_value(tmp_path: Path) -> None:
    tantivy.Index(schema(), path=str(tmp_path))
    written = json.loads((tmp_path / "meta.json").read_text())["schema"]
    kinds = {field["name"]: field["type"] for field in written}
    assert list(fields(MAIL.messages[0], WEIGHTS)) != []
    assert set(fields(MAIL.messages[0], WEIGHTS)) == set(kinds)
    assert {name for name, kind in kinds.items() if kind == "i64"} == set(index.NUMBERS)
    assert set(kinds.values()) == {"i64", "text"}, "an unsigned key deletes nothing"


@pytest.mark.parametrize(
    ("name", "value"),
    [("created_ts", "today"), ("message_id", 2**63), ("subject", 5), ("recipients", [1])],
)
def test_another_type_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: object) -> None:
    good = fields(MAIL.messages[0], WEIGHTS)
    monkeypatch.setattr(index, "fields", lambda *_: good | {name: value})
    with pytest.raises(ValueError, match=r"."):
        document(MAIL.messages[0], schema(), WEIGHTS)


def test_other_rules_have_another_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    assert schema_hash(WEIGHTS) == schema_hash(WEIGHTS)
    seen = {schema_hash(WEIGHTS), schema_hash(FieldCopies(3, 4)), schema_hash(FieldCopies(2, 5))}
    changes: dict[str, object] = {
        "TEXTS": ("subject",),
        "grams": lambda _: ("no", "beginnings"),
        "names": lambda text: tuple(text.split()),
        "version": lambda _: "0.0.0",
    }
    for name, value in changes.items():
        with monkeypatch.context() as patch:
            patch.setattr(index, name, value)
            seen.add(schema_hash(WEIGHTS))
    assert len(seen) == 7


@pytest.mark.parametrize("damage", ['{"sha256": "0"}', None, "{", "[]"])
def test_another_schema_is_rebuilt_when_it_is_asked(tmp_path: Path, damage: str | None) -> None:
    root = tmp_path / "mail"
    before = built(root, MAIL.messages[:40]).ids("")
    path = root / HASH
    path.unlink()
    if damage:
        path.write_text(damage)
    mail = case(root, MAIL.messages)
    health = mail.engine.health()
    assert (health.ready, health.reason) == (False, "built with another schema")
    assert mail.told.names == [], "health rebuilds nothing"
    assert mail.ids("") == [m.message_id for m in MAIL.messages] != before
    names = ["index.schema.mismatch", "index.rebuild.start", "index.rebuild.complete"]
    assert mail.told.names == names
    mismatch, start, complete = (payload for _, payload in mail.told.events)
    actual = "0" if damage and "sha256" in damage else None
    assert mismatch == {"expected": schema_hash(WEIGHTS), "actual": actual}
    assert start == {"doc_count": 60, "engine": "tantivy"}
    assert {**complete, "duration_ms": 0} == {**start, "duration_ms": 0}
    assert json.loads(path.read_text()) == {"sha256": schema_hash(WEIGHTS)}
    assert mail.engine.health().ready
    mail.fresh().ids("review")
    assert mail.told.names == names


def test_an_index_without_a_folder_is_not_built_unasked(tmp_path: Path) -> None:
    mail = case(tmp_path / "mail", MAIL.messages)
    with pytest.raises(IndexUnavailable, match="no index here"):
        mail.ids("review")
    assert mail.told.names == []
    (tmp_path / "mail" / INDEX).mkdir(parents=True)
    with pytest.raises(IndexUnavailable, match="no index here"):
        mail.ids("review")


class Slow(Source):
    """A source that waits, once it was asked, until it is told to go on."""

    def __init__(self, messages: Sequence[Message]) -> None:
        super().__init__({m.message_id: m for m in messages})
        self.asked, self.go_on = Signal(), Signal()

    def fetch_batch(self, since_id: int, limit: int) -> Sequence[Message]:
        self.asked.set()
        assert self.go_on.wait(20)
        return super().fetch_batch(since_id, limit)


@contextmanager
def running(work: Callable[..., object], slow: Slow) -> Iterator[None]:
    """Delay work until its source is there."""
    thread = Thread(target=work)
    thread.start()
    try:
        assert slow.asked.wait(20)
        yield
    finally:
        slow.go_on.set()
        thread.join()


def test_who_asks_while_it_is_rebuilt_is_told_so(tmp_path: Path) -> None:
    root = tmp_path / "mail"
    built(root, MAIL.messages)
    (root / HASH).unlink()
    mail = case(root, MAIL.messages)
    mail.engine.source = slow = Slow(MAIL.messages)
    with (
        running(lambda: mail.ids(""), slow),
        pytest.raises(IndexUnavailable, match="being rebuilt"),
    ):
        mail.ids("review")
    assert mail.ids("") == [m.message_id for m in MAIL.messages]


def test_the_old_index_answers_while_the_new_one_is_built(tmp_path: Path) -> None:
    mail = built(tmp_path / "mail", [one(1, "moss")])
    assert mail.ids("moss") == [1]
    mail.engine.source = slow = Slow([one(1, "moss"), one(2, "moss")])
    with running(mail.engine.rebuild, slow):
        assert mail.ids("moss") == [1]
    assert mail.ids("moss") == [1, 2]


IDS = (2, 3, 5, 8)


@pytest.fixture
def mail(tmp_path: Path) -> Case:
    return built(tmp_path / "mail", [one(at, "moss") for at in IDS])


def now(mail: Case) -> OpenIndex:
    return opened(mail.engine.root, frozenset())


def change(mail: Case, *ids: int) -> None:
    for at in ids:
        mail.source.by_id[at] = one(at, "moss")
    mail.engine.update_incremental([upsert(one(at, "moss")) for at in ids])


def test_what_is_added_behind_keeps_the_order(mail: Case) -> None:
    assert now(mail).in_order
    assert list(noted_layout(mail.engine.root / INDEX).values()) == [SegmentIds(2, 8)]
    change(mail, 9, 11)
    change(mail, 12)
    mail.engine.update_incremental([delete(3)])
    assert now(mail).in_order
    assert sorted(filter(None, noted_layout(mail.engine.root / INDEX).values())) == [
        (2, 8),
        (9, 11),
        (12, 12),
    ]


@pytest.mark.parametrize("ids", [(8,), (3,), (1,), (10, 9)])
def test_only_what_is_added_between_breaks_the_order(mail: Case, ids: tuple[int, ...]) -> None:
    change(mail, *ids)
    assert now(mail).in_order == (ids == (8,))
    for depth in range(1, 7):
        assert mail.ids("moss", depth=depth) == sorted({*IDS, *ids})[:depth]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1}', '{"a": [1]}', '{"a": "xy"}'])
def test_a_note_that_cannot_be_read_is_none(mail: Case, text: str) -> None:
    (mail.engine.root / INDEX / ORDER).write_text(text, encoding="utf-8")
    assert noted_layout(mail.engine.root / INDEX) == {}
    assert not now(mail).in_order
    assert mail.fresh().ids("moss", depth=3) == [2, 3, 5]


def test_a_segment_without_a_note_is_read_by_who_writes_next(mail: Case) -> None:
    (mail.engine.root / INDEX / ORDER).unlink()
    found = now(mail)
    assert not found.in_order
    assert index.read(found.searcher, found.segments, {}) == {
        found.segments[0].name: SegmentIds(2, 8)
    }
    change(mail, 9)
    assert now(mail).in_order


@pytest.mark.parametrize(
    ("note", "ascends"),
    [
        ({"a": SegmentIds(1, 4), "b": SegmentIds(4, 4)}, True),
        ({"a": SegmentIds(1, 4), "b": SegmentIds(3, 3)}, False),
        ({"a": SegmentIds(1, 4), "b": None}, False),
        ({"a": SegmentIds(1, 4)}, False),
    ],
)
def test_a_note_of_part_of_the_segments_is_not_enough(
    note: dict[str, SegmentIds | None], *, ascends: bool
) -> None:
    assert ascend([Segment("a", 2, None), Segment("b", 1, None)], note) == ascends
    assert not ascend([], {})


@given(seed=st.integers(0, 10_000))
@settings(max_examples=5, deadline=None)
def test_order_does_not_matter(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng = Random(seed)
    texts = [rng.choice(["moss", "moss stone", "stone moss fern"]) for _ in range(60)]
    messages = [one(at, text) for at, text in enumerate(texts, start=1)]
    mail = built(tmp_path_factory.mktemp("order") / "mail", messages[:40])
    mail.engine.update_incremental([upsert(message) for message in messages[40:]])
    assert now(mail).in_order
    copied = Path(shutil.copytree(mail.engine.root, mail.engine.root.with_name("copied")))
    (copied / INDEX / ORDER).unlink()
    slow = case(copied, messages)
    assert not now(slow).in_order
    for _ in range(20):
        text, filters = rng.choice(["moss", "stone fern", some_text(rng)]), some_filters(rng)
        asked = rng.choice([NONE, filters]), rng.choice(list(RankingMode)), rng.randrange(70)
        assert mail.candidates(text, *asked) == slow.candidates(text, *asked)
        assert mail.engine.typeahead("mo", NONE, 9) == slow.engine.typeahead("mo", NONE, 9)


SENT = {5: NOON, 2: NOON + 1, 9: NOON + 1, 4: NOON - 3}
ALL = tantivy.Query.all_query()


@pytest.fixture
def four(tmp_path: Path) -> OpenIndex:
    built(tmp_path / "mail", [one(at, "moss", created_ts=ts) for at, ts in SENT.items()])
    return opened(tmp_path / "mail", frozenset())


@pytest.mark.parametrize("depth", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    ("ranking", "order"),
    [(RankingMode.RELEVANCE, [2, 4, 5, 9]), (RankingMode.RECENCY, [2, 9, 5, 4])],
)
def test_one_more_than_is_shown(
    four: OpenIndex, ranking: RankingMode, order: list[int], depth: int
) -> None:
    moss = tantivy.Query.term_query(four.folder.schema, "subject", "moss")
    score = four.searcher.search(moss, 1).hits[0][0]
    matched = matching(four, moss, ranking, depth)
    assert matched == [MessageCandidate(at, score) for at in order[: depth + 1]]
    assert listed(four, ALL, ranking, depth) == [
        MessageCandidate(at, 0.0) for at in order[: depth + 1]
    ]


def test_by_time_each_keeps_its_own_score(tmp_path: Path) -> None:
    built(tmp_path / "mail", [one(1, "moss"), one(2, "moss", "fern stone moss", created_ts=1)])
    four = opened(tmp_path / "mail", frozenset())
    either = tantivy.Query.boolean_query([
        (tantivy.Occur.Should, tantivy.Query.term_query(four.folder.schema, name, "moss"))
        for name in ("subject", "body")
    ])
    best = matching(four, either, RankingMode.RELEVANCE, 5)
    assert [c.message_id for c in best] == [2, 1]
    assert matching(four, either, RankingMode.RECENCY, 5) == best[::-1]


def test_the_one_too_many_is_cut_and_says_that_there_are_more(four: OpenIndex) -> None:
    two = [MessageCandidate(1, 2.0), MessageCandidate(2, 1.0)]
    for found, depth, ends in ((two, 1, False), (two, 2, True), ([], 0, True)):
        kept = cut(found, depth, "tantivy", "moss")
        assert (kept.candidates, kept.exhausted) == (tuple(found[:depth]), ends)
    assert counted(four.searcher, ALL) == 4
    assert counted(four.searcher, tantivy.Query.empty_query()) == 0


@pytest.mark.parametrize(
    "text", ["moss", "Moss FERN", "moss fern stone tide", "x" * 256, "NOTE or"]
)
def test_words_of_letters_alone_are_asked_as_any_others_are(tmp_path: Path, text: str) -> None:
    texts = ["moss", "fern stone", "tide fern moss", "stone note or moss", "x" * 256]
    built(tmp_path / "mail", [one(at, words, words) for at, words in enumerate(texts, start=1)])
    four = opened(tmp_path / "mail", frozenset())
    compiler = Compiler(four.folder.schema, analyzer("none"), FieldCopies(2, 4))
    quick, slow = compiler.query(text), compiler.query(f" {text}")
    if quick is None or slow is None:
        assert quick is slow
    else:
        asked = (matching(four, query, RankingMode.RELEVANCE, 9) for query in (quick, slow))
        assert next(asked) == next(asked) != []


SUBJECTS = some_mail(11, 400)


@pytest.fixture(scope="module")
def ahead(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return built(tmp_path_factory.mktemp("typeahead") / "mail", SUBJECTS.messages)


def read(text: str) -> list[str]:
    return [word.lower() for word in terms.words(terms.folded(text))]


def by_hand(prefix: str, filters: Filters) -> set[int]:
    """Messages of which a subject's word begins with the last word, the others standing in it."""
    *whole, last = read(prefix)
    found = set()
    for message in SUBJECTS.messages:
        words = read(message.subject)
        begun = any(word.startswith(last) for word in words)
        if begun and set(whole) <= set(words) and passes(message, filters):
            found.add(message.message_id)
    return found


@pytest.mark.slow
def test_beginnings_are_found_as_by_hand(ahead: Case) -> None:
    rng = Random(4)
    words = sorted({word for phrase in PHRASES for word in analyzer("none").analyze(phrase)})
    tried = shown = 0
    for word in words:
        for length in range(SHORTEST, len(word) + 1):
            prefix = word[:length].upper() if rng.random() < 0.2 else word[:length]
            if rng.random() < 0.3:
                prefix = f"{rng.choice(words)} {prefix}"
            if len(analyzer("none").analyze(prefix)[-1]) < SHORTEST:
                continue
            filters = some_filters(rng) if rng.random() < 0.5 else NONE
            got = {c.message_id for c in ahead.engine.typeahead(prefix, filters, 1_000)}
            assert got == by_hand(prefix, filters), prefix
            tried, shown = tried + 1, shown + bool(got)
    assert tried > 200
    assert shown > 100
    long = ahead.engine.typeahead("de", NONE, 1_000)
    assert list(long) == sorted(long, key=lambda c: (-c.raw_score, c.message_id))
    for k in (0, 1, 2, 7, 50):
        assert ahead.engine.typeahead("de", NONE, k) == long[:k]


@pytest.mark.parametrize("typed", ["", " ", "d", "!", "-", "🎉", "\ud800", "deployment f"])
def test_too_little_finds_nothing(ahead: Case, typed: str) -> None:
    assert ahead.engine.typeahead(typed, NONE, 10) == ()


def test_of_a_long_word_the_first_characters_count(tmp_path: Path) -> None:
    word = "internationalisations"
    assert len(word) == LONGEST
    ahead = built(tmp_path / "mail", [one(1, word + "x"), one(2, word[:-1]), one(3, body=word)])
    assert [c.message_id for c in ahead.engine.typeahead(word + "yz", NONE, 9)] == [1]
    assert [c.message_id for c in ahead.engine.typeahead(word[:-1], NONE, 9)] == [2, 1]


@given(st.text(max_size=30))
def test_any_text_may_be_being_typed(ahead: Case, typed: str) -> None:
    assert len(ahead.engine.typeahead(typed, NONE, 3)) <= 3


@given(st.lists(st.text(max_size=25), max_size=5))
def test_beginnings_are_all_and_only_those_of_two_to_twenty_one(words: list[str]) -> None:
    found = grams(words)
    assert len(found) == len(set(found))
    assert set(found) == {word[:n] for word in words for n in range(2, 22) if n <= len(word)}


def test_every_message_after_the_mark_once_and_in_order() -> None:
    source = Source({at: one(at) for at in range(1, 2 * BATCH + 8)})
    read = [[message.message_id for message in batch] for batch in batches(source, 5)]
    assert [len(batch) for batch in read] == [BATCH, BATCH, 2]
    assert [at for batch in read for at in batch] == list(range(6, 2 * BATCH + 8))
