"""Pages and indexes while messages change: nothing is lost, and nothing comes twice."""

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from multiprocessing import get_context
from multiprocessing.connection import Connection
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
from harness_engines.stacks.agent_mail import contract, ingest
from harness_engines.stacks.agent_mail.arm import MailSearcher
from harness_engines.stacks.agent_mail.contract import Event, Importance, RankingMode, SearchMode
from harness_engines.stacks.agent_mail.ingest import Draft, Ingest
from harness_engines.stacks.agent_mail.live import LiveIndexes, LiveTokens, LiveWords
from harness_engines.stacks.agent_mail.mcp_tools.server import Surface
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch, SearchCursor
from harness_engines.stacks.agent_mail.pipeline.scope import Scope, Visibility
from harness_engines.stacks.agent_mail.service import MailSearch
from harness_engines.stacks.agent_mail.sqlite import store as stores
from harness_engines.stacks.agent_mail.sqlite.store import AddressKind
from harness_engines.vector.embedder import HashEmbedder, ModelPass
from tests.engines.agent_mail.whole import TEXT, Names, Tools, Whole, by_length, whole
from tests.make import mail_changing as changing
from tests.make.damage import run_sql
from tests.make.mail_engines import built_live as built
from tests.make.mail_engines import check_agree, served
from tests.make.mail_messages import some_mail, stored

pytestmark = pytest.mark.slow
MODES = pytest.mark.parametrize("mode", ["lexical", "semantic", "hybrid"])
NEW = Draft(1, "zeppelin", "over the reservoir", "Ann", ("Bob",))


def found(searcher: MailSearcher, text: str) -> list[str]:
    """Search; every answer is signed as the arm's and says nothing of a stale index."""
    answer = searcher.search(text, 10)
    assert (answer.note, answer.served_by) == ("", searcher.manifest.fingerprint)
    return [hit.doc_id for hit in answer.hits]


def live(searcher: MailSearcher) -> LiveIndexes:
    assert isinstance(searcher.service.fresh, LiveIndexes)
    return searcher.service.fresh


@MODES
def test_each_write_is_found_at_the_next_query(tmp_path: Path, mode: str) -> None:
    index = built(tmp_path, mode=mode)
    with served(tmp_path, mode=mode) as searcher, ingest.opened(index / mail.STORE) as box:
        assert found(searcher, "zeppelin") == []
        run_sql(index / mail.STORE, "UPDATE messages SET subject = 'zeppelin' WHERE id = 5")
        assert found(searcher, "zeppelin") == ["m05"], "the first change of all"
        box.delete(5)
        (new,) = box.insert(NEW).message_ids
        assert found(searcher, "zeppelin") == [f"message {new}"]
        box.edit(new, subject="balloon")
        assert found(searcher, "zeppelin") == []
        assert found(searcher, "balloon") == [f"message {new}"]
        box.delete(new)
        assert found(searcher, "zeppelin") == found(searcher, "balloon") == []


@MODES
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
        live(searcher).catch_up()
    check_agree(index)


def test_a_replaced_vector_file_is_noticed_and_put_right(tmp_path: Path) -> None:
    index = built(tmp_path, mode="semantic")
    with served(tmp_path, mode="semantic") as searcher:
        before = found(searcher, "lunch")
        other = built(tmp_path / "other", documents=[], mode="semantic")
        (other / mail.VECTORS).replace(index / mail.VECTORS)
        assert found(searcher, "lunch") == before
    check_agree(index)


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

    def apply(self, changes: contract.Changes, generation: int) -> None:
        raise EngineError(f"{len(changes)} changes up to {generation}")


