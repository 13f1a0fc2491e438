"""The schema of the message index, its hash, and the rebuild that another schema starts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from threading import Event as Signal
from threading import Thread

import pytest
import tantivy

from engines.contract import IndexUnavailable
from engines.stacks.agent_mail.contract import Message, RankingMode
from engines.stacks.agent_mail.tantivy import index
from engines.stacks.agent_mail.tantivy.index import (
    HASH,
    INDEX,
    Weights,
    document,
    fields,
    schema,
    schema_hash,
)
from tests.make.mail.messages import one, some_mail
from tests.make.mail.tantivy import NONE, WEIGHTS, Source, built, case

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
def test_a_value_of_another_type_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    good = fields(MAIL.messages[0], WEIGHTS)
    monkeypatch.setattr(index, "fields", lambda *_: good | {name: value})
    with pytest.raises(ValueError, match=r"."):
        document(MAIL.messages[0], schema(), WEIGHTS)


def test_other_rules_have_another_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {schema_hash(WEIGHTS), schema_hash(WEIGHTS)}
    assert len(seen) == 1
    seen |= {schema_hash(Weights(3, 4)), schema_hash(Weights(2, 5))}
    monkeypatch.setattr(index, "TEXTS", ("subject",))
    seen.add(schema_hash(WEIGHTS))
    monkeypatch.undo()
    monkeypatch.setattr(index, "grams", lambda _: ("no", "beginnings"))
    seen.add(schema_hash(WEIGHTS))
    monkeypatch.undo()
    monkeypatch.setattr(index, "names", lambda text: tuple(text.split()))
    seen.add(schema_hash(WEIGHTS))
    monkeypatch.undo()
    monkeypatch.setattr(index, "version", lambda _: "0.0.0")
    seen.add(schema_hash(WEIGHTS))
    assert len(seen) == 7


@pytest.mark.parametrize("damage", ["other", "absent", "garbage", "list"])
def test_another_schema_is_rebuilt_when_it_is_asked(tmp_path: Path, damage: str) -> None:
    root = tmp_path / "mail"
    before = built(root, MAIL.messages[:40]).ids("")
    path = root / HASH
    if damage == "absent":
        path.unlink()
    else:
        texts = {"other": '{"sha256": "0"}', "garbage": "{", "list": "[]"}
        path.write_text(texts[damage])
    mail = case(root, MAIL.messages)
    health = mail.engine.health()
    assert (health.ready, health.reason) == (False, "built with another schema")
    assert mail.told.names == [], "health rebuilds nothing"
    assert mail.ids("") == [m.message_id for m in MAIL.messages] != before
    assert mail.told.names == [
        "index.schema.mismatch",
        "index.rebuild.start",
        "index.rebuild.complete",
    ]
    mismatch, start, complete = (payload for _, payload in mail.told.events)
    assert mismatch == {
        "expected": schema_hash(WEIGHTS),
        "actual": "0" if damage == "other" else None,
    }
    assert start == {"doc_count": 60, "engine": "tantivy"}
    assert {**complete, "duration_ms": 0} == {**start, "duration_ms": 0}
    assert json.loads(path.read_text()) == {"sha256": schema_hash(WEIGHTS)}
    assert mail.engine.health().ready
    mail.told.events.clear()
    mail.fresh().ids("review")
    assert mail.told.names == []


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


def test_who_asks_while_it_is_rebuilt_is_told_so(tmp_path: Path) -> None:
    root = tmp_path / "mail"
    built(root, MAIL.messages)
    (root / HASH).unlink()
    mail = case(root, MAIL.messages)
    slow = Slow(MAIL.messages)
    mail.engine.source = slow
    first = Thread(target=mail.ids, args=("",))
    first.start()
    try:
        assert slow.asked.wait(20)
        with pytest.raises(IndexUnavailable, match="being rebuilt"):
            mail.ids("review")
    finally:
        slow.go_on.set()
        first.join()
    assert mail.ids("") == [m.message_id for m in MAIL.messages]


def test_the_old_index_answers_while_the_new_one_is_built(tmp_path: Path) -> None:
    mail = built(tmp_path / "mail", [one(1, "moss")])
    assert mail.ids("moss") == [1]
    slow = Slow([one(1, "moss"), one(2, "moss")])
    mail.engine.source = slow
    building = Thread(target=mail.engine.rebuild)
    building.start()
    try:
        assert slow.asked.wait(20)
        assert mail.ids("moss") == [1]
    finally:
        slow.go_on.set()
        building.join()
    found = mail.engine.search("moss", NONE, RankingMode.RELEVANCE, 5)
    assert [c.message_id for c in found.candidates] == [1, 2]
