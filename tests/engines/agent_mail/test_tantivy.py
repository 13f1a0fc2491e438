"""Tantivy as an engine: answers, changes and failures."""

import itertools
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

import pytest
import tantivy
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness_engines.contract import IndexUnavailable
from harness_engines.stacks.agent_mail.contract import Changes, Message, RankingMode
from harness_engines.stacks.agent_mail.tantivy import engine, index
from harness_engines.stacks.agent_mail.tantivy.index import HASH, INDEX, META, SUFFIXES, schema_hash
from tests.engines.agent_mail.whole import WEIGHTS
from tests.make.damage import cut, flip
from tests.make.mail_engines import NONE, Case, Source, built, case, upserts
from tests.make.mail_messages import one, some_filters, some_mail, some_message, some_text

pytestmark = pytest.mark.slow


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


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("+moss stone", {1, 3}),
        ("moss -stone", {1}),
        ("moss AND stone", {3}),
        ('"stone moss"', set()),
        ("moss NOT stone", {1}),
        ("MOS*", {1, 3}),
        ("+mos* -st*", {1}),
        ('"mos*"', set()),
        ("*oss", set()),
        ("*", set()),
        ("moss --", {1, 3}),
        ("-moss", {2}),
        ("(moss", {1, 3}),
        ("subject:moss", {1, 3}),
        ("moss~2", set()),
        ("[moss TO stone]", {1, 2, 3}),
        ("mos", set()),
        ("`moss`", {1, 3}),
    ],
)
def test_what_is_typed_is_words(three: Case, typed: str, wanted: set[int]) -> None:
    assert set(three.ids(typed)) == wanted


EIGHTY = some_mail(41, 80).messages


@pytest.fixture
def box(tmp_path: Path) -> Case:
    return built(tmp_path / "mail", EIGHTY)


def apply(source: Source, changes: Changes) -> None:
    for message_id, message in changes.items():
        source.by_id.pop(message_id, None)
        if message is not None:
            source.by_id[message_id] = message


@given(seed=st.integers(0, 10_000), batches=st.lists(st.integers(1, 12), min_size=1, max_size=4))
@settings(max_examples=3, deadline=None)
def test_changes_end_where_a_rebuild_does(
    tmp_path_factory: pytest.TempPathFactory, seed: int, batches: list[int]
) -> None:
    rng, folder = Random(seed), tmp_path_factory.mktemp("changes")
    box = built(folder / "mail", some_mail(seed, 30).messages)
    for size in batches:
        changes: dict[int, Message | None] = {
            at: None if rng.random() < 0.4 else some_message(rng, at)
            for at in rng.sample(range(1, 70), size)
        }
        apply(box.source, changes)
        assert box.engine.update_incremental(changes) == size
    assert box.told.names == ["index.incremental.batch"] * len(batches)
    assert box.engine.health().ready
    asked = [(some_text(rng), some_filters(rng) if rng.random() < 0.5 else NONE) for _ in range(25)]

    def answers(of: Case) -> list[object]:
        """Of words only the set and the newest: deleted messages still weigh in an order."""
        return [
            (
                *(of.candidates("", filters, ranking) for ranking in RankingMode),
                {*of.ids(text, filters)},
                of.ids(text, filters, RankingMode.RECENCY),
            )
            for text, filters in asked
        ]

    anew = built(folder / "anew", box.source.by_id.values())
    assert answers(box) == answers(anew)
    box.engine.rebuild()
    assert [box.candidates(*one) for one in asked] == [anew.candidates(*one) for one in asked]
    shutil.rmtree(folder)


def test_changes_are_counted_and_told(box: Case) -> None:
    assert box.engine.update_incremental({900: one(900, "fern"), 901: None, 123_456: None}) == 3
    assert (box.ids("moss"), box.ids("fern")) == ([], [900])
    assert box.engine.update_incremental(upserts(one(900, "moss"))) == 1
    assert (box.ids("moss"), box.ids("fern")) == ([900], [])
    assert box.told.events[0][1] == {"batch_size": 3, "engine": "tantivy"}
    assert box.engine.update_incremental({}) == 0
    assert len(box.told.names) == 2


def test_another_writer_is_waited_for_by_the_caller(box: Case) -> None:
    other = tantivy.Index.open(str(box.engine.root / INDEX)).writer(15_000_000, 1)
    with pytest.raises(IndexUnavailable, match="another writer"):
        box.engine.update_incremental({1: None})
    with pytest.raises(IndexUnavailable, match="another writer"):
        box.engine.rebuild()
    assert box.ids("") == [m.message_id for m in EIGHTY], "reading needs no lock"
    other.wait_merging_threads()
    first = EIGHTY[0].message_id
    assert box.engine.update_incremental({first: None}) == 1
    assert box.ids("")[0] != first


def test_a_rebuild_reads_every_batch_and_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BATCH", 7)
    box = case(tmp_path / "mail", [*EIGHTY, one(-5), one(0)])
    assert box.engine.rebuild().documents == 82
    assert box.ids("")[:2] == [-5, 0]
    box = built(tmp_path / "empty", [])
    assert box.engine.health().ready
    for ranking, text in itertools.product(RankingMode, ("", "moss")):
        found = box.engine.search(text, NONE, ranking, 10)
        assert (found.candidates, found.exhausted) == ((), True)


