"""Tantivy as an engine: answers, changes and failures."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Sequence
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
from tests.make.mail_engines import NONE, Case, Source, built, case, delete, upsert
from tests.make.mail_messages import NOON, one, some_filters, some_mail, some_message, some_text

pytestmark = pytest.mark.slow
MAIL = some_mail(5, 500)


@pytest.fixture(scope="module")
def mail(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return built(tmp_path_factory.mktemp("engine") / "mail", MAIL.messages)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Case:
    texts = enumerate(("moss", "stone", "moss stone"), start=1)
    return built(tmp_path_factory.mktemp("three") / "mail", [one(at, body=t) for at, t in texts])


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


def test_the_subject_counts_more_than_the_body_and_equal_times_go_by_id(tmp_path: Path) -> None:
    mail = built(tmp_path / "mail", [one(1, "moss", "stone"), one(2, "stone", "moss")])
    assert (mail.ids("stone"), mail.ids("moss")) == ([2, 1], [1, 2])
    mail = built(tmp_path / "times", [one(at, "moss", created_ts=NOON + at % 2) for at in range(9)])
    assert mail.ids("moss", ranking=RankingMode.RECENCY) == [1, 3, 5, 7, 0, 2, 4, 6, 8]
    assert mail.ids("moss", ranking=RankingMode.RECENCY, depth=2) == [1, 3]


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
        ("mos", set()),
        ('"moss"*', {1, 3}),
        ("moss or stone", {1, 2, 3}),
        ("moss:", {1, 3}),
        ("`moss`", {1, 3}),
    ],
)
def test_what_is_typed_is_words(three: Case, typed: str, wanted: set[int]) -> None:
    assert set(three.ids(typed)) == wanted


def test_a_word_of_any_script_finds_its_message(tmp_path: Path) -> None:
    texts = ["東京", "развёртывания", "हिन्दी", "ไทย", "שָׁלוֹם", "فَشِلَ", "é", "x", "Straße", "ﬁne"]
    messages = [one(at, body=f"a {text} here") for at, text in enumerate(texts)]
    mail = built(tmp_path / "mail", [*messages, one(99, body="other words")])
    assert [mail.ids(text) for text in texts] == [[at] for at in range(len(texts))]


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


@pytest.mark.parametrize(("text", "told"), [("  ", (LISTING, None)), (" a \t b\n", (NAME, "a b"))])
def test_it_says_what_it_was_asked(mail: Case, text: str, told: tuple[str, str | None]) -> None:
    found = mail.engine.search(text, NONE, RankingMode.RELEVANCE, 1)
    assert (found.method, found.normalized_query) == told


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


EIGHTY = some_mail(41, 80)


@pytest.fixture
def box(tmp_path: Path) -> Case:
    return built(tmp_path / "mail", EIGHTY.messages)


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
    box = built(folder / "mail", some_mail(seed, 30).messages)
    for size in batches:
        changes = [
            delete(at) if rng.random() < 0.4 else upsert(some_message(rng, at))
            for at in (rng.randrange(1, 70) for _ in range(size))
        ]
        apply(box.source, changes)
        assert box.engine.update_incremental(changes) == size
    assert box.told.names == ["index.incremental.batch"] * len(batches)
    assert box.engine.health().ready
    asked = [(some_text(rng), some_filters(rng) if rng.random() < 0.5 else NONE) for _ in range(25)]
    listed = [
        box.candidates("", filters, ranking) for _, filters in asked for ranking in RankingMode
    ]
    sets = [set(box.ids(text, filters)) for text, filters in asked]
    recent = [box.ids(text, filters, RankingMode.RECENCY) for text, filters in asked]
    anew = built(folder / "anew", box.source.by_id.values())
    assert listed == [
        anew.candidates("", filters, ranking) for _, filters in asked for ranking in RankingMode
    ]
    assert sets == [set(anew.ids(text, filters)) for text, filters in asked]
    assert recent == [anew.ids(text, filters, RankingMode.RECENCY) for text, filters in asked]
    box.engine.rebuild()
    for text, filters in asked:
        assert box.candidates(text, filters) == anew.candidates(text, filters)
    shutil.rmtree(folder)


def test_scores_after_changes(tmp_path: Path) -> None:
    whole = built(tmp_path / "whole", EIGHTY.messages)
    grown = built(tmp_path / "grown", EIGHTY.messages[:30])
    for at in range(30, 80, 10):
        grown.engine.update_incremental([upsert(m) for m in EIGHTY.messages[at : at + 10]])
    rng = Random(1)
    for _ in range(60):
        text = some_text(rng)
        assert grown.candidates(text) == whole.candidates(text)
    box = built(tmp_path / "mail", [one(at, "moss") for at in range(8)] + [one(9, "stone moss")])
    before = box.candidates("moss", depth=1)[0]
    box.engine.update_incremental([delete(at) for at in range(5)])
    assert box.ids("moss") == [5, 6, 7, 9]
    assert box.candidates("moss", depth=1)[0].raw_score == before.raw_score
    box.source.by_id = {at: m for at, m in box.source.by_id.items() if at >= 5}
    box.engine.rebuild()
    assert box.candidates("moss", depth=1)[0].raw_score != before.raw_score


def test_the_last_change_to_a_message_holds(box: Case) -> None:
    moss, fern = one(900, "moss"), one(900, "fern")
    changes = [upsert(moss), delete(900), upsert(fern), upsert(one(901, "moss")), delete(901)]
    assert box.engine.update_incremental([*changes, delete(123_456)]) == 6
    assert (box.ids("moss"), box.ids("fern")) == ([], [900])
    assert box.engine.update_incremental([upsert(moss)]) == 1
    assert (box.ids("moss"), box.ids("fern")) == ([900], [])
    assert box.told.events[0][1] == {"batch_size": 6, "engine": "tantivy"}
    assert box.engine.update_incremental([]) == 0
    assert len(box.told.names) == 2


@pytest.mark.parametrize(
    "wrong", [DocChange(ChangeKind.UPSERT, 1), DocChange(ChangeKind.UPSERT, 1, one(2, "moss"))]
)
def test_a_contradictory_change_is_refused(box: Case, wrong: DocChange) -> None:
    with pytest.raises(EngineError, match="change of message 1"):
        box.engine.update_incremental([upsert(one(900, "moss")), wrong])
    assert box.ids("moss") == []
    assert box.engine.health().ready


def test_a_bad_value_loses_no_other(box: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a schema the value is taken, and the writer fails at the commit or before."""

    def as_typed_by_tantivy(message: Message, *_: object) -> tantivy.Document:
        return tantivy.Document(message_id=message.message_id, created_ts="today")

    before = box.ids("")
    monkeypatch.setattr(index, "document", as_typed_by_tantivy)
    with pytest.raises(EngineError, match="updating"):
        box.engine.update_incremental([delete(before[0]), upsert(one(900, "moss"))])
    with pytest.raises(EngineError, match="rebuilding"):
        box.engine.rebuild()
    monkeypatch.undo()
    assert box.ids("") == before
    box.engine.update_incremental([upsert(one(901, "moss")), delete(before[0])])
    assert box.ids("") == [*before[1:], 901]


