"""Tantivy as an engine: answers, changes and failures."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest
import tantivy
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_engines.contract import EngineError, IndexUnavailable
from harness_engines.stacks.agent_mail.contract import (
    ChangeKind,
    DocChange,
    Filters,
    Message,
    RankingMode,
)
from harness_engines.stacks.agent_mail.tantivy import index, query
from harness_engines.stacks.agent_mail.tantivy import index as tantivy_index
from harness_engines.stacks.agent_mail.tantivy.engine import LISTING, NAME, NO_WORD
from harness_engines.stacks.agent_mail.tantivy.index import INDEX, META, SUFFIXES, check
from tests.make.damage import overwrite
from tests.make.mail.messages import (
    NOON,
    PHRASES,
    one,
    some_filters,
    some_mail,
    some_message,
    some_text,
)
from tests.make.mail.tantivy import ALL, NONE, Case, Source, built, case, delete, upsert

pytestmark = pytest.mark.slow
MAIL = some_mail(5, 500)


@pytest.fixture(scope="module")
def mail(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return built(tmp_path_factory.mktemp("engine") / "mail", MAIL.messages)


def test_a_joined_token_whole_comes_before_its_parts(tmp_path: Path) -> None:
    mail = built(
        tmp_path / "mail",
        [
            one(1, body="br 2tnl and nothing more"),
            one(2, body="2tnl"),
            one(3, body="a long text in which br-2tnl is only mentioned, once, near the end of it"),
            one(4, body="br and then 2tnl"),
            one(5, body="br-2tnl.1 is another"),
            one(6, body="BR-2TNL in capitals, in a text of about the same length as the third has"),
        ],
    )
    found = mail.ids("br-2tnl")
    assert set(found[:2]) == {3, 6}
    assert set(found) == {1, 3, 5, 6}
    assert mail.ids("see (br-2tnl), please")[:2] == found[:2]
    assert set(mail.ids('"br-2tnl"')) == {1, 3, 5, 6}
    assert mail.ids('"br-2tnl"')[0] == 1, "in quotation marks it is a phrase and no more"


def test_the_subject_counts_more_than_the_body(tmp_path: Path) -> None:
    mail = built(tmp_path / "mail", [one(1, "moss", "stone"), one(2, "stone", "moss")])
    assert mail.ids("stone") == [2, 1]
    assert mail.ids("moss") == [1, 2]


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("moss stone", {1, 2, 3}),
        ("+moss stone", {1, 3}),
        ("moss -stone", {1}),
        ("moss AND stone", {3}),
        ('"moss stone"', {3}),
        ('"stone moss"', set()),
        ("moss NOT stone", {1}),
        ("MOSS", {1, 3}),
        ("moss*", {1, 3}),
        ("mos*", {1, 3}),
        ("MOS*", {1, 3}),
        ("+mos* -st*", {1}),
        ('"mos*"', set()),
        ("mos**", set()),
        ("*oss", set()),
        ("*", set()),
        ("- moss -", {1, 3}),
        ("moss --", {1, 3}),
        ("-", set()),
        ("-moss", {2}),
        ("-moss -stone", set()),
        ("(moss", {1, 3}),
        ('moss "', {1, 3}),
        ("subject:moss", {1, 3}),
        ("moss~2", set()),
        ("moss^3", set()),
        ("[moss TO stone]", {1, 2, 3}),
        ("NEAR (moss stone)", {1, 2, 3}),
        ("IN [moss]", {1, 3}),
    ],
)
def test_what_is_typed_is_words(tmp_path: Path, typed: str, wanted: set[int]) -> None:
    texts = {1: "moss", 2: "stone", 3: "moss stone"}
    mail = built(tmp_path / "mail", [one(at, body=text) for at, text in texts.items()])
    assert set(mail.ids(typed)) == wanted


@pytest.mark.parametrize(
    "text", ["東京", "развёртывания", "हिन्दी", "ไทย", "שָׁלוֹם", "فَشِلَ", "é", "x", "Straße", "ﬁne"]
)
def test_a_word_of_any_script_finds_its_message(tmp_path: Path, text: str) -> None:
    mail = built(tmp_path / "mail", [one(1, body="other words"), one(2, body=f"a {text} here")])
    assert mail.ids(text) == [2]


@pytest.mark.parametrize("text", ["!!!", "§", "-", "x" * 300, '"" ++'])
def test_no_word_is_said_to_be_none(mail: Case, text: str) -> None:
    found = mail.engine.search(text, NONE, RankingMode.RELEVANCE, 10)
    assert (found.candidates, found.exhausted, found.note) == ((), True, NO_WORD)


@given(text=st.text(), ranking=st.sampled_from(RankingMode), depth=st.integers(-1, 20))
def test_any_text_is_a_question(mail: Case, text: str, ranking: RankingMode, depth: int) -> None:
    found = mail.engine.search(text, NONE, ranking, depth)
    assert len(found.candidates) <= max(depth, 0)


@given(
    st.lists(
        st.sampled_from(["AND", "OR", "NOT", "+", "-", '"', "(", ")", "*", "br-2tnl", "done", "~"])
    )
)
def test_any_signs_are_a_question(mail: Case, pieces: list[str]) -> None:
    for between in ("", " "):
        assert mail.ids(between.join(pieces), depth=3) is not None


def test_a_shorter_answer_begins_a_longer_one(mail: Case) -> None:
    rng = Random(8)
    for _ in range(60):
        text, filters = some_text(rng), some_filters(rng) if rng.random() < 0.3 else NONE
        for ranking in RankingMode:
            whole = mail.candidates(text, filters, ranking)
            for depth in (-1, 0, 1, 2, 9, len(whole) - 1, len(whole), len(whole) + 1):
                found = mail.engine.search(text, filters, ranking, depth)
                assert found.candidates == whole[: max(depth, 0)]
                assert found.exhausted == (len(whole) <= max(depth, 0))


def test_the_orders_are_those_of_the_contract(mail: Case) -> None:
    sent = {m.message_id: m.created_ts for m in MAIL.messages}
    for text in ("review", "br-2tnl done", *PHRASES):
        best = mail.candidates(text)
        assert list(best) == sorted(best, key=lambda c: (-c.raw_score, c.message_id))
        recent = mail.candidates(text, ranking=RankingMode.RECENCY)
        assert list(recent) == sorted(best, key=lambda c: (-sent[c.message_id], c.message_id))


def test_no_text_lists_with_score_zero(mail: Case) -> None:
    ids = [m.message_id for m in MAIL.messages]
    newest = sorted(ids, key=lambda at: (-MAIL.by_id[at].created_ts, at))
    for ranking, order in ((RankingMode.RELEVANCE, ids), (RankingMode.RECENCY, newest)):
        found = mail.engine.search("  ", NONE, ranking, ALL)
        assert [c.message_id for c in found.candidates] == order
        assert {c.raw_score for c in found.candidates} == {0.0}
        assert (found.method, found.normalized_query) == (LISTING, None)
    found = mail.engine.search(" a \t b\n", NONE, RankingMode.RELEVANCE, 1)
    assert (found.method, found.normalized_query) == (NAME, "a b")


def test_where_all_messages_tie_the_first_ids_are_shown(tmp_path: Path) -> None:
    ids = Random(2).sample(range(-300, 300), 600)
    mail = built(tmp_path / "mail", [], threads=2)
    mail.engine.update_incremental([upsert(one(at, "moss", "stone")) for at in ids])
    for depth, ranking in itertools.product((1, 3, 599, 600, 601), RankingMode):
        assert mail.ids("moss stone", depth=depth, ranking=ranking) == sorted(ids)[:depth]
    assert mail.ids("", Filters(thread_id=""), depth=3) == sorted(ids)[:3]


def test_how_it_was_written_changes_no_answer(tmp_path: Path) -> None:
    some = some_mail(6, 900).messages
    at_once = built(tmp_path / "at_once", some)
    in_threads = built(tmp_path / "in_threads", some, threads=3)
    in_parts = built(tmp_path / "in_parts", some[:300])
    for start in range(300, 900, 120):
        in_parts.engine.update_incremental([upsert(m) for m in some[start : start + 120]])
    rng = Random(9)
    for _ in range(80):
        text, filters = some_text(rng), some_filters(rng) if rng.random() < 0.3 else NONE
        for ranking, depth in itertools.product(RankingMode, (1, 10, 100)):
            answers = {
                each.candidates(text, filters, ranking, depth)
                for each in (at_once, in_threads, in_parts)
            }
            assert len(answers) == 1


def test_equal_times_go_by_id(tmp_path: Path) -> None:
    mail = built(tmp_path / "mail", [one(at, "moss", created_ts=NOON + at % 2) for at in range(9)])
    assert mail.ids("moss", ranking=RankingMode.RECENCY) == [1, 3, 5, 7, 0, 2, 4, 6, 8]
    assert mail.ids("moss", ranking=RankingMode.RECENCY, depth=2) == [1, 3]


LIFECYCLE_MAIL = some_mail(41, 80)


@pytest.fixture
def mail_lifecycle(tmp_path: Path) -> Case:
    return built(tmp_path / "mail", LIFECYCLE_MAIL.messages)


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
    mail_lifecycle = built(folder / "mail", some_mail(seed, 30).messages)
    for size in batches:
        changes = [
            delete(at) if rng.random() < 0.4 else upsert(some_message(rng, at))
            for at in (rng.randrange(1, 70) for _ in range(size))
        ]
        apply(mail_lifecycle.source, changes)
        assert mail_lifecycle.engine.update_incremental(changes) == size
    assert mail_lifecycle.told.names == ["index.incremental.batch"] * len(batches)
    assert mail_lifecycle.engine.health().ready
    asked = [(some_text(rng), some_filters(rng) if rng.random() < 0.5 else NONE) for _ in range(25)]
    listed = [
        mail_lifecycle.candidates("", filters, ranking)
        for _, filters in asked
        for ranking in RankingMode
    ]
    sets = [set(mail_lifecycle.ids(text, filters)) for text, filters in asked]
    recent = [mail_lifecycle.ids(text, filters, RankingMode.RECENCY) for text, filters in asked]
    anew = built(folder / "anew", mail_lifecycle.source.by_id.values())
    assert listed == [
        anew.candidates("", filters, ranking) for _, filters in asked for ranking in RankingMode
    ]
    assert sets == [set(anew.ids(text, filters)) for text, filters in asked]
    assert recent == [anew.ids(text, filters, RankingMode.RECENCY) for text, filters in asked]
    mail_lifecycle.engine.rebuild()
    for text, filters in asked:
        assert mail_lifecycle.candidates(text, filters) == anew.candidates(text, filters)
    shutil.rmtree(folder)


def test_new_messages_score_as_if_they_had_always_been_there(tmp_path: Path) -> None:
    whole = built(tmp_path / "whole", LIFECYCLE_MAIL.messages)
    grown = built(tmp_path / "grown", LIFECYCLE_MAIL.messages[:30])
    for at in range(30, 80, 10):
        grown.engine.update_incremental([upsert(m) for m in LIFECYCLE_MAIL.messages[at : at + 10]])
    rng = Random(1)
    for _ in range(60):
        text = some_text(rng)
        assert grown.candidates(text) == whole.candidates(text)


def test_a_deleted_text_counts_in_scores_until_it_is_rebuilt(tmp_path: Path) -> None:
    mail_lifecycle = built(
        tmp_path / "mail", [one(at, "moss") for at in range(8)] + [one(9, "stone moss")]
    )
    before = mail_lifecycle.candidates("moss", depth=1)[0]
    mail_lifecycle.engine.update_incremental([delete(at) for at in range(5)])
    assert mail_lifecycle.ids("moss") == [5, 6, 7, 9]
    assert mail_lifecycle.candidates("moss", depth=1)[0].raw_score == before.raw_score
    mail_lifecycle.source.by_id = {
        at: m for at, m in mail_lifecycle.source.by_id.items() if at >= 5
    }
    mail_lifecycle.engine.rebuild()
    assert mail_lifecycle.candidates("moss", depth=1)[0].raw_score != before.raw_score


def test_the_last_change_to_a_message_holds(mail_lifecycle: Case) -> None:
    changes = [
        upsert(one(900, "moss")),
        delete(900),
        upsert(one(900, "fern")),
        upsert(one(901, "moss")),
        delete(901),
        delete(123_456),
    ]
    assert mail_lifecycle.engine.update_incremental(changes) == 6
    assert (mail_lifecycle.ids("moss"), mail_lifecycle.ids("fern")) == ([], [900])
    assert mail_lifecycle.engine.update_incremental([upsert(one(900, "moss"))]) == 1
    assert (mail_lifecycle.ids("moss"), mail_lifecycle.ids("fern")) == ([900], [])
    assert mail_lifecycle.told.events[0][1] == {"batch_size": 6, "engine": "tantivy"}
    mail_lifecycle.told.events.clear()
    assert mail_lifecycle.engine.update_incremental([]) == 0
    assert mail_lifecycle.told.names == []


@pytest.mark.parametrize(
    "wrong", [DocChange(ChangeKind.UPSERT, 1), DocChange(ChangeKind.UPSERT, 1, one(2, "moss"))]
)
def test_a_change_that_contradicts_itself_changes_nothing(
    mail_lifecycle: Case, wrong: DocChange
) -> None:
    with pytest.raises(EngineError, match="change of message 1"):
        mail_lifecycle.engine.update_incremental([upsert(one(900, "moss")), wrong])
    assert mail_lifecycle.ids("moss") == []
    assert mail_lifecycle.engine.health().ready


def test_a_value_of_another_type_loses_no_other_message(
    mail_lifecycle: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a schema the value is taken, and the writer fails at the commit or before."""

    def as_typed_by_tantivy(message: Message, *_: object) -> tantivy.Document:
        return tantivy.Document(message_id=message.message_id, created_ts="today")

    before = mail_lifecycle.ids("")
    monkeypatch.setattr(index, "document", as_typed_by_tantivy)
    with pytest.raises(EngineError, match="updating"):
        mail_lifecycle.engine.update_incremental([delete(before[0]), upsert(one(900, "moss"))])
    with pytest.raises(EngineError, match="rebuilding"):
        mail_lifecycle.engine.rebuild()
    monkeypatch.undo()
    assert mail_lifecycle.ids("") == before
    mail_lifecycle.engine.update_incremental([upsert(one(901, "moss")), delete(before[0])])
    assert mail_lifecycle.ids("") == [*before[1:], 901]


