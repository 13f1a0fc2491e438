"""Through apsw a store answers as through Python's SQLite, and fails as it does."""

from __future__ import annotations

import importlib.util
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.contract.errors import EngineError, FeatureUnavailable, IndexUnavailable, SearchError
from engines.stacks.agent_mail.contract.query import Filters, RankingMode
from engines.stacks.agent_mail.sqlite import apsw as apsw_store
from engines.stacks.agent_mail.sqlite.fts5 import Fts5Engine, Weights
from engines.stacks.agent_mail.sqlite.like import LikeEngine
from engines.stacks.agent_mail.sqlite.matching import matching_ids
from engines.stacks.agent_mail.sqlite.store import MessageStore, opened
from tests.make.mail.messages import Mail, some_filters, some_text, stored

WEIGHTS = Weights(subject=2.0, body=1.0, identifiers=4.0)
TEXTS = st.text() | st.text("ab部é_-.\"'*+():^~{}[]\\/%\0 \ud800ANDORNOTEAR", max_size=60)


def test_without_apsw_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apsw_store, "find_spec", lambda _: None)
    with pytest.raises(FeatureUnavailable, match="pip install"), apsw_store.opened(tmp_path / "m"):
        pass


if importlib.util.find_spec("apsw"):

    @pytest.fixture(scope="module")
    def path(mail: Mail, tmp_path_factory: pytest.TempPathFactory) -> Path:
        made = tmp_path_factory.mktemp("apsw") / "mail.db"
        with stored(made, mail.messages):
            pass
        return made

    @pytest.fixture(scope="module")
    def quick(path: Path) -> Iterator[MessageStore]:
        with apsw_store.opened(path) as made:
            yield made

    @given(seed=st.integers(0, 100_000), typed=st.none() | TEXTS)
    @settings(max_examples=150, deadline=None)
    def test_the_answers_are_the_same(
        store: MessageStore, quick: MessageStore, seed: int, typed: str | None
    ) -> None:
        rng = Random(seed)
        text = some_text(rng) if typed is None else typed
        filters = some_filters(rng) if rng.random() < 0.5 else Filters()
        asked = text, filters, rng.choice(list(RankingMode)), rng.randrange(-1, 60)
        slow, fast = (Fts5Engine(one, WEIGHTS).search(*asked) for one in (store, quick))
        assert [c.message_id for c in fast.candidates] == [c.message_id for c in slow.candidates]
        assert [c.raw_score for c in fast.candidates] == pytest.approx(
            [c.raw_score for c in slow.candidates], rel=1e-12
        )
        assert (fast.note, fast.exhausted, fast.sql) == (slow.note, slow.exhausted, slow.sql)
        assert LikeEngine(quick).search(*asked) == LikeEngine(store).search(*asked)
        assert matching_ids(quick, filters).tolist() == matching_ids(store, filters).tolist()

    def test_messages_are_read_alike(store: MessageStore, quick: MessageStore, mail: Mail) -> None:
        ids = [*mail.by_id, 10**6]
        assert dict(quick.hydrate(ids)) == dict(store.hydrate(ids)) != {}
        assert quick.fetch_batch(3, 50) == store.fetch_batch(3, 50)
        assert quick.total_count() == store.total_count()

    @pytest.mark.parametrize("sql", ["SELECT", "SELECT x FROM y", "SELECT 1 WHERE 'a' MATCH 'b'"])
    def test_a_refusal_has_the_words_and_the_code_of_pythons(
        store: MessageStore, quick: MessageStore, sql: str
    ) -> None:
        said = []
        for one in (store, quick):
            with pytest.raises(sqlite3.OperationalError) as raised:
                one.ask(sql)
            said.append((str(raised.value), raised.value.sqlite_errorcode))
        assert said[0] == said[1]

    def test_a_refused_query_is_asked_for_its_words(quick: MessageStore) -> None:
        refused = Fts5Engine(quick, WEIGHTS, compiled=lambda text: text)
        found = refused.search("br-2tnl", Filters(), RankingMode.RELEVANCE, 9)
        assert found.note == "FTS5 refused the query (no such column: 2tnl); asked for its words"

    def test_a_statement_past_its_deadline_is_interrupted(quick: MessageStore) -> None:
        quick.db.set_progress_handler(lambda: True, 1)
        with pytest.raises(sqlite3.OperationalError) as raised:
            quick.ask("SELECT count(*) FROM messages AS a, messages AS b, messages AS c")
        quick.db.set_progress_handler(None, 0)
        assert raised.value.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT
        assert quick.total_count() > 0

    def test_nothing_is_written(quick: MessageStore) -> None:
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            quick.delete(1)

    @pytest.mark.parametrize("spoil", ["missing", "no database", "cut", "old", "no table"])
    def test_a_broken_store_is_not_ready_as_through_python(
        path: Path, tmp_path: Path, spoil: str
    ) -> None:
        broken = Path(shutil.copy(path, tmp_path))
        if spoil == "missing":
            broken.unlink()
        elif spoil == "no database":
            broken.write_bytes(b"no database" * 100)
        elif spoil == "cut":
            broken.write_bytes(broken.read_bytes()[:9_000])
        else:
            with closing(sqlite3.connect(broken)) as db, db:
                db.execute("PRAGMA user_version = 1" if spoil == "old" else "DROP TABLE recipients")
        said: list[type[SearchError]] = []
        for way in (opened, apsw_store.opened):
            with pytest.raises(SearchError) as raised, way(broken) as store:
                store.hydrate([1, 2])
            said.append(type(raised.value))
        assert said == [IndexUnavailable, IndexUnavailable]

    def test_closed_it_is_an_error_of_the_engine(path: Path) -> None:
        with apsw_store.opened(path) as store:
            engine = Fts5Engine(store, WEIGHTS)
        with pytest.raises(EngineError):
            engine.search("salt", Filters(), RankingMode.RELEVANCE, 3)