def test_a_lost_message_is_noticed(box: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "counted", lambda *_: 1)
    with pytest.raises(EngineError, match="81 messages after an update"):
        box.engine.update_incremental([upsert(one(901, "moss"))])


@pytest.mark.parametrize(
    ("raised", "seen"),
    [(KeyboardInterrupt, KeyboardInterrupt), (OSError, EngineError), (None, EngineError)],
    ids=["an interrupt", "an error", "a panic of Tantivy's own"],
)
def test_a_panic_is_an_engine_error(
    box: Case,
    monkeypatch: pytest.MonkeyPatch,
    raised: type[BaseException] | None,
    seen: type[BaseException],
) -> None:
    before = box.ids("review")
    searcher = tantivy.Index.open(str(box.engine.root / INDEX)).searcher()

    def fails(*_: object) -> None:
        if raised:
            raise raised
        searcher.search(tantivy.Query.all_query(), 0)

    monkeypatch.setattr(query, "matching", fails)
    with pytest.raises(seen):
        box.ids("review")
    monkeypatch.undo()
    assert box.ids("review") == before


def test_another_writer_is_waited_for_by_the_caller(box: Case) -> None:
    other = tantivy.Index.open(str(box.engine.root / INDEX)).writer(15_000_000, 1)
    with pytest.raises(IndexUnavailable, match="another writer"):
        box.engine.update_incremental([delete(1)])
    with pytest.raises(IndexUnavailable, match="another writer"):
        box.engine.rebuild()
    assert box.ids("") == [m.message_id for m in EIGHTY.messages], "reading needs no lock"
    other.wait_merging_threads()
    first = EIGHTY.messages[0].message_id
    assert box.engine.update_incremental([delete(first)]) == 1
    assert box.ids("")[0] != first


