"""Pages and indexes while messages change: nothing is lost, and nothing comes twice."""

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import permutations
from pathlib import Path
from random import Random
from time import sleep
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

from harness_engines.contract import EngineError
from harness_engines.rerank import LateInteraction
from harness_engines.stacks.agent_mail import arm as mail
from harness_engines.stacks.agent_mail import ingest
from harness_engines.stacks.agent_mail.arm import MailSearcher
from harness_engines.stacks.agent_mail.contract import (
    Changes,
    Event,
    Importance,
    Message,
    RankingMode,
    SearchMode,
    SearchQuery,
)
from harness_engines.stacks.agent_mail.ingest import Draft, Ingest
from harness_engines.stacks.agent_mail.live import LiveIndexes, LiveTokens, LiveWords
from harness_engines.stacks.agent_mail.mcp_tools.server import Surface
from harness_engines.stacks.agent_mail.pipeline.plan import (
    FallbackTier,
    KillSwitch,
    SearchCursor,
)
from harness_engines.stacks.agent_mail.pipeline.scope import Scope, Visibility
from harness_engines.stacks.agent_mail.service import MailSearch
from harness_engines.stacks.agent_mail.sqlite import store as stores
from harness_engines.stacks.agent_mail.sqlite.store import AddressKind
from harness_engines.vector.embedder import HashEmbedder, ModelPass
from harness_engines.vector.scan import Half
from tests.engines.agent_mail.whole import MAIL, Names, Tools, Whole, build, by_length, whole
from tests.make import mail_changing as changing
from tests.make.mail_engines import built_live as built
from tests.make.mail_engines import check_agree, served
from tests.make.mail_messages import some_mail, stored
from tests.source import ROOT

MODES = ["lexical", "semantic", "hybrid"]
NEW = Draft(1, "zeppelin", "over the reservoir", "Ann", ("Bob",))


def write(index: Path, sql: str) -> None:
    """Change the table behind the back of everyone, as another program does."""
    with closing(sqlite3.connect(index / mail.STORE)) as db, db:
        db.execute(sql)


def found(searcher: MailSearcher, text: str) -> list[str]:
    """Search; every answer is signed as the arm's and says nothing of a stale index."""
    answer = searcher.search(text, 10)
    assert (answer.note, answer.served_by) == ("", searcher.manifest.fingerprint)
    return [hit.doc_id for hit in answer.hits]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_each_write_is_found_at_the_next_query(tmp_path: Path, mode: str) -> None:
    index = built(tmp_path, mode=mode)
    with served(tmp_path, mode=mode) as searcher, ingest.opened(index / mail.STORE) as box:
        assert found(searcher, "zeppelin") == []
        write(index, "UPDATE messages SET subject = 'zeppelin' WHERE id = 5")
        assert found(searcher, "zeppelin") == ["m05"], "the first change of all"
        box.delete(5)
        (new,) = box.insert(NEW).message_ids
        assert found(searcher, "zeppelin") == [f"message {new}"]
        box.edit(new, subject="balloon")
        assert found(searcher, "zeppelin") == []
        assert found(searcher, "balloon") == [f"message {new}"]
        box.delete(new)
        assert found(searcher, "zeppelin") == found(searcher, "balloon") == []


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_restart_with_a_moved_table_catches_up(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "BATCH", 2)
    index = built(tmp_path, mode=mode)
    with served(tmp_path, mode=mode) as searcher:
        built_of = searcher.manifest
    with ingest.opened(index / mail.STORE) as box:
        new = box.insert_all([NEW] * 5).message_ids
    with served(tmp_path, mode=mode) as searcher:
        assert {*found(searcher, "zeppelin")} == {f"message {one}" for one in new}
        assert searcher.manifest.documents == built_of.documents + 5
        assert searcher.manifest.fingerprint != built_of.fingerprint
        assert searcher.generation
        assert isinstance(searcher.service.fresh, LiveIndexes)
        searcher.service.fresh.catch_up()
    check_agree(index)


@pytest.mark.slow
def test_a_replaced_vector_file_is_noticed_and_put_right(tmp_path: Path) -> None:
    index = built(tmp_path, mode="semantic")
    with served(tmp_path, mode="semantic") as searcher:
        before = found(searcher, "lunch")
        other = built(tmp_path / "other", documents=[], mode="semantic")
        (other / mail.VECTORS).replace(index / mail.VECTORS)
        assert found(searcher, "lunch") == before
    check_agree(index)