def test_a_message_that_is_lost_on_the_way_is_noticed(
    mail_lifecycle: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "counted", lambda *_: 1)
    with pytest.raises(EngineError, match="81 messages after an update"):
        mail_lifecycle.engine.update_incremental([upsert(one(901, "moss"))])


def test_a_panic_is_an_engine_error_and_the_next_question_is_answered(
    mail_lifecycle: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = mail_lifecycle.engine._ready()  # noqa: SLF001  the panic must be Tantivy's own
    before = mail_lifecycle.ids("review")

    def panics(*_: object) -> None:
        now.searcher.search(tantivy.Query.all_query(), 0)

    monkeypatch.setattr(query, "matching", panics)
    with pytest.raises(EngineError, match="PanicException"):
        mail_lifecycle.ids("review")
    monkeypatch.undo()
    assert mail_lifecycle.ids("review") == before


@pytest.mark.parametrize(
    ("raised", "seen"), [(KeyboardInterrupt, KeyboardInterrupt), (OSError, EngineError)]
)
def test_an_interrupt_is_no_engine_error(
    mail_lifecycle: Case,
    monkeypatch: pytest.MonkeyPatch,
    raised: type[BaseException],
    seen: type[BaseException],
) -> None:
    def fails(*_: object) -> None:
        raise raised

    monkeypatch.setattr(query, "matching", fails)
    with pytest.raises(seen):
        mail_lifecycle.ids("review")


def test_another_writer_is_waited_for_by_the_caller(mail_lifecycle: Case) -> None:
    other = tantivy.Index.open(str(mail_lifecycle.engine.root / INDEX)).writer(15_000_000, 1)
    with pytest.raises(IndexUnavailable, match="another writer"):
        mail_lifecycle.engine.update_incremental([delete(1)])
    with pytest.raises(IndexUnavailable, match="another writer"):
        mail_lifecycle.engine.rebuild()
    assert mail_lifecycle.ids("") == [m.message_id for m in LIFECYCLE_MAIL.messages], (
        "reading needs no lock"
    )
    other.wait_merging_threads()
    first = LIFECYCLE_MAIL.messages[0].message_id
    assert mail_lifecycle.engine.update_incremental([delete(first)]) == 1
    assert mail_lifecycle.ids("")[0] != first


def test_a_rebuild_that_fails_leaves_the_old_index(mail_lifecycle: Case) -> None:
    class Broken(Source):
        def fetch_batch(self, since_id: int, limit: int) -> Sequence[Message]:
            if since_id > 0:
                raise OSError("the disk is gone")
            return super().fetch_batch(since_id, min(limit, 10))

    before = mail_lifecycle.ids("review")
    mail_lifecycle.engine.source = Broken(mail_lifecycle.source.by_id)
    with pytest.raises(EngineError, match="the disk is gone"):
        mail_lifecycle.engine.rebuild()
    assert mail_lifecycle.told.names == ["index.rebuild.start"]
    assert mail_lifecycle.ids("review") == mail_lifecycle.fresh().ids("review") == before
    assert [path.name for path in mail_lifecycle.engine.root.parent.iterdir()] == ["mail"]
    mail_lifecycle.engine.source = mail_lifecycle.source
    assert mail_lifecycle.engine.rebuild().documents == 80


@pytest.mark.parametrize("ids", [(3, 2), (3, 3), (-(2**63),)])
def test_a_source_out_of_order_is_an_error_and_no_endless_loop(
    mail_lifecycle: Case, ids: tuple[int, ...]
) -> None:
    class Unordered(Source):
        def fetch_batch(self, since_id: int, limit: int) -> Sequence[Message]:
            return [one(at) for at in ids if since_id < 10][:limit]

    mail_lifecycle.engine.source = Unordered()
    with pytest.raises(EngineError, match="out of order"):
        mail_lifecycle.engine.rebuild()


def test_a_rebuild_reads_every_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "BATCH", 7)
    mail_lifecycle = case(tmp_path / "mail", [*LIFECYCLE_MAIL.messages, one(-5), one(0)])
    assert mail_lifecycle.engine.rebuild().documents == 82
    assert mail_lifecycle.ids("")[:2] == [-5, 0]


