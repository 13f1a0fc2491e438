"""Search by FTS5 and by LIKE: what is asked, found and left out."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness_engines.contract import EngineError, IndexUnavailable
from harness_engines.lexical.grammar import refuses as refusals
from harness_engines.lexical.terms import normalise
from harness_engines.stacks.agent_mail.contract import (
    CandidateList,
    ChangeKind,
    DocChange,
    Filters,
    Message,
    MessageCandidate,
    RankingMode,
    TimeRange,
)
from harness_engines.stacks.agent_mail.sqlite import schema, search
from harness_engines.stacks.agent_mail.sqlite.schema import MESSAGES, index_of
from harness_engines.stacks.agent_mail.sqlite.search import (
    LONGEST_TERM,
    MOST_REFUSED,
    MOST_TERMS,
    OPERATORS,
    ColumnWeights,
    Fts5Engine,
    LikeEngine,
    extract_like_terms,
    match_expression,
    refused_terms,
    sanitize_fts_query,
)
from harness_engines.stacks.agent_mail.sqlite.store import MessageStore, opened
from tests.make import mail_changing as changing
from tests.make.mail_messages import NOON, STEP, Mail, one, passes, some_filters, some_text, stored

WEIGHTS = ColumnWeights(subject=2.0, body=1.0, identifiers=4.0)
RELEVANCE, RECENCY = RankingMode.RELEVANCE, RankingMode.RECENCY
TYPED = st.text() | st.text("ab部é_-.\"'*+():^~{}[]\\/%\0 \ud800ANDORNOTEAR", max_size=60)
TEXTS = (
    (1, "br 2tnl", "both words, side by side: br 2tnl br 2tnl"),
    (2, "notes", "see br-2tnl for more"),
    (3, "stone", "moss"),
    (4, "moss", "stone"),
    (5, "crash", "migrate and migration"),
    (6, "naïve Straße", "部署 失败 γάμμα cafe\u0301"),
    (7, "it doesn't", "read_csv in src/app/main.py of C++ 100%"),
    (8, "before\0after", ""),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "mail.db"
    with stored(path, (one(*text) for text in TEXTS)):
        pass
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made, tmp_path))


@pytest.fixture
def engine(path: Path) -> Iterator[Fts5Engine]:
    with opened(path, write=True) as store:
        yield Fts5Engine(store, WEIGHTS)


def ask(engine: Fts5Engine, text: str, filters: Filters | None = None) -> CandidateList:
    return engine.search(text, filters or Filters(), RELEVANCE, 100)


def ids(found: CandidateList) -> list[int]:
    return [candidate.message_id for candidate in found.candidates]


@given(text=TYPED)
@example(text=" ".join(f"w{n}-x{n}" for n in range(600)))
def test_no_text_is_an_error(store: MessageStore, text: str) -> None:
    found = ask(Fts5Engine(store, WEIGHTS), text)
    assert (found.used_like_fallback, found.note) == (False, "")
    assert found.method == ("fts5" if normalise(text) else "filter_only")
    LikeEngine(store).search(text, Filters(), RELEVANCE, 3)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("br-2tnl", [2, 1]),
        ("BR-2TNL", [2, 1]),
        ('"br-2tnl"', [1, 2]),
        ("br_2tnl", [1, 2]),
        ("doesn't", [7]),
        ("C++", [7]),
        ("src/app/main.py", [7]),
        ("read_csv:12", [7]),
        ("main.py", [7]),
        ("(crash", [5]),
        ('"crash', [5]),
        ("crash\0boom", [5]),
        ("crash AND", [5]),
        ("OR crash", [5]),
        ("NEAR(crash", [5]),
        ("crash -moss", [5]),
        ("moss -stone", []),
        ("subject:crash", [5]),
        ("*crash", [5]),
        ("migra*", [5]),
        ("migra", []),
        ('"migra*"', []),
        ("!!! crash", [5]),
        ("!!! AND crash", [5]),
        ("部署", [6]),
        ("失", []),
        ("naïve", [6]),
        ("naive", [6]),
        ("strasse", [6]),
        ("cafe\u0301", [6]),
        ("Γάμμα", [6]),
        ("🎉", []),
        ("...", []),
        ("%", []),
        ("after", [8]),
        ("src/app/main.py:br-2tnl", [2, 7]),
    ],
)
def test_what_is_found(engine: Fts5Engine, text: str, found: list[int]) -> None:
    assert ids(ask(engine, text)) == found


def test_depth_and_prefix(engine: Fts5Engine) -> None:
    unweighed = Fts5Engine(engine.store, ColumnWeights(2.0, 1.0, 0.0))
    assert ask(engine, "br*").candidates == ask(unweighed, "br*").candidates != ()
    assert engine.search("stone", Filters(), RELEVANCE, -1).candidates == ()
    assert len(engine.search("stone", Filters(), RELEVANCE, 2**70).candidates) == 2


@pytest.mark.parametrize(
    ("text", "weights", "order"),
    [
        ("stone", ColumnWeights(2.0, 1.0, 1.0), [3, 4]),
        ("stone", ColumnWeights(1.0, 2.0, 1.0), [4, 3]),
        ("br-2tnl", ColumnWeights(1.0, 1.0, 4.0), [2, 1]),
        ("br-2tnl", ColumnWeights(4.0, 1.0, 0.0), [1, 2]),
    ],
)
def test_each_column_has_its_weight(
    engine: Fts5Engine, text: str, weights: ColumnWeights, order: list[int]
) -> None:
    assert ids(ask(Fts5Engine(engine.store, weights), text)) == order


def test_equal_scores_come_by_id(tmp_path: Path) -> None:
    with stored(tmp_path / "ties.db", (one(n, "salt") for n in (9, 3, 7, 1))) as store:
        found = ask(Fts5Engine(store, WEIGHTS), "salt")
    assert ids(found) == [1, 3, 7, 9]
    assert len({candidate.raw_score for candidate in found.candidates}) == 1
    assert found.candidates[0].raw_score > 0
    messages = [one(n, "salt", created_ts=NOON + n * STEP) for n in range(1, 40)]
    with stored(tmp_path / "most.db", [*messages, one(90, "moss")]) as store:
        found = ask(Fts5Engine(store, WEIGHTS), "salt")
    assert ids(found) == list(range(1, 40))
    assert all(0 < candidate.raw_score < 1e-3 for candidate in found.candidates)


def test_it_says_what_it_executed(engine: Fts5Engine) -> None:
    found = ask(engine, "stone", Filters(thread_id=""))
    assert found.normalized_query == '"stone"'
    assert found.sql.endswith(" AND m.thread_id = ? ORDER BY score, m.id LIMIT ?")
    again = engine.store.ask(found.sql, (2.0, 1.0, 4.0, found.normalized_query, "", 101))
    assert tuple(MessageCandidate(at, -score) for at, score in again) == found.candidates


@given(seed=st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_a_join_does_not_change_the_answer(store: MessageStore, seed: int) -> None:
    rng = Random(seed)
    engine = Fts5Engine(store, ColumnWeights(rng.random() * 5, rng.random(), 1 / 3))
    text, depth = some_text(rng), rng.randrange(40)
    alone = engine.search(text, Filters(), RELEVANCE, depth)
    joined = engine.search(text, Filters(time_range=TimeRange(min_ts=0)), RELEVANCE, depth)
    assert (alone.candidates, alone.exhausted) == (joined.candidates, joined.exhausted)
    if alone.method == "fts5" and not refusals(text):
        assert " JOIN " in joined.sql
        assert " JOIN " not in alone.sql


@pytest.mark.parametrize(
    ("compiled", "text", "found", "like"),
    [
        (str, "br-2tnl crash", [1, 2, 5], False),
        (lambda _: "(", "(§", [9], True),
        (lambda _: "(", "100%", [7], False),
    ],
    ids=["asked for its words", "without words asked of LIKE", "a word with a sign"],
)
def test_a_refused_query(
    engine: Fts5Engine, compiled: Callable[[str], str], text: str, found: list[int], *, like: bool
) -> None:
    changing.insert(engine.store, one(9, "done (§"))
    answer = ask(Fts5Engine(engine.store, WEIGHTS, compiled=compiled), text)
    assert sorted(ids(answer)) == found
    assert answer.used_like_fallback == like
    if text == "br-2tnl crash":
        because = "FTS5 refused the query (no such column: 2tnl); asked for its words"
        assert (answer.note, answer.normalized_query) == (because, '"br-2tnl" OR "crash"')


def test_the_last_resort_is_like(engine: Fts5Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "sanitize_fts_query", lambda _: "(")
    found = ask(Fts5Engine(engine.store, WEIGHTS, compiled=lambda _: "a-b"), "stone moss")
    assert found.candidates == (MessageCandidate(3, 0.0), MessageCandidate(4, 0.0))
    assert (found.used_like_fallback, found.normalized_query) == (True, None)
    for part in ("asked LIKE", "no such column: b", "syntax error"):
        assert part in found.note


def spoil(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA writable_schema = ON")
        for statement in statements:
            db.execute(statement)


SPOILT = [
    "DROP TABLE messages_fts",
    "DELETE FROM messages_fts_data",
    "UPDATE messages_fts_data SET block = x'deadbeefdeadbeef'",
    *(
        f"DELETE FROM sqlite_master WHERE name = 'messages_fts_{name}'"  # noqa: S608  our own names
        for name in ("data", "idx", "docsize", "config")
    ),
]


@pytest.mark.parametrize("statement", SPOILT)
def test_a_broken_index_is_not_ready_until_it_is_rebuilt(path: Path, statement: str) -> None:
    spoil(path, statement)
    with opened(path, write=True) as store:
        engine = Fts5Engine(store, WEIGHTS)
        with pytest.raises(IndexUnavailable):
            ask(engine, "br-2tnl")
        assert not engine.health().ready
        assert engine.health().reason
        assert ids(ask(engine, "")) == [text[0] for text in TEXTS]
        assert LikeEngine(store).search("br-2tnl", Filters(), RELEVANCE, 9).candidates
        assert engine.rebuild().documents == len(TEXTS)
    with opened(path) as store:
        assert ids(ask(Fts5Engine(store, WEIGHTS), "br-2tnl")) == [2, 1]
        assert Fts5Engine(store, WEIGHTS).health().ready


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("INSERT INTO messages_fts (messages_fts) VALUES ('delete-all')", "0 messages indexed"),
        ("DROP TRIGGER messages_fts_update", "no messages_fts_update"),
        ("DROP TABLE messages", "no messages_fts_insert"),
    ],
)
def test_an_index_that_is_not_kept_is_not_healthy(path: Path, statement: str, reason: str) -> None:
    spoil(path, statement)
    with opened(path) as store:
        assert reason in Fts5Engine(store, WEIGHTS).health().reason


def test_health_counts_what_is_indexed(engine: Fts5Engine) -> None:
    health = engine.health()
    assert (health.ready, health.documents, health.reason) == (True, len(TEXTS), "")
    changes = [changing.insert(engine.store, one(90)), DocChange(ChangeKind.DELETE, 404)]
    assert engine.update_incremental(changes) == 2
    assert engine.health().documents == len(TEXTS) + 1


def test_without_index_messages_are_written_and_like_finds(engine: Fts5Engine) -> None:
    engine.remove()
    changing.insert(engine.store, one(9, "salt"))
    changing.delete(engine.store, 1)
    with pytest.raises(IndexUnavailable, match="no such table: messages_fts"):
        ask(engine, "salt")
    found = LikeEngine(engine.store).search("salt", Filters(), RELEVANCE, 9)
    assert ids(found) == [9]
    left = engine.store.ask("SELECT name FROM sqlite_master WHERE name LIKE 'messages_fts%'")
    assert left == []
    engine.rebuild()
    assert ids(ask(engine, "salt")) == [9]


def test_a_failed_rebuild_is_undone(engine: Fts5Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {**schema.index_of(schema.MESSAGES), "messages_fts_update": "CREATE NONSENSE"}
    monkeypatch.setattr(schema, "index_of", lambda _: whole)
    with pytest.raises(sqlite3.OperationalError):
        engine.rebuild()
    assert ids(ask(engine, "br-2tnl")) == [2, 1]


def test_closed_it_is_an_error_of_the_engine(path: Path) -> None:
    with opened(path) as store:
        asks = Fts5Engine(store, WEIGHTS).search, LikeEngine(store).search
    for ask_it, text in product(asks, ("salt", "")):
        with pytest.raises(EngineError):
            ask_it(text, Filters(), RELEVANCE, 9)
    assert not any("fts" in statement for statement in schema.TABLES)


@pytest.fixture(scope="module")
def made_like(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "mail.db"
    messages = (
        one(1, "salt", "water", created_ts=NOON),
        one(2, "salt", "moss", created_ts=NOON + STEP),
        one(3, "100% of a_b", "back\\slash", created_ts=NOON + STEP),
        one(4, "axb", "今天部署失败 🎉", created_ts=NOON + 2 * STEP),
        one(5, "Zoë", "deployments", created_ts=NOON),
    )
    with stored(path, messages):
        pass
    return path


@pytest.fixture
def engine_like(made_like: Path, tmp_path: Path) -> Iterator[LikeEngine]:
    with opened(Path(shutil.copy(made_like, tmp_path)), write=True) as store:
        yield LikeEngine(store)


def ids_like(engine: LikeEngine, text: str, ranking: RankingMode = RELEVANCE) -> list[int]:
    found = engine.search(text, Filters(), ranking, 10)
    assert found.exhausted
    return ids(found)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("salt", [1, 2]),
        ("SALT", [1, 2]),
        ("salt water", [1]),
        ("salt stone", []),
        ("salt AND water", [1]),
        ("salt -moss", [1]),
        ("-salt", [3, 4, 5]),
        ('-salt -"back\\slash" -Zo*', [4]),
        ('"salt water"', []),
        ("a_b", [3]),
        ("%", [3]),
        ("_", [3]),
        ("\\", [3]),
        ("部署", [4]),
        ("败", [4]),
        ("🎉", [4]),
        ("x", [4]),
        ("zoë", [5]),
        ("ploy", [5]),
        ("' OR 1 --", []),
    ],
)
def test_like_finds_every_term(engine_like: LikeEngine, text: str, found: list[int]) -> None:
    assert ids_like(engine_like, text) == found


def test_like_says_that_it_is_a_fallback_and_what_it_executed(engine_like: LikeEngine) -> None:
    found = engine_like.search("salt", Filters(), RELEVANCE, 1)
    assert (found.candidates, found.exhausted) == ((MessageCandidate(1, 0.0),), False)
    assert (found.used_like_fallback, found.normalized_query) == (True, None)
    assert (found.method, engine_like.name) == ("like", "like")
    assert engine_like.store.ask(found.sql, ("%salt%", "%salt%", 10)) == [(1,), (2,)]
    assert ids_like(engine_like, "s", RECENCY) == [2, 3, 1, 5]
    listed = engine_like.search(" ", Filters(time_range=TimeRange(NOON + 1)), RELEVANCE, 10)
    assert ids(listed) == [2, 3, 4]
    assert (listed.method, listed.used_like_fallback) == ("filter_only", False)


def test_random_questions_find_what_the_rules_say(store: MessageStore, mail: Mail) -> None:
    rng, answered = Random(8), 0
    for _ in range(400):
        text, filters = some_text(rng), some_filters(rng)
        terms, refused = (
            [term.lower() for term in read(text)] for read in (extract_like_terms, refused_terms)
        )

        def has(m: Message, term: str) -> bool:
            return term in m.subject.lower() or term in m.body.lower()

        expected = [
            m.message_id
            for m in mail.messages
            if passes(m, filters)
            and all(has(m, term) for term in terms)
            and not any(has(m, term) for term in refused)
        ]
        assert ids(LikeEngine(store).search(text, filters, RELEVANCE, 1_000)) == expected
        answered += 0 < len(expected) < len(mail.messages)
    assert answered > 40


@pytest.mark.parametrize("text", ["x" * 60_000, "%_" * 60_000, '"' + "é " * 60_000 + '"'])
def test_a_term_longer_than_a_pattern_may_be_is_cut(engine_like: LikeEngine, text: str) -> None:
    assert ids_like(engine_like, text) == []


def test_without_the_message_table_it_is_not_ready(engine_like: LikeEngine) -> None:
    engine_like.store.db.executescript("PRAGMA foreign_keys = OFF; DROP TABLE messages")
    with pytest.raises(IndexUnavailable, match="table messages: no such table"):
        ids_like(engine_like, "salt")


@pytest.fixture(scope="module")
def fts() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as db:
        made = index_of(MESSAGES)["messages_fts"]
        db.execute(made.replace(", content='messages_words', content_rowid='id'", ""))
        yield db


def accepted(fts: sqlite3.Connection, asked: str) -> None:
    fts.execute("SELECT rowid FROM messages_fts WHERE messages_fts MATCH ?", (asked,)).fetchall()


@given(text=TYPED)
def test_fts5_refuses_nothing(fts: sqlite3.Connection, text: str) -> None:
    if asked := match_expression(text):
        accepted(fts, asked)
    else:
        assert not normalise(text)
    if plain := sanitize_fts_query(text):
        accepted(fts, plain)
    else:
        words = "".join(c if c.isalnum() else " " for c in text).upper().split()
        assert set(words) <= OPERATORS or refusals(text)


@pytest.mark.parametrize("bare", ["br-2tnl", "don't", "a.b", "C++", "a:b", '"', "(x", "x AND", "*"])
def test_fts5_refuses_what_stands_bare(fts: sqlite3.Connection, bare: str) -> None:
    with pytest.raises(sqlite3.OperationalError):
        accepted(fts, bare)
    accepted(fts, match_expression(bare))
    accepted(fts, sanitize_fts_query(bare) or '""')


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("salt water", '"salt" OR "water"'),
        ('"salt water"', '"salt water"'),
        ("9428bc6", '"9428bc6"'),
        ('"9428bc6"', '"9428bc6"'),
        ("9428bc6,plan", '("9428bc6,plan" OR identifiers : "9428bc6")'),
        ("br-2tnl", '("br-2tnl" OR identifiers : "br\ue02d2tnl")'),
        ('"br-2tnl"', '"br-2tnl"'),
        ("BR_2.x/y", '("BR_2.x/y" OR identifiers : "br\ue05f2\ue02ex\ue02fy")'),
        ("a-b:c-d:a-b", '("a-b:c-d:a-b" OR identifiers : "a\ue02db" OR identifiers : "c\ue02dd")'),
        ("don't", '"don\'t"'),
        ("mig*", '{subject body} : "mig"*'),
        ("a-mig*", '("a-mig*" OR identifiers : "a\ue02dmig")'),
        ('"mig*"', '"mig*"'),
        ("salt -water", '("salt") NOT ("water")'),
        ("-salt NOT water", '"salt" OR "water"'),
        ("+salt +water", '"salt" AND "water"'),
        ("+salt water", '("salt") AND ("salt" OR "water" OR "water")'),
        ("🎉 !!", '"zzf09f8e89"'),
        ("§ !!", '"§ !!"'),
        ('"', '""""'),
        ("  \0 ", ""),
    ],
)
def test_what_fts5_is_asked_of_mail(text: str, asked: str) -> None:
    assert match_expression(text) == asked


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ('salt -moss -"sea water" -br-2tnl -mig*', ("moss", "sea water", "br-2tnl", "mig")),
        ("-moss NOT moss", ("moss",)),
        ("salt water", ()),
        (" ".join(f"-w{n}" for n in range(90)), tuple(f"w{n}" for n in range(MOST_REFUSED))),
    ],
)
def test_what_must_not_be_there_for_like(text: str, terms: tuple[str, ...]) -> None:
    assert refused_terms(text) == terms


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("salt AND (water", '"salt" OR "water"'),
        ("br-2tnl -moss", '"br-2tnl"'),
        ("/[* salt ]/ --", '"salt"'),
        ("mig* a-mig*", '{subject body} : "mig"* OR "a-mig"'),
        ("salt salt", '"salt"'),
        ("部署 é", '"zze983a8e7bdb2" OR "e"'),
        ("Near AND not", None),
        ("-salt", None),
        ("!!! §", None),
        ("", None),
    ],
)
def test_what_is_left_for_fts5(text: str, asked: str | None) -> None:
    assert sanitize_fts_query(text) == asked


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("the br-2tnl a src/app.py:12", ("the", "br-2tnl", "src/app.py", "12")),
        ('salt "stone moss" -fern', ("salt", "stone moss")),
        ("Salt salt SALT", ("Salt",)),
        ("a near b", ("a", "near", "b")),
        ("one two three four five six", ("one", "two", "three", "four", "five")),
        ("x", ("x",)),
        ("失 a", ("失",)),
        ("🎉 🚀", ("🎉", "🚀")),
        ("100%", ("100",)),
        ("-salt", ()),
        (" \0 ", ()),
    ],
)
def test_what_is_left_for_like(text: str, terms: tuple[str, ...]) -> None:
    assert extract_like_terms(text) == terms


@given(text=TYPED)
def test_only_a_text_that_looks_for_nothing_has_no_term(text: str) -> None:
    terms = extract_like_terms(text)
    assert bool(terms) == bool(normalise(text) and not refusals(text))
    assert len(terms) <= MOST_TERMS
    assert len({term.lower() for term in terms}) == len(terms)
    assert all(0 < len(term) <= LONGEST_TERM and term in normalise(text) for term in terms)
