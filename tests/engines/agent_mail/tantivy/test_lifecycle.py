"""The care of the index: changes, rebuilds, other writers, health, and Tantivy's traps."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
import tantivy
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.contract import EngineError, IndexUnavailable
from engines.stacks.agent_mail.contract import Change, DocChange, Message, RankingMode
from engines.stacks.agent_mail.tantivy import index, query
from engines.stacks.agent_mail.tantivy.index import INDEX
from tests.make.mail.messages import (
    one,
    some_filters,
    some_mail,
    some_message,
    some_text,
)
from tests.make.mail.tantivy import NONE, Case, Source, built, case, delete, upsert

pytestmark = pytest.mark.slow
MAIL = some_mail(41, 80)


@pytest.fixture
def mail(tmp_path: Path) -> Case:
    return built(tmp_path / "mail", MAIL.messages)


def apply(source: Source, changes: Sequence[DocChange]) -> None:
    for change in changes:
        if change.message is None:
            source.by_id.pop(change.message_id, None)
        else:
            source.by_id[change.message_id] = change.message


@given(seed=st.integers(0, 10_000), batches=st.lists(st.integers(1, 12), min_size=1, max_size=4))
@settings(max_examples=6, deadline=None)
def test_changes_end_where_a_rebuild_does(
    tmp_path_factory: pytest.TempPathFactory, seed: int, batches: list[int]
) -> None:
    rng, folder = Random(seed), tmp_path_factory.mktemp("changes")
    mail = built(folder / "mail", some_mail(seed, 30).messages)
    for size in batches:
        changes = [
            delete(at) if rng.random() < 0.4 else upsert(some_message(rng, at))
            for at in (rng.randrange(1, 70) for _ in range(size))
        ]
        apply(mail.source, changes)
        assert mail.engine.update_incremental(changes) == size
    assert mail.told.names == ["index.incremental.batch"] * len(batches)
    assert mail.engine.health().ready
    asked = [(some_text(rng), some_filters(rng) if rng.random() < 0.5 else NONE) for _ in range(25)]
    listed = [
        mail.candidates("", filters, ranking) for _, filters in asked for ranking in RankingMode
    ]
    sets = [set(mail.ids(text, filters)) for text, filters in asked]
    recent = [mail.ids(text, filters, RankingMode.RECENCY) for text, filters in asked]
    anew = built(folder / "anew", mail.source.by_id.values())
    assert listed == [
        anew.candidates("", filters, ranking) for _, filters in asked for ranking in RankingMode
    ]
    assert sets == [set(anew.ids(text, filters)) for text, filters in asked]
    assert recent == [anew.ids(text, filters, RankingMode.RECENCY) for text, filters in asked]
    mail.engine.rebuild()
    for text, filters in asked:
        assert mail.candidates(text, filters) == anew.candidates(text, filters)
    shutil.rmtree(folder)


def test_new_messages_score_as_if_they_had_always_been_there(tmp_path: Path) -> None:
    whole = built(tmp_path / "whole", MAIL.messages)
    grown = built(tmp_path / "grown", MAIL.messages[:30])
    for at in range(30, 80, 10):
        grown.engine.update_incremental([upsert(m) for m in MAIL.messages[at : at + 10]])
    rng = Random(1)
    for _ in range(60):
        text = some_text(rng)
        assert grown.candidates(text) == whole.candidates(text)


def test_a_deleted_text_counts_in_scores_until_it_is_rebuilt(tmp_path: Path) -> None:
    mail = built(tmp_path / "mail", [one(at, "moss") for at in range(8)] + [one(9, "stone moss")])
    before = mail.candidates("moss", depth=1)[0]
    mail.engine.update_incremental([delete(at) for at in range(5)])
    assert mail.ids("moss") == [5, 6, 7, 9]
    assert mail.candidates("moss", depth=1)[0].raw_score == before.raw_score
    mail.source.by_id = {at: m for at, m in mail.source.by_id.items() if at >= 5}
    mail.engine.rebuild()
    assert mail.candidates("moss", depth=1)[0].raw_score != before.raw_score


def test_the_last_change_to_a_message_holds(mail: Case) -> None:
    changes = [
        upsert(one(900, "moss")),
        delete(900),
        upsert(one(900, "fern")),
        upsert(one(901, "moss")),
        delete(901),
        delete(123_456),
    ]
    assert mail.engine.update_incremental(changes) == 6
    assert (mail.ids("moss"), mail.ids("fern")) == ([], [900])
    assert mail.engine.update_incremental([upsert(one(900, "moss"))]) == 1
    assert (mail.ids("moss"), mail.ids("fern")) == ([900], [])
    assert mail.told.events[0][1] == {"batch_size": 6, "engine": "tantivy"}
    mail.told.events.clear()
    assert mail.engine.update_incremental([]) == 0
    assert mail.told.names == []


@pytest.mark.parametrize(
    "wrong", [DocChange(Change.UPSERT, 1), DocChange(Change.UPSERT, 1, one(2, "moss"))]
)
def test_a_change_that_contradicts_itself_changes_nothing(mail: Case, wrong: DocChange) -> None:
    with pytest.raises(EngineError, match="change of message 1"):
        mail.engine.update_incremental([upsert(one(900, "moss")), wrong])
    assert mail.ids("moss") == []
    assert mail.engine.health().ready


def test_a_value_of_another_type_loses_no_other_message(
    mail: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a schema the value is taken, and the writer fails at the commit or before."""

    def as_typed_by_tantivy(message: Message, *_: object) -> tantivy.Document:
        return tantivy.Document(message_id=message.message_id, created_ts="today")

    before = mail.ids("")
    monkeypatch.setattr(index, "document", as_typed_by_tantivy)
    with pytest.raises(EngineError, match="updating"):
        mail.engine.update_incremental([delete(before[0]), upsert(one(900, "moss"))])
    with pytest.raises(EngineError, match="rebuilding"):
        mail.engine.rebuild()
    monkeypatch.undo()
    assert mail.ids("") == before
    mail.engine.update_incremental([upsert(one(901, "moss")), delete(before[0])])
    assert mail.ids("") == [*before[1:], 901]