def test_an_empty_source_makes_an_index_that_finds_nothing(tmp_path: Path) -> None:
    mail_lifecycle = built(tmp_path / "mail", [])
    assert mail_lifecycle.engine.health().ready
    for ranking in RankingMode:
        for text in ("", "moss"):
            found = mail_lifecycle.engine.search(text, NONE, ranking, 10)
            assert (found.candidates, found.exhausted) == ((), True)


def test_what_another_engine_wrote_is_seen(mail_lifecycle: Case) -> None:
    other = mail_lifecycle.fresh()
    assert mail_lifecycle.ids("moss") == other.ids("moss") == []
    other.engine.update_incremental([upsert(one(900, "moss"))])
    assert mail_lifecycle.ids("moss") == [900]
    other.source.by_id = {1: one(1, "moss"), 2: one(2, "moss")}
    other.engine.rebuild()
    assert mail_lifecycle.ids("moss") == [1, 2]
    mail_lifecycle.engine.update_incremental([delete(1)])
    assert other.ids("moss") == [2]


def test_health_says_in_words_what_is_amiss(mail_lifecycle: Case) -> None:
    assert mail_lifecycle.engine.health().reason == ""
    highest = max(mail_lifecycle.source.by_id)
    mail_lifecycle.source.by_id[highest + 5] = one(highest + 5, "moss")
    health = mail_lifecycle.engine.health()
    assert not health.ready
    assert (health.documents, health.reason) == (80, "80 messages are indexed, the source has 81")
    del mail_lifecycle.source.by_id[LIFECYCLE_MAIL.messages[0].message_id]
    health = mail_lifecycle.engine.health()
    assert not health.ready
    assert f"higher id than {highest}" in health.reason
    mail_lifecycle.engine.update_incremental([upsert(mail_lifecycle.source.by_id[highest + 5])])
    assert mail_lifecycle.ids("moss") == [highest + 5]
    mail_lifecycle.engine.update_incremental([delete(LIFECYCLE_MAIL.messages[0].message_id)])
    assert mail_lifecycle.engine.health().ready
    mail_lifecycle.source.by_id.clear()
    shutil.rmtree(mail_lifecycle.engine.root)
    health = mail_lifecycle.engine.health()
    assert not health.ready
    assert "no index here" in health.reason