def test_an_answer_that_may_miss_a_change_is_not_signed(tmp_path: Path) -> None:
    index = built(tmp_path)
    with served(tmp_path) as searcher:
        stuck = replace(live(searcher), indexes={"tantivy": cast("LiveWords", Broken())})
        service, made = replace(searcher.service, fresh=stuck), searcher.manifest
        tools = Tools(Surface(service, Names(), "mine", made, SearchMode.LEXICAL))
        assert "diagnostics" not in tools.found()
        run_sql(index / mail.STORE, "DELETE FROM messages WHERE id = 5")
        answer, seen = replace(searcher, service=service).search("review", 5), tools.found()
    assert answer.note == "index_stale: 1 changes up to 1"
    assert (seen["diagnostics"]["signals"], seen["diagnostics"]["degraded"]) == (
        ["index_stale"],
        True,
    )
    assert made.fingerprint not in {answer.served_by, seen["served_by"]["fingerprint"]}


MOMENTS = 50
LONGEST_S = 0.6
"""Of work before the kill; a round of changes and indexing takes about a tenth of a second."""


def write_on(folder: Path, seed: int, ready: Connection) -> None:
    """Insert, edit, delete and index until somebody ends the process."""
    rng = Random(seed)
    table = folder / "index" / mail.STORE
    with served(folder, mode="hybrid") as searcher, ingest.opened(table) as box:
        ready.send("ready")
        while True:
            for how in rng.choices(("insert", "edit", "delete"), k=rng.randint(1, 4)):
                (last,) = box.insert(NEW).message_ids
                if how == "edit":
                    box.edit(last, subject=rng.choice(("review", "lunch plan")))
                if how == "delete":
                    box.delete(last - 1)
            live(searcher).catch_up()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(MOMENTS))
def test_after_a_kill_all_indexes_agree_with_the_table(tmp_path: Path, seed: int) -> None:
    index = built(tmp_path, mode="hybrid")
    spawn = get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=write_on, args=(tmp_path, seed, there))
    process.start()
    assert here.recv() == "ready"
    sleep(Random(seed).uniform(0, LONGEST_S))
    process.kill()
    process.join()
    with served(tmp_path, mode="hybrid") as searcher:
        for text in ("review", "lunch plan"):
            answer = searcher.search(text, 1_000)
            assert (answer.note, answer.served_by) == ("", searcher.manifest.fingerprint)
        live(searcher).catch_up()
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


def test_a_changed_message_is_read_once_for_each_change(tmp_path: Path) -> None:
    one, other = (message.message_id for message in MESSAGES[:2])
    with stored(tmp_path / "mail.db", MESSAGES) as store:
        store.settle_journal()
        reader = Reader()
        old = WORDS.embed(["old"]).astype(np.float16)
        live = LiveTokens(LateInteraction(reader, lambda _: old, 0.0), store, store.hydrate)

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


def test_an_edit_changes_only_the_fields_named(tmp_path: Path) -> None:
    notes = replace(NEW, recipients=("Bob", "Cid"), created_ts=7)
    with stored(tmp_path / "mail.db", some_mail(7, 40).messages):
        pass
    with ingest.opened(tmp_path / "mail.db") as box:
        done = box.insert(notes, {"Cid": AddressKind.BCC})
        (new,) = done.message_ids
        assert box.store.hydrate([new])[new] == notes.numbered(new)
        edited = box.edit(new, subject="balloon", importance=Importance.HIGH)
        assert edited.generation > done.generation
        now = box.store.hydrate([new])[new]
        assert (now.subject, now.body, now.importance) == ("balloon", notes.body, Importance.HIGH)
        assert box.store.kinds_of(new) == {"Bob": AddressKind.TO, "Cid": AddressKind.BCC}
        (new,) = box.insert(notes).message_ids
        box.delete(new)
        assert box.insert_all([notes, notes]).message_ids == (new + 1, new + 2)