def test_a_message_that_is_lost_on_the_way_is_noticed(
    mail: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "counted", lambda *_: 1)
    with pytest.raises(EngineError, match="81 messages after an update"):
        mail.engine.update_incremental([upsert(one(901, "moss"))])


def test_a_panic_is_an_engine_error_and_the_next_question_is_answered(
    mail: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = mail.engine._ready()  # noqa: SLF001  the panic must be Tantivy's own
    before = mail.ids("review")

    def panics(*_: object) -> None:
        now.searcher.search(tantivy.Query.all_query(), 0)

    monkeypatch.setattr(query, "matching", panics)
    with pytest.raises(EngineError, match="PanicException"):
        mail.ids("review")
    monkeypatch.undo()
    assert mail.ids("review") == before


@pytest.mark.parametrize(
    ("raised", "seen"), [(KeyboardInterrupt, KeyboardInterrupt), (OSError, EngineError)]
)
def test_an_interrupt_is_no_engine_error(
    mail: Case,
    monkeypatch: pytest.MonkeyPatch,
    raised: type[BaseException],
    seen: type[BaseException],
) -> None:
    def fails(*_: object) -> None:
        raise raised

    monkeypatch.setattr(query, "matching", fails)
    with pytest.raises(seen):
        mail.ids("review")


def test_another_writer_is_waited_for_by_the_caller(mail: Case) -> None:
    other = tantivy.Index.open(str(mail.engine.root / INDEX)).writer(15_000_000, 1)
    with pytest.raises(IndexUnavailable, match="another writer"):
        mail.engine.update_incremental([delete(1)])
    with pytest.raises(IndexUnavailable, match="another writer"):
        mail.engine.rebuild()
    assert mail.ids("") == [m.message_id for m in MAIL.messages], "reading needs no lock"
    other.wait_merging_threads()
    first = MAIL.messages[0].message_id
    assert mail.engine.update_incremental([delete(first)]) == 1
    assert mail.ids("")[0] != first


def test_a_rebuild_that_fails_leaves_the_old_index(mail: Case) -> None:
    class Broken(Source):
        def fetch_batch(self, since_id: int, limit: int) -> Sequence[Message]:
            if since_id > 0:
                raise OSError("the disk is gone")
            return super().fetch_batch(since_id, min(limit, 10))

    before = mail.ids("review")
    mail.engine.source = Broken(mail.source.by_id)
    with pytest.raises(EngineError, match="the disk is gone"):
        mail.engine.rebuild()
    assert mail.told.names == ["index.rebuild.start"]
    assert mail.ids("review") == mail.fresh().ids("review") == before
    assert [path.name for path in mail.engine.root.parent.iterdir()] == ["mail"]
    mail.engine.source = mail.source
    assert mail.engine.rebuild().documents == 80


@pytest.mark.parametrize("ids", [(3, 2), (3, 3), (-(2**63),)])
def test_a_source_out_of_order_is_an_error_and_no_endless_loop(
    mail: Case, ids: tuple[int, ...]
) -> None:
    class Unordered(Source):
        def fetch_batch(self, since_id: int, limit: int) -> Sequence[Message]:
            return [one(at) for at in ids if since_id < 10][:limit]

    mail.engine.source = Unordered()
    with pytest.raises(EngineError, match="out of order"):
        mail.engine.rebuild()


def test_a_rebuild_reads_every_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "BATCH", 7)
    mail = case(tmp_path / "mail", [*MAIL.messages, one(-5), one(0)])
    assert mail.engine.rebuild().documents == 82
    assert mail.ids("")[:2] == [-5, 0]