def test_a_rebuild_that_fails_leaves_the_old_index(box: Case) -> None:
    class Broken(Source):
        def fetch_batch(self, since_id: int, limit: int) -> Sequence[Message]:
            if since_id > 0:
                raise OSError("the disk is gone")
            return super().fetch_batch(since_id, min(limit, 10))

    before = box.ids("review")
    box.engine.source = Broken(box.source.by_id)
    with pytest.raises(EngineError, match="the disk is gone"):
        box.engine.rebuild()
    assert box.told.names == ["index.rebuild.start"]
    assert box.ids("review") == box.fresh().ids("review") == before
    assert [path.name for path in box.engine.root.parent.iterdir()] == ["mail"]
    box.engine.source = box.source
    assert box.engine.rebuild().documents == 80


@pytest.mark.parametrize("ids", [(3, 2), (3, 3), (-(2**63),)])
def test_a_source_out_of_order_is_an_error(box: Case, ids: tuple[int, ...]) -> None:
    class Unordered(Source):
        def fetch_batch(self, since_id: int, limit: int) -> Sequence[Message]:
            return [one(at) for at in ids if since_id < 10][:limit]

    box.engine.source = Unordered()
    with pytest.raises(EngineError, match="out of order"):
        box.engine.rebuild()


def test_a_rebuild_reads_every_batch_and_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "BATCH", 7)
    box = case(tmp_path / "mail", [*EIGHTY.messages, one(-5), one(0)])
    assert box.engine.rebuild().documents == 82
    assert box.ids("")[:2] == [-5, 0]
    box = built(tmp_path / "empty", [])
    assert box.engine.health().ready
    for ranking, text in itertools.product(RankingMode, ("", "moss")):
        found = box.engine.search(text, NONE, ranking, 10)
        assert (found.candidates, found.exhausted) == ((), True)


def test_what_another_engine_wrote_is_seen(box: Case) -> None:
    other = box.fresh()
    assert box.ids("moss") == other.ids("moss") == []
    other.engine.update_incremental([upsert(one(900, "moss"))])
    assert box.ids("moss") == [900]
    other.source.by_id = {1: one(1, "moss"), 2: one(2, "moss")}
    other.engine.rebuild()
    assert box.ids("moss") == [1, 2]
    box.engine.update_incremental([delete(1)])
    assert other.ids("moss") == [2]