WAYS = {
    FallbackTier.LIKE: (SearchMode.LEXICAL, None),
    FallbackTier.FTS5: (SearchMode.LEXICAL, KillSwitch.FTS5),
    FallbackTier.TANTIVY: (SearchMode.LEXICAL, None),
    FallbackTier.SEMANTIC: (SearchMode.SEMANTIC, None),
    FallbackTier.HYBRID: (SearchMode.HYBRID, None),
    FallbackTier.RERANK: (SearchMode.HYBRID_RERANK, None),
}
EVERY = pytest.mark.parametrize("engine", WAYS)


def asked(
    service: MailSearch, engine: FallbackTier, text: str = TEXT, **more: object
) -> tuple[MailSearch, contract.SearchQuery]:
    """Return who answers by an engine, and a query that it answers."""
    mode, switch = WAYS[engine]
    tiers = replace(service.tiers, reranker=by_length)
    if engine is FallbackTier.LIKE:
        text, tiers = "re", replace(tiers, lexical={engine: tiers.lexical[engine]})
    query = contract.SearchQuery(text, mode=mode, **more)  # type: ignore[arg-type]
    return replace(service, tiers=tiers, switch=switch), query


def ids(found: contract.SearchResponse) -> list[int]:
    return [hit.message_id for hit in found.hits]


def walk(served: MailSearch, query: contract.SearchQuery) -> list[list[int]]:
    pages, cursor = [], query.cursor
    while True:
        found = served.search(replace(query, cursor=cursor))
        assert not found.explain.cursor_invalidated
        pages.append(ids(found))
        if found.next_cursor is None:
            return pages
        assert len(found.hits) == query.effective_limit
        cursor = found.next_cursor


@EVERY
@pytest.mark.parametrize("ranking", RankingMode)
def test_pages_form_one_list(post: Whole, engine: FallbackTier, ranking: RankingMode) -> None:
    """A full page has a token, a short one is the last."""
    served, query = asked(post.service, engine, limit=1_000, ranking=ranking, project_id=1)
    whole_list = ids(served.search(query))
    assert 10 < len(whole_list) < 100
    assert served.search(replace(query, limit=len(whole_list) + 1)).next_cursor is None
    for limit in (1, 7, len(whole_list) - 1, len(whole_list)):
        pages = walk(served, replace(query, limit=limit))
        assert [at for page in pages for at in page] == whole_list
        assert len(pages) > 1
        assert all(len(page) == limit for page in pages[:-1])


@EVERY
def test_a_page_is_full_of_what_the_scope_allows(post: Whole, engine: FallbackTier) -> None:
    served, query = asked(post.service, engine, limit=5)
    whole_list = ids(served.search(replace(query, limit=1_000)))
    allowed = whole_list[::9]
    few = Scope("few", lambda m: SHOWN[m.message_id in allowed], audited=True)
    found = served.seen_by(few).search(query)
    assert ids(found) == allowed[:5]
    assert found.explain.denied_count == whole_list.index(allowed[4]) + 1 - 5


@EVERY
def test_a_token_says_score_id_and_engine(post: Whole, engine: FallbackTier) -> None:
    served, query = asked(post.service, engine, limit=3)
    found = served.search(query)
    token, last = found.next_cursor, found.hits[-1]
    assert token is not None
    own = rf"s[0-9a-f]{{16}}:i-?\d+:e{engine}"
    assert re.fullmatch(rf"{own}:q[0-9a-f]{{16}}:x[A-Za-z0-9_-]+", token)
    read = SearchCursor.decode(token)
    assert read is not None
    assert (read.score, read.message_id, read.engine) == (last.score, last.message_id, engine)
    assert read.seen == {*ids(found)}
    old = token.rpartition(":e")[0]
    assert SearchCursor.decode(old) == SearchCursor(read.score, read.message_id)
    there = served.search(replace(query, cursor=old))
    assert there.hits == served.search(replace(query, cursor=token)).hits
    assert not there.explain.cursor_invalidated


