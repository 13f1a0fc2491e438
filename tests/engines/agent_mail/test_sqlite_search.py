"""Search by FTS5 and by LIKE: what is asked, found and left out."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_engines.contract import EngineError, IndexUnavailable
from harness_engines.lexical.grammar import refuses as refusals
from harness_engines.lexical.terms import normalise
from harness_engines.stacks.agent_mail.contract import (
    CandidateList,
    ChangeKind,
    DocChange,
    Filters,
    Importance,
    MessageCandidate,
    RankingMode,
    TimeRange,
)
from harness_engines.stacks.agent_mail.sqlite import schema
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
from tests.make.mail import changing
from tests.make.mail.messages import (
    NOON,
    STEP,
    Mail,
    one,
    passes,
    some_filters,
    some_mail,
    some_text,
    stored,
)

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
def test_no_text_is_an_error_of_fts5(store: MessageStore, text: str) -> None:
    found = ask(Fts5Engine(store, WEIGHTS), text)
    assert not found.used_like_fallback
    assert not found.note
    assert found.method == ("fts5" if normalise(text) else "filter_only")


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
    ],
)
def test_what_is_found(engine: Fts5Engine, text: str, found: list[int]) -> None:
    assert ids(ask(engine, text)) == found


def test_text_after_a_nul_is_found(engine: Fts5Engine) -> None:
    changing.insert(engine.store, one(9, "before\0after"))
    assert ids(ask(engine, "after")) == [9]


def test_a_piece_with_several_joined_tokens_asks_for_each(engine: Fts5Engine) -> None:
    assert set(ids(ask(engine, "src/app/main.py:br-2tnl"))) == {2, 7}


def test_the_beginning_of_a_word_does_not_count_in_identifiers(engine: Fts5Engine) -> None:
    unweighed = Fts5Engine(engine.store, ColumnWeights(2.0, 1.0, 0.0))
    assert ask(engine, "br*").candidates == ask(unweighed, "br*").candidates != ()


def test_each_column_has_its_weight(engine: Fts5Engine) -> None:
    def order(text: str, weights: ColumnWeights) -> list[int]:
        return ids(ask(Fts5Engine(engine.store, weights), text))

    assert order("stone", ColumnWeights(2.0, 1.0, 1.0)) == [3, 4]
    assert order("stone", ColumnWeights(1.0, 2.0, 1.0)) == [4, 3]
    assert order("br-2tnl", ColumnWeights(1.0, 1.0, 4.0)) == [2, 1]
    assert order("br-2tnl", ColumnWeights(4.0, 1.0, 0.0)) == [1, 2]


def test_equal_scores_come_by_id(tmp_path: Path) -> None:
    with stored(tmp_path / "ties.db", (one(n, "salt") for n in (9, 3, 7, 1))) as store:
        found = ask(Fts5Engine(store, WEIGHTS), "salt")
    assert ids(found) == [1, 3, 7, 9]
    assert len({candidate.raw_score for candidate in found.candidates}) == 1
    assert found.candidates[0].raw_score > 0


def test_scores_fall_and_are_higher_for_better(store: MessageStore) -> None:
    found = ask(Fts5Engine(store, WEIGHTS), "deployment failed review")
    keys = [(-candidate.raw_score, candidate.message_id) for candidate in found.candidates]
    assert keys == sorted(keys)
    assert len({score for score, _ in keys}) > 3


def test_the_first_of_many_are_the_same_at_every_depth(store: MessageStore, mail: Mail) -> None:
    rng, engine = Random(3), Fts5Engine(store, WEIGHTS)
    for _ in range(60):
        text, filters, ranking = some_text(rng), some_filters(rng), rng.choice((RELEVANCE, RECENCY))
        whole = engine.search(text, filters, ranking, len(mail.messages))
        assert whole.exhausted
        for depth in (0, 1, 5, len(whole.candidates)):
            found = engine.search(text, filters, ranking, depth)
            assert found.candidates == whole.candidates[:depth]
            assert found.exhausted == (depth >= len(whole.candidates))


def test_a_depth_below_none_is_none_and_a_huge_one_is_all(engine: Fts5Engine) -> None:
    assert engine.search("stone", Filters(), RELEVANCE, -1).candidates == ()
    assert len(engine.search("stone", Filters(), RELEVANCE, 2**70).candidates) == 2


def test_recency_is_newest_first_then_by_id(store: MessageStore, mail: Mail) -> None:
    found = Fts5Engine(store, WEIGHTS).search("deployment review", Filters(), RECENCY, 1_000)
    keys = [(-mail.by_id[message_id].created_ts, message_id) for message_id in ids(found)]
    assert keys == sorted(keys)
    assert len({when for when, _ in keys}) < len(keys)
    best = Fts5Engine(store, WEIGHTS).search("deployment review", Filters(), RELEVANCE, 1_000)
    assert sorted(found.candidates, key=hash) == sorted(best.candidates, key=hash)


@pytest.mark.parametrize("blank", ["", "  \t\n", "\0"])
def test_without_a_text_all_that_pass_are_listed(
    store: MessageStore, mail: Mail, blank: str
) -> None:
    filters = Filters(importance=frozenset({Importance.HIGH}), sender_name="Zoë")
    passing = [m for m in mail.messages if passes(m, filters)]
    found = ask(Fts5Engine(store, WEIGHTS), blank, filters)
    assert found.candidates == tuple(MessageCandidate(m.message_id, 0.0) for m in passing) != ()
    assert (found.method, found.used_like_fallback) == ("filter_only", False)
    newest = Fts5Engine(store, WEIGHTS).search(blank, filters, RECENCY, 1_000)
    by_time = sorted(passing, key=lambda m: (-m.created_ts, m.message_id))
    assert ids(newest) == [m.message_id for m in by_time]


def test_it_says_what_it_executed(engine: Fts5Engine) -> None:
    found = ask(engine, "stone", Filters(thread_id=""))
    assert found.normalized_query == '"stone"'
    assert found.sql.endswith(" AND m.thread_id = ? ORDER BY score, m.id LIMIT ?")
    params = (2.0, 1.0, 4.0, found.normalized_query, "", 101)
    again = engine.store.ask(found.sql, params)
    assert [(message_id, -score) for message_id, score in again] == [
        (candidate.message_id, candidate.raw_score) for candidate in found.candidates
    ]


@given(seed=st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_alone_or_joined_to_the_messages_the_answer_is_the_same(
    store: MessageStore, seed: int
) -> None:
    rng = Random(seed)
    engine = Fts5Engine(store, ColumnWeights(rng.random() * 5, rng.random(), 1 / 3))
    text, depth = some_text(rng), rng.randrange(40)
    alone = engine.search(text, Filters(), RELEVANCE, depth)
    joined = engine.search(text, Filters(time_range=TimeRange(min_ts=0)), RELEVANCE, depth)
    assert (alone.candidates, alone.exhausted) == (joined.candidates, joined.exhausted)
    if alone.method == "fts5" and not refusals(text):
        assert " JOIN " in joined.sql
        assert " JOIN " not in alone.sql


def test_the_same_every_time(store: MessageStore, tmp_path: Path, mail: Mail) -> None:
    with stored(tmp_path / "again.db", mail.messages[::-1]) as other:
        some, same = Fts5Engine(store, WEIGHTS), Fts5Engine(other, WEIGHTS)
        rng = Random(4)
        for text in (some_text(rng) for _ in range(80)):
            assert ask(some, text) == ask(some, text) == ask(same, text)


def test_a_refused_query_is_asked_for_its_words(engine: Fts5Engine) -> None:
    refused = Fts5Engine(engine.store, WEIGHTS, compiled=lambda text: text)
    with pytest.raises(sqlite3.OperationalError, match="no such column: 2tnl"):
        engine.store.ask("SELECT rowid FROM messages_fts WHERE messages_fts MATCH 'br-2tnl'")
    found = ask(refused, "br-2tnl crash")
    assert sorted(ids(found)) == [1, 2, 5]
    assert found.note == "FTS5 refused the query (no such column: 2tnl); asked for its words"
    assert not found.used_like_fallback
    assert found.normalized_query == '"br-2tnl" OR "crash"'


@pytest.mark.parametrize("text", ["(§", "100%"])
def test_a_query_without_words_that_is_refused_is_asked_of_like(
    engine: Fts5Engine, text: str
) -> None:
    def refuse(_: str) -> str:
        return "("

    changing.insert(engine.store, one(9, "done (§"))
    refused = Fts5Engine(engine.store, WEIGHTS, compiled=refuse)
    found = ask(refused, text)
    assert found.used_like_fallback == (text == "(§")
    assert ids(found) == ([9] if text == "(§" else [7])


def test_the_last_resort_is_like_and_says_so(
    engine: Fts5Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "harness_engines.stacks.agent_mail.sqlite.search.sanitize_fts_query", lambda _: "("
    )
    found = ask(Fts5Engine(engine.store, WEIGHTS, compiled=lambda _: "a-b"), "stone moss")
    assert found.candidates == (MessageCandidate(3, 0.0), MessageCandidate(4, 0.0))
    assert found.used_like_fallback
    assert found.normalized_query is None
    assert found.note.endswith("asked LIKE")
    assert "no such column: b" in found.note
    assert "syntax error" in found.note


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


def test_removed_the_messages_can_still_be_written_and_like_finds_them(
    engine: Fts5Engine,
) -> None:
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


def test_a_rebuild_that_fails_leaves_the_index_as_it_was(
    engine: Fts5Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {**schema.index_of(schema.MESSAGES), "messages_fts_update": "CREATE NONSENSE"}
    monkeypatch.setattr(schema, "index_of", lambda _: whole)
    with pytest.raises(sqlite3.OperationalError):
        engine.rebuild()
    assert ids(ask(engine, "br-2tnl")) == [2, 1]


def test_closed_fts5_is_an_error_of_the_engine(path: Path) -> None:
    with opened(path) as store:
        engine = Fts5Engine(store, WEIGHTS)
    for text in ("salt", ""):
        with pytest.raises(EngineError):
            ask(engine, text)


def test_every_table_is_made_whatever_the_index() -> None:
    assert not any("fts" in statement for statement in schema.TABLES)


def test_a_word_in_most_messages_still_scores_above_nothing(tmp_path: Path) -> None:
    messages = [one(n, "salt", created_ts=NOON + n * STEP) for n in range(1, 40)]
    with stored(tmp_path / "most.db", [*messages, one(90, "moss")]) as store:
        found = ask(Fts5Engine(store, WEIGHTS), "salt")
    assert ids(found) == list(range(1, 40))
    assert all(0 < candidate.raw_score < 1e-3 for candidate in found.candidates)


def test_a_thousand_words_are_asked(store: MessageStore) -> None:
    some = some_mail(9, 20).messages
    text = " ".join(f"w{n}-x{n}" for n in range(600)) + " " + some[0].body
    assert ask(Fts5Engine(store, WEIGHTS), text).method == "fts5"


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
    return [candidate.message_id for candidate in found.candidates]


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
def test_what_contains_every_term_is_found(
    engine_like: LikeEngine, text: str, found: list[int]
) -> None:
    assert ids_like(engine_like, text) == found


def test_newest_first_where_that_is_asked_for(engine_like: LikeEngine) -> None:
    assert ids_like(engine_like, "s", RECENCY) == [2, 3, 1, 5]


def test_it_says_that_it_is_a_fallback_and_what_it_executed(engine_like: LikeEngine) -> None:
    found = engine_like.search("salt", Filters(), RELEVANCE, 1)
    assert found.candidates == (MessageCandidate(1, 0.0),)
    assert not found.exhausted
    assert found.used_like_fallback
    assert found.normalized_query is None
    assert (found.method, engine_like.name) == ("like", "like")
    assert engine_like.store.ask(found.sql, ("%salt%", "%salt%", 10)) == [(1,), (2,)]


def test_without_a_text_it_is_a_listing_and_no_fallback(engine_like: LikeEngine) -> None:
    found = engine_like.search(" ", Filters(time_range=TimeRange(NOON + 1)), RELEVANCE, 10)
    assert [candidate.message_id for candidate in found.candidates] == [2, 3, 4]
    assert (found.method, found.used_like_fallback) == ("filter_only", False)


def test_random_questions_find_what_the_rules_say(store: MessageStore, mail: Mail) -> None:
    rng, answered = Random(8), 0
    for _ in range(400):
        text, filters = some_text(rng), some_filters(rng)
        terms = [term.lower() for term in extract_like_terms(text)]
        refused = [term.lower() for term in refused_terms(text)]
        expected = [
            m.message_id
            for m in mail.messages
            if passes(m, filters)
            and all(t in m.subject.lower() or t in m.body.lower() for t in terms)
            and not any(t in m.subject.lower() or t in m.body.lower() for t in refused)
        ]
        found = LikeEngine(store).search(text, filters, RELEVANCE, 1_000)
        assert [candidate.message_id for candidate in found.candidates] == expected
        answered += 0 < len(expected) < len(mail.messages)
    assert answered > 40


@given(text=st.text(max_size=60))
def test_no_text_is_an_error_of_like(store: MessageStore, text: str) -> None:
    LikeEngine(store).search(text, Filters(), RELEVANCE, 3)


@pytest.mark.parametrize("text", ["x" * 60_000, "%_" * 60_000, '"' + "é " * 60_000 + '"'])
def test_a_term_longer_than_a_pattern_may_be_is_cut(engine_like: LikeEngine, text: str) -> None:
    assert ids_like(engine_like, text) == []


def test_without_the_message_table_it_is_not_ready(engine_like: LikeEngine) -> None:
    engine_like.store.ask("PRAGMA foreign_keys = OFF")
    engine_like.store.ask("DROP TABLE messages")
    with pytest.raises(IndexUnavailable, match="table messages: no such table"):
        ids_like(engine_like, "salt")


def test_closed_it_is_an_error_of_the_engine(engine_like: LikeEngine) -> None:
    engine_like.store.db.close()
    with pytest.raises(EngineError):
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
        ("br-2tnl", '("br-2tnl" OR identifiers : "br\ue02d2tnl")'),
        ('"br-2tnl"', '"br-2tnl"'),
        ("BR_2.x/y", '("BR_2.x/y" OR identifiers : "br\ue05f2\ue02ex\ue02fy")'),
        (
            "a-b:c-d:a-b",
            '("a-b:c-d:a-b" OR identifiers : "a\ue02db" OR identifiers : "c\ue02dd")',
        ),
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
def test_what_fts5_is_asked(text: str, asked: str) -> None:
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