def test_an_empty_source_makes_an_index_that_finds_nothing(tmp_path: Path) -> None:
    mail = built(tmp_path / "mail", [])
    assert mail.engine.health().ready
    for ranking in RankingMode:
        for text in ("", "moss"):
            found = mail.engine.search(text, NONE, ranking, 10)
            assert (found.candidates, found.exhausted) == ((), True)


def test_what_another_engine_wrote_is_seen(mail: Case) -> None:
    other = mail.fresh()
    assert mail.ids("moss") == other.ids("moss") == []
    other.engine.update_incremental([upsert(one(900, "moss"))])
    assert mail.ids("moss") == [900]
    other.source.by_id = {1: one(1, "moss"), 2: one(2, "moss")}
    other.engine.rebuild()
    assert mail.ids("moss") == [1, 2]
    mail.engine.update_incremental([delete(1)])
    assert other.ids("moss") == [2]


def test_health_says_in_words_what_is_amiss(mail: Case) -> None:
    assert mail.engine.health().reason == ""
    highest = max(mail.source.by_id)
    mail.source.by_id[highest + 5] = one(highest + 5, "moss")
    health = mail.engine.health()
    assert not health.ready
    assert (health.documents, health.reason) == (80, "80 messages are indexed, the source has 81")
    del mail.source.by_id[MAIL.messages[0].message_id]
    health = mail.engine.health()
    assert not health.ready
    assert f"higher id than {highest}" in health.reason
    mail.engine.update_incremental([upsert(mail.source.by_id[highest + 5])])
    assert mail.ids("moss") == [highest + 5]
    mail.engine.update_incremental([delete(MAIL.messages[0].message_id)])
    assert mail.engine.health().ready
    mail.source.by_id.clear()
    shutil.rmtree(mail.engine.root)
    health = mail.engine.health()
    assert not health.ready
    assert "no index here" in health.reason