@pytest.mark.parametrize(("made_by", "read_by"), [*permutations(WAYS, 2)])
def test_a_foreign_token_restarts(
    post: Whole, made_by: FallbackTier, read_by: FallbackTier
) -> None:
    maker, query = asked(post.service, made_by, limit=3)
    token = maker.search(query).next_cursor
    reader, other = asked(post.service, read_by, limit=3)
    post.log.events.clear()
    found = reader.search(replace(other, cursor=token))
    assert found.hits == reader.search(other).hits
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
    served, query = asked(post.service, FallbackTier.TANTIVY, limit=3)
    token = served.search(query).next_cursor
    changed = replace(query, **other)  # type: ignore[arg-type]
    found = served.search(replace(changed, cursor=token))
    assert found.explain.cursor_invalidated
    assert found.hits == served.search(changed).hits
    assert not served.search(replace(query, cursor=token, limit=7)).explain.cursor_invalidated


@EVERY
@pytest.mark.parametrize(("at", "gone"), [(4, 1), (4, 3), (19, 1), (19, 3)])
def test_no_survivor_is_lost(
    post: Whole, tmp_path: Path, engine: FallbackTier, at: int, gone: int
) -> None:
    """An index of vectors still holds the message, and not where it stood."""
    with whole(shutil.copytree(post.tantivy.root.parent, tmp_path / "mail")) as mail:
        served, query = asked(mail.service, engine, limit=at + 1)
        whole_list = ids(served.search(replace(query, limit=1_000)))
        first = served.search(query)
        for message_id in ids(first)[-gone:]:
            mail.tantivy.update_incremental(changing.delete(mail.store, message_id))
        rest = walk(served, replace(query, cursor=first.next_cursor, limit=20))
        assert sorted(sum(rest, ids(first))) == sorted(whole_list)


STEPS = int(os.environ.get("MAIL_PAGING_STEPS", "30"))
PAGES_AT_ONCE = 15
"""About so many pages are read of one index."""
SUBJECTS = ("review", "plan", "token", "broker", "laptop", "reservoir", "br-2tnl", "lunch")
SHOWN = (Visibility.DENY, Visibility.ALLOW)
EVERYONE = Scope("operator", lambda _: Visibility.ALLOW, audited=True)


def all_but(hidden: frozenset[int]) -> Scope:
    return Scope(f"all but {sorted(hidden)}", lambda m: SHOWN[m.message_id not in hidden])


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
        three = zip(SUBJECTS, SUBJECTS[1:], SUBJECTS[2:], strict=False)
        texts = (f"{a} {b} the {c}" for a, b, c in three)
        box.insert_all(Draft(1, text, "to all", "Ann", ("Bob",)) for text in texts)
        for walk in range(max(2, STEPS // PAGES_AT_ONCE)):
            hidden, scope = frozenset[int](), EVERYONE if walk % 2 else all_but(frozenset())
            cursor, seen, lived, limit = None, list[int](), None, rng.randint(1, 4)
            ranking = rng.choice([*RankingMode])
            while lived is None or cursor is not None:
                with served(tmp_path, mode="hybrid") as searcher:
                    service, query = asked(
                        searcher.service, engine, "review plan broker", ranking=ranking
                    )
                    seen_by = service.seen_by(scope)
                    if lived is None:
                        lived = {*ids(seen_by.search(replace(query, limit=1_000)))}
                    found = seen_by.search(replace(query, limit=limit, cursor=cursor))
                cursor, page = found.next_cursor, {*ids(found)}
                assert (found.stale, found.served_by) == (False, engine.value)
                assert not found.explain.cursor_invalidated
                alive = {row[0] for row in box.store.read("SELECT id FROM messages")}
                assert page <= alive - hidden
                assert page.isdisjoint(seen)
                seen += page
                for at in rng.sample(sorted(alive), rng.randrange(3)):
                    lived.discard(at)
                    if scope is EVERYONE or rng.random() < 0.7:
                        change(box, rng, at)
                    else:
                        hidden |= {at}
                        scope = all_but(hidden)
            assert lived <= {*seen}