def test_health_says_in_words_what_is_amiss(box: Case) -> None:
    assert box.engine.health().reason == ""
    highest, first = max(box.source.by_id), EIGHTY.messages[0].message_id
    box.source.by_id[highest + 5] = one(highest + 5, "moss")
    health = box.engine.health()
    assert (health.ready, health.documents) == (False, 80)
    assert health.reason == "80 messages are indexed, the source has 81"
    del box.source.by_id[first]
    health = box.engine.health()
    assert not health.ready
    assert f"higher id than {highest}" in health.reason
    box.engine.update_incremental([upsert(box.source.by_id[highest + 5]), delete(first)])
    assert box.ids("moss") == [highest + 5]
    assert box.engine.health().ready
    shutil.rmtree(box.engine.root)
    health = box.engine.health()
    assert not health.ready
    assert "no index here" in health.reason


FILED = some_mail(31, 120)


@pytest.fixture
def files(tmp_path: Path) -> Case:
    """Two segments, one of them with deleted messages."""
    made = built(tmp_path / "mail", FILED.messages[:100])
    made.engine.update_incremental([
        delete(FILED.messages[0].message_id),
        *(upsert(message) for message in FILED.messages[100:]),
    ])
    del made.source.by_id[FILED.messages[0].message_id]
    made.source.by_id.update({m.message_id: m for m in FILED.messages[100:]})
    return made


def damage_file(path: Path, kind: str, rng: Random) -> None:
    """Lose, empty, cut, alter or replace a file of an index."""
    whole = bytearray(path.read_bytes())
    if kind in {"gone", "folder"}:
        path.unlink()
    if kind == "folder":
        path.mkdir()
    if kind == "altered":
        whole[rng.randrange(len(whole) // 2)] ^= 1 << rng.randrange(8)
    if kind in {"empty", "cut", "altered"}:
        ends = {"empty": 0, "cut": rng.randrange(1, len(whole)), "altered": len(whole)}
        overwrite(path, whole[: ends[kind]])


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [
        *itertools.product([*SUFFIXES, "del"], ["gone", "empty", "cut", "altered", "folder"]),
        *itertools.product([META], ["gone", "empty", "cut", "folder"]),
    ],
)
def test_a_damaged_file_is_found_when_the_index_is_opened(
    files: Case, suffix: str, damage: str
) -> None:
    path = next((files.engine.root / INDEX).glob(f"*{suffix}"))
    damage_file(path, damage, Random(suffix))
    fresh = files.fresh()
    with pytest.raises(IndexUnavailable, match=r"broken|no index here"):
        fresh.ids("review")
    health = fresh.engine.health()
    assert not health.ready
    assert str(fresh.engine.root) in health.reason
    with pytest.raises(IndexUnavailable):
        fresh.engine.update_incremental([delete(3)])
    assert fresh.engine.rebuild().documents == 120 - 1
    assert fresh.engine.health().ready
    assert fresh.ids("") == [m.message_id for m in FILED.messages[1:]]


@pytest.mark.parametrize(
    "garbled", ["", "{", "[]", "{}", '{"segments": 3}', '{"segments": [{}]}', "null", '"meta"']
)
def test_a_garbled_list_of_segments_is_not_ready(files: Case, garbled: str) -> None:
    (files.engine.root / INDEX / META).write_text(garbled)
    with pytest.raises(IndexUnavailable, match="broken"):
        files.fresh().ids("review")
    with pytest.raises(IndexUnavailable, match="broken"):
        files.engine.search("review", NONE, RankingMode.RELEVANCE, 5)


def test_a_checked_file_is_read_once(files: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    index = files.engine.root / INDEX
    known = check(index, frozenset())
    suffixes = {Path(seen.name).suffix.removeprefix(".") for seen in known}
    assert suffixes == {*SUFFIXES, "del"}
    read: list[Path] = []
    with monkeypatch.context() as patch:
        patch.setattr(tantivy_index, "_check_one", read.append)
        assert check(index, known) == known
        assert read == []
        files.engine.update_incremental([delete(FILED.messages[1].message_id)])
        assert {path.suffix for path in read} == {".del"}, "only what the commit added"
    damage_file(next(index.glob("*.store")), "altered", Random(1))
    with pytest.raises(ValueError, match="altered"):
        check(index, known)