def test_health_says_in_words_what_is_amiss(box: Case) -> None:
    assert box.engine.health().reason == ""
    highest, first = max(box.source.by_id), EIGHTY[0].message_id
    box.source.by_id[highest + 5] = one(highest + 5, "moss")
    health = box.engine.health()
    assert (health.ready, health.documents) == (False, 80)
    assert health.reason == "80 messages are indexed, the source has 81"
    del box.source.by_id[first]
    health = box.engine.health()
    assert not health.ready
    assert f"higher id than {highest}" in health.reason
    box.engine.update_incremental({**upserts(box.source.by_id[highest + 5]), first: None})
    assert box.ids("moss") == [highest + 5]
    assert box.engine.health().ready
    shutil.rmtree(box.engine.root)
    health = box.engine.health()
    assert not health.ready
    assert "no index here" in health.reason


@pytest.fixture
def files(tmp_path: Path) -> Case:
    """Two segments, one of them with deleted messages."""
    made, (first, *others) = built(tmp_path / "mail", EIGHTY[:60]), EIGHTY
    made.engine.update_incremental({first.message_id: None, **upserts(*EIGHTY[60:])})
    made.source.by_id = {m.message_id: m for m in others}
    return made


DAMAGE: Mapping[str, Callable[[Path], None]] = {
    "gone": Path.unlink,
    "cut": cut,
    "altered": lambda path: flip(path, path.stat().st_size // 4),
}


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [*itertools.product([*SUFFIXES, "del"], DAMAGE), (META, "cut")],
)
def test_a_damaged_file_is_found_when_the_index_is_opened(
    files: Case, suffix: str, damage: str
) -> None:
    DAMAGE[damage](next((files.engine.root / INDEX).glob(f"*{suffix}")))
    with pytest.raises(IndexUnavailable):  # a file that was whole before is read again
        files.engine.update_incremental({3: None})
    fresh = files.fresh()
    with pytest.raises(IndexUnavailable, match=r"broken|no index here"):
        fresh.ids("review")
    health = fresh.engine.health()
    assert not health.ready
    assert str(fresh.engine.root) in health.reason
    with pytest.raises(IndexUnavailable):
        fresh.engine.update_incremental({3: None})
    assert fresh.engine.rebuild().documents == 80 - 1
    assert fresh.engine.health().ready
    assert fresh.ids("") == [m.message_id for m in EIGHTY[1:]]


@pytest.mark.parametrize("damage", ['{"sha256": "0"}', None, "{", "[]"])
def test_another_schema_is_rebuilt_when_it_is_asked(tmp_path: Path, damage: str | None) -> None:
    root = tmp_path / "mail"
    before = built(root, EIGHTY[:40]).ids("")
    path = root / HASH
    path.unlink()
    if damage:
        path.write_text(damage)
    mail = case(root, EIGHTY)
    health = mail.engine.health()
    assert (health.ready, health.reason) == (False, "built with another schema")
    assert mail.told.names == [], "health rebuilds nothing"
    assert mail.ids("") == [m.message_id for m in EIGHTY] != before
    names = ["index.schema.mismatch", "index.rebuild.start", "index.rebuild.complete"]
    assert mail.told.names == names
    mismatch, start, complete = (payload for _, payload in mail.told.events)
    actual = "0" if damage and "sha256" in damage else None
    assert mismatch == {"expected": schema_hash(WEIGHTS), "actual": actual}
    assert start == {"doc_count": 80, "engine": "tantivy"}
    assert {**complete, "duration_ms": 0} == {**start, "duration_ms": 0}
    assert json.loads(path.read_text()) == {"sha256": schema_hash(WEIGHTS)}
    assert mail.engine.health().ready
    mail.fresh().ids("review")
    assert mail.told.names == names


@pytest.mark.parametrize("ids", [(8,), (3,), (1,), (10, 9)])
def test_only_what_is_added_between_breaks_the_order(tmp_path: Path, ids: tuple[int, ...]) -> None:
    before = (2, 3, 5, 8)
    mail = built(tmp_path / "mail", [one(at, "moss") for at in before])
    changes = upserts(*(one(at, "moss") for at in ids))
    apply(mail.source, changes)
    mail.engine.update_incremental(changes)
    assert index.opened(mail.engine.root, None).in_order == (ids == (8,))
    for depth in range(1, 7):
        assert mail.ids("moss", depth=depth) == sorted({*before, *ids})[:depth]


@given(st.lists(st.text(max_size=25), max_size=5))
@example(["abcdefghijklmnopqrstuvwxyz"])
def test_beginnings_are_all_and_only_those_of_two_to_twenty_one(words: list[str]) -> None:
    found = index.grams(words)
    assert len(found) == len(set(found))
    assert set(found) == {word[:n] for word in words for n in range(2, 22) if n <= len(word)}