FILES_MAIL = some_mail(31, 120)


@pytest.fixture
def mail_files(tmp_path: Path) -> Case:
    """Two segments, one of them with deleted messages."""
    made = built(tmp_path / "mail", FILES_MAIL.messages[:100])
    made.engine.update_incremental([
        delete(FILES_MAIL.messages[0].message_id),
        *(upsert(message) for message in FILES_MAIL.messages[100:]),
    ])
    del made.source.by_id[FILES_MAIL.messages[0].message_id]
    made.source.by_id.update({m.message_id: m for m in FILES_MAIL.messages[100:]})
    return made


def _gone(path: Path, _: Random) -> None:
    path.unlink()


def _empty(path: Path, _: Random) -> None:
    overwrite(path, b"")


def _cut(path: Path, rng: Random) -> None:
    overwrite(path, path.read_bytes()[: rng.randrange(1, path.stat().st_size)])


def _altered(path: Path, rng: Random) -> None:
    whole = bytearray(path.read_bytes())
    whole[rng.randrange(len(whole) // 2)] ^= 1 << rng.randrange(8)
    overwrite(path, whole)


def _folder(path: Path, _: Random) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [
        *itertools.product([*SUFFIXES, "del"], [_gone, _empty, _cut, _altered, _folder]),
        *itertools.product([META], [_gone, _empty, _cut, _folder]),
    ],
)
def test_a_damaged_file_is_found_when_the_index_is_opened(
    mail_files: Case, suffix: str, damage: Callable[[Path, Random], None]
) -> None:
    path = next((mail_files.engine.root / INDEX).glob(f"*{suffix}"))
    damage(path, Random(suffix))
    fresh = mail_files.fresh()
    with pytest.raises(IndexUnavailable, match=r"broken|no index here"):
        fresh.ids("review")
    health = fresh.engine.health()
    assert not health.ready
    assert str(fresh.engine.root) in health.reason
    with pytest.raises(IndexUnavailable):
        fresh.engine.update_incremental([delete(3)])
    assert fresh.engine.rebuild().documents == 120 - 1
    assert fresh.engine.health().ready
    assert fresh.ids("") == [m.message_id for m in FILES_MAIL.messages[1:]]


@pytest.mark.parametrize(
    "garbled", ["", "{", "[]", "{}", '{"segments": 3}', '{"segments": [{}]}', "null", '"meta"']
)
def test_a_garbled_list_of_segments_is_not_ready(mail_files: Case, garbled: str) -> None:
    (mail_files.engine.root / INDEX / META).write_text(garbled)
    with pytest.raises(IndexUnavailable, match="broken"):
        mail_files.fresh().ids("review")
    with pytest.raises(IndexUnavailable, match="broken"):
        mail_files.engine.search("review", NONE, RankingMode.RELEVANCE, 5)


def test_a_checked_file_is_not_read_again(
    mail_files: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = mail_files.engine.root / INDEX
    known = check(index, frozenset())
    suffixes = {Path(seen.name).suffix.removeprefix(".") for seen in known}
    assert suffixes == {*SUFFIXES, "del"}
    read: list[Path] = []
    monkeypatch.setattr(tantivy_index, "_check_one", read.append)
    assert check(index, known) == known
    assert read == []
    mail_files.engine.update_incremental([delete(FILES_MAIL.messages[1].message_id)])
    assert {path.suffix for path in read} == {".del"}, "only what the commit added"


def test_a_file_changed_since_it_was_checked_is_read_again(mail_files: Case) -> None:
    index = mail_files.engine.root / INDEX
    known = check(index, frozenset())
    path = next(index.glob("*.store"))
    _altered(path, Random(1))
    with pytest.raises(ValueError, match="altered"):
        check(index, known)