@pytest.mark.slow
def test_an_index_that_is_ahead_of_its_table_is_built_anew(tmp_path: Path) -> None:
    index = built(tmp_path, mode="hybrid")
    old = (index / mail.STORE).read_bytes()
    with served(tmp_path, mode="hybrid") as searcher, ingest.opened(index / mail.STORE) as box:
        box.insert(NEW)
        assert found(searcher, "zeppelin")
    (index / mail.STORE).write_bytes(old)
    with served(tmp_path, mode="hybrid") as searcher:
        assert found(searcher, "zeppelin") == []
    check_agree(index)


class Broken:
    """An index that cannot be written."""

    reached: int | None = 0

    def apply(self, changes: Changes, generation: int) -> None:
        raise EngineError(f"{len(changes)} changes up to {generation}")


@pytest.mark.slow
def test_an_answer_that_may_miss_a_change_is_not_signed(tmp_path: Path) -> None:
    index = built(tmp_path)
    with served(tmp_path) as searcher:
        assert isinstance(searcher.service.fresh, LiveIndexes)
        stuck = replace(searcher.service.fresh, indexes={"tantivy": cast("LiveWords", Broken())})
        service = replace(searcher.service, fresh=stuck)
        asked = replace(searcher, service=service)
        made = searcher.manifest
        tools = Tools(Surface(service, Names(), "mine", made, SearchMode.LEXICAL))
        assert "diagnostics" not in tools.found()
        write(index, "DELETE FROM messages WHERE id = 5")
        answer = asked.search("review", 5)
        assert answer.note == "index_stale: 1 changes up to 1"
        assert answer.served_by != searcher.manifest.fingerprint
        seen = tools.found()
        assert seen["diagnostics"]["signals"] == ["index_stale"]
        assert seen["diagnostics"]["degraded"] is True
        assert seen["served_by"]["fingerprint"] != searcher.manifest.fingerprint


MOMENTS = 50
LONGEST_S = 0.6
"""Of work before the kill; a round of changes and indexing takes about a tenth of a second."""


def write_on(folder: Path, seed: int) -> None:
    """Insert, edit, delete and index until somebody ends the process."""
    rng = Random(seed)
    table = folder / "index" / mail.STORE
    with served(folder, mode="hybrid") as searcher, ingest.opened(table) as box:
        assert isinstance(searcher.service.fresh, LiveIndexes)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            for how in rng.choices(("insert", "edit", "delete"), k=rng.randint(1, 4)):
                (last,) = box.insert(NEW).message_ids
                if how == "edit":
                    box.edit(last, subject=rng.choice(("review", "lunch plan")))
                if how == "delete":
                    box.delete(last - 1)
            searcher.service.fresh.catch_up()


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(MOMENTS))
def test_after_a_kill_all_indexes_agree_with_the_table(tmp_path: Path, seed: int) -> None:
    index = built(tmp_path, mode="hybrid")
    code = f"from pathlib import Path; import {__name__} as here; here.write_on"
    words = [sys.executable, "-c", f"{code}(Path({str(tmp_path)!r}), {seed})"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        sleep(Random(seed).uniform(0, LONGEST_S))
        process.kill()
    with served(tmp_path, mode="hybrid") as searcher:
        for text in ("review", "lunch plan"):
            answer = searcher.search(text, 1_000)
            assert (answer.note, answer.served_by) == ("", searcher.manifest.fingerprint)
        assert isinstance(searcher.service.fresh, LiveIndexes)
        searcher.service.fresh.catch_up()
    check_agree(index)


MESSAGES = some_mail(7, 12).messages
WORDS = HashEmbedder(32)


@dataclass
class Reader:
    """Reads each word of a text as a token, and counts what it read."""

    read_texts: list[str] = field(default_factory=list)
    identity = "words"
    dimension = 32

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return WORDS.embed(texts)

    def read(self, texts: Sequence[str]) -> ModelPass:
        self.read_texts += texts
        return ModelPass(self.embed(texts), tuple(WORDS.embed(text.split()) for text in texts))


def old_tokens(text_id: int) -> Half:
    """Return tokens of every message as one word that no query has."""
    del text_id
    return WORDS.embed(["old"]).astype(np.float16)


def test_a_changed_message_is_read_once_for_each_change(tmp_path: Path) -> None:
    one, other = (message.message_id for message in MESSAGES[:2])
    with stored(tmp_path / "mail.db", MESSAGES) as store:
        store.settle_journal()
        reader = Reader()
        live = LiveTokens(LateInteraction(reader, old_tokens, 0.0), store, store.hydrate)

        def similar() -> list[float]:
            return [hit.raw_score for hit in live.rerank("zeppelin", [one, other], [0.5, 0.5])]

        assert similar() == [0.0, 0.0]
        store.db.execute("UPDATE messages SET subject = 'zeppelin' WHERE id = ?", (one,))
        for _ in range(2):
            assert similar() == [1.0, 0.0]
        changed = [text for text in reader.read_texts if text != "zeppelin"]
        assert len(changed) == 1
        store.db.execute("UPDATE messages SET subject = 'balloon', body = '' WHERE id = ?", (one,))
        assert similar()[0] < 1.0
        store.db.execute("DELETE FROM messages WHERE id = ?", (one,))
        assert similar() == [0.0, 0.0]


NEW_NOTES = replace(NEW, recipients=("Bob", "Cid"), created_ts=7)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with stored(tmp_path / "mail.db", some_mail(7, 40).messages):
        return tmp_path / "mail.db"


@pytest.fixture
def box(path: Path) -> Iterator[Ingest]:
    with ingest.opened(path) as made:
        yield made


def test_an_edit_changes_only_the_fields_named(box: Ingest) -> None:
    done = box.insert(NEW_NOTES, {"Cid": AddressKind.BCC})
    (new,) = done.message_ids
    assert box.store.hydrate([new])[new] == NEW_NOTES.numbered(new)
    edited = box.edit(new, subject="balloon", importance=Importance.HIGH)
    assert edited.generation > done.generation
    now = box.store.hydrate([new])[new]
    assert (now.subject, now.body, now.importance) == ("balloon", NEW_NOTES.body, Importance.HIGH)
    assert box.store.kinds_of(new) == {"Bob": AddressKind.TO, "Cid": AddressKind.BCC}
    (new,) = box.insert(NEW_NOTES).message_ids
    box.delete(new)
    assert box.insert_all([NEW_NOTES, NEW_NOTES]).message_ids == (new + 1, new + 2)


pytestmark = pytest.mark.slow
TEXT = "deployment review br-2tnl"
WAYS = {
    FallbackTier.LIKE: (SearchMode.LEXICAL, None),
    FallbackTier.FTS5: (SearchMode.LEXICAL, KillSwitch.FTS5),
    FallbackTier.TANTIVY: (SearchMode.LEXICAL, None),
    FallbackTier.SEMANTIC: (SearchMode.SEMANTIC, None),
    FallbackTier.HYBRID: (SearchMode.HYBRID, None),
    FallbackTier.RERANK: (SearchMode.HYBRID_RERANK, None),
}
EVERY = pytest.mark.parametrize("engine", WAYS)


def asked(mail: Whole, engine: FallbackTier, **more: object) -> tuple[Whole, SearchQuery]:
    mode, switch = WAYS[engine]
    like = engine is FallbackTier.LIKE
    served = mail.without(FallbackTier.TANTIVY, FallbackTier.FTS5) if like else mail
    query = SearchQuery("re" if like else TEXT, mode=mode, **more)  # type: ignore[arg-type]
    return served.under(switch), query


def walk(mail: Whole, query: SearchQuery) -> list[list[int]]:
    pages, cursor = [], query.cursor
    while True:
        found = mail.ask(replace(query, cursor=cursor))
        assert not found.explain.cursor_invalidated
        pages.append([hit.message_id for hit in found.hits])
        if found.next_cursor is None:
            return pages
        assert len(found.hits) == query.effective_limit
        cursor = found.next_cursor


@EVERY
@pytest.mark.parametrize("ranking", RankingMode)
def test_pages_form_one_list(post: Whole, engine: FallbackTier, ranking: RankingMode) -> None:
    served, query = asked(post, engine, limit=1_000, ranking=ranking)
    whole_list = served.ids(query)
    for limit in (1, 7, len(whole_list)):
        pages = walk(served, replace(query, limit=limit))
        assert [at for page in pages for at in page] == whole_list
        assert all(len(page) == limit for page in pages[:-1])


@EVERY
def test_a_short_page_is_the_last(post: Whole, engine: FallbackTier) -> None:
    served, query = asked(post, engine, limit=1_000)
    total = len(served.ids(query))
    assert 10 < total < 1_000
    assert served.ask(query).next_cursor is None
    for limit in (1, total - 1, total):
        assert served.ask(replace(query, limit=limit)).next_cursor is not None
    assert served.ask(replace(query, limit=total + 1)).next_cursor is None
    served, query = asked(post, engine, limit=5)
    whole_list = served.ids(replace(query, limit=1_000))
    allowed = set(whole_list[::9])

    def verdict(message: Message) -> Visibility:
        return Visibility.ALLOW if message.message_id in allowed else Visibility.DENY

    found = served.ask(query, Scope("few", verdict, audited=True))
    assert [hit.message_id for hit in found.hits] == whole_list[::9][:5]
    assert found.explain.denied_count == whole_list.index(whole_list[::9][4]) + 1 - 5


@EVERY
def test_a_token_says_score_id_and_engine(post: Whole, engine: FallbackTier) -> None:
    served, query = asked(post, engine, limit=3)
    found = served.ask(query)
    token, last = found.next_cursor, found.hits[-1]
    assert token is not None
    own = rf"s[0-9a-f]{{16}}:i-?\d+:e{engine}"
    assert re.fullmatch(rf"{own}:q[0-9a-f]{{16}}:x[A-Za-z0-9_-]+", token)
    read = SearchCursor.decode(token)
    assert read is not None
    assert (read.score, read.message_id, read.engine) == (last.score, last.message_id, engine)
    assert read.seen == {hit.message_id for hit in found.hits}
    old = token.rpartition(":e")[0]
    assert SearchCursor.decode(old) == SearchCursor(read.score, read.message_id)
    there = served.ask(replace(query, cursor=old))
    assert there.hits == served.ask(replace(query, cursor=token)).hits
    assert not there.explain.cursor_invalidated


@pytest.mark.parametrize(("made_by", "read_by"), [*permutations(WAYS, 2)])
def test_a_foreign_token_restarts(
    post: Whole, made_by: FallbackTier, read_by: FallbackTier
) -> None:
    maker, query = asked(post, made_by, limit=3)
    token = maker.ask(query).next_cursor
    reader, other = asked(post, read_by, limit=3)
    post.log.events.clear()
    found = reader.ask(replace(other, cursor=token))
    assert found.hits == reader.ask(other).hits
    assert found.explain.cursor_invalidated
    told = [payload for event, payload in post.log.events if event is Event.CURSOR_INVALIDATED]
    assert told == [{"cursor_engine": made_by, "current_engine": read_by}]


@pytest.mark.parametrize(
    "other",
    [
        {"text": "deployment"},
        {"ranking": RankingMode.RECENCY},
        {"project_id": 1},
        {"min_score": 0.1},
        {"importance": (Importance.HIGH, Importance.LOW)},
    ],
)
def test_another_querys_token_starts_at_page_one(post: Whole, other: dict[str, object]) -> None:
    served, query = asked(post, FallbackTier.TANTIVY, limit=3)
    token = served.ask(query).next_cursor
    changed = replace(query, **other)  # type: ignore[arg-type]
    found = served.ask(replace(changed, cursor=token))
    assert found.explain.cursor_invalidated
    assert found.hits == served.ask(changed).hits
    assert not served.ask(replace(query, cursor=token, limit=7)).explain.cursor_invalidated


@EVERY
@pytest.mark.parametrize(("at", "gone"), [(4, 1), (4, 3), (19, 1), (19, 3)])
def test_no_survivor_is_lost(engine: FallbackTier, at: int, gone: int, tmp_path: Path) -> None:
    """An index of vectors still holds the message, and not where it stood."""
    build(tmp_path, MAIL.messages)
    with whole(tmp_path) as mail:
        served, query = asked(mail, engine, limit=at + 1)
        whole_list = served.ids(replace(query, limit=1_000))
        first = served.ask(query)
        shown = [hit.message_id for hit in first.hits]
        for message_id in shown[-gone:]:
            mail.tantivy.update_incremental(changing.delete(mail.store, message_id))
        rest = walk(served, replace(query, cursor=first.next_cursor))
        seen = [*shown, *(one for page in rest for one in page)]
        assert sorted(seen) == sorted(whole_list)


STEPS = int(os.environ.get("MAIL_PAGING_STEPS", "60"))
PAGES_AT_ONCE = 15
"""About so many pages are read of one index."""
SUBJECTS = ("review", "plan", "token", "broker", "laptop", "reservoir", "br-2tnl", "lunch")
EVERYONE = Scope("operator", lambda _: Visibility.ALLOW, audited=True)


def viewer(hidden: frozenset[int]) -> Scope:
    """Show all but some messages."""
    return Scope(
        f"all but {sorted(hidden)}",
        lambda m: Visibility.DENY if m.message_id in hidden else Visibility.ALLOW,
    )


def change(box: Ingest, rng: Random, at: int) -> None:
    """Insert long and short texts, which move the scores of all others, or edit or delete one."""
    subject = " ".join(rng.choices(SUBJECTS, k=rng.randint(1, 5)))
    match rng.randrange(3):
        case 0:
            box.delete(at)
        case 1:
            box.edit(at, subject=subject)
        case _:
            long = f"{subject} " * rng.randrange(20)
            box.insert_all([Draft(1, subject, long, "Ann", ("Bob",))] * rng.randint(1, 3))


@EVERY
def test_what_stays_visible_comes_exactly_once_whatever_moves(
    tmp_path: Path, engine: FallbackTier
) -> None:
    """Between two pages messages change and are hidden, and everything is opened anew."""
    index, rng = built(tmp_path, mode="hybrid"), Random(engine.value)
    with ingest.opened(index / mail.STORE) as box:
        texts = (
            f"{a} {b} the {c}"
            for a, b, c in zip(SUBJECTS, SUBJECTS[1:], SUBJECTS[2:], strict=False)
        )
        box.insert_all(Draft(1, text, "to all", "Ann", ("Bob",)) for text in texts)
        for walk in range(max(2, STEPS // PAGES_AT_ONCE)):
            hidden, scope = frozenset[int](), EVERYONE if walk % 2 else viewer(frozenset())
            cursor, seen, lived, limit = None, list[int](), None, rng.randint(1, 4)
            ranking = rng.choice([*RankingMode])
            while lived is None or cursor is not None:
                with served(tmp_path, mode="hybrid") as searcher:
                    service, query = asked_of(searcher.service, engine, ranking)
                    if lived is None:
                        everything = service.seen_by(scope).search(replace(query, limit=1_000))
                        lived = {hit.message_id for hit in everything.hits}
                    page = replace(query, limit=limit, cursor=cursor)
                    found = service.seen_by(scope).search(page)
                cursor, ids = found.next_cursor, {hit.message_id for hit in found.hits}
                assert (found.stale, found.served_by) == (False, engine.value)
                assert not found.explain.cursor_invalidated
                alive = {row[0] for row in box.store.read("SELECT id FROM messages")}
                assert ids <= alive - hidden
                assert ids.isdisjoint(seen)
                seen += ids
                for at in rng.sample(sorted(alive), rng.randrange(3)):
                    lived.discard(at)
                    if scope is EVERYONE or rng.random() < 0.7:
                        change(box, rng, at)
                    else:
                        hidden |= {at}
                        scope = viewer(hidden)
            assert lived <= {*seen}


def asked_of(
    service: MailSearch, engine: FallbackTier, ranking: RankingMode
) -> tuple[MailSearch, SearchQuery]:
    """Return who answers by an engine, and a query that it answers."""
    mode, switch = WAYS[engine]
    tiers = replace(service.tiers, reranker=by_length)
    text = "review plan broker"
    if engine is FallbackTier.LIKE:
        text = "re"
        tiers = replace(tiers, lexical={FallbackTier.LIKE: tiers.lexical[FallbackTier.LIKE]})
    served = replace(service, tiers=tiers, switch=switch)
    return served, SearchQuery(text, mode=mode, ranking=ranking)
