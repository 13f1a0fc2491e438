"""Whether messages lie by their ids: known where it is so, never claimed where it is not."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.stacks.agent_mail.contract import RankingMode
from engines.stacks.agent_mail.tantivy import index
from engines.stacks.agent_mail.tantivy.index import (
    INDEX,
    ORDER,
    Opened,
    Segment,
    Span,
    ascend,
    noted_layout,
    opened,
)
from tests.make.mail.messages import one, some_filters, some_text
from tests.make.mail.tantivy import NONE, Case, built, case, delete, upsert

IDS = (2, 3, 5, 8)


@pytest.fixture
def mail(tmp_path: Path) -> Case:
    return built(tmp_path / "mail", [one(at, "moss") for at in IDS])


def now(mail: Case) -> Opened:
    return opened(mail.engine.root, frozenset())


def change(mail: Case, *ids: int) -> None:
    for at in ids:
        mail.source.by_id[at] = one(at, "moss")
    mail.engine.update_incremental([upsert(one(at, "moss")) for at in ids])


def test_built_it_is_in_order_and_says_between_which_ids(mail: Case) -> None:
    assert now(mail).in_order
    assert list(noted_layout(mail.engine.root / INDEX).values()) == [Span(2, 8)]


def test_what_is_added_behind_keeps_the_order(mail: Case) -> None:
    change(mail, 9, 11)
    change(mail, 12)
    mail.engine.update_incremental([delete(3)])
    assert now(mail).in_order
    assert sorted(filter(None, noted_layout(mail.engine.root / INDEX).values())) == [
        (2, 8),
        (9, 11),
        (12, 12),
    ]


def test_the_last_message_may_be_written_anew(mail: Case) -> None:
    change(mail, 8)
    assert now(mail).in_order
    assert mail.ids("moss") == [2, 3, 5, 8]


@pytest.mark.parametrize("ids", [(3,), (1,), (10, 9)])
def test_what_is_added_between_does_not(mail: Case, ids: tuple[int, ...]) -> None:
    change(mail, *ids)
    assert not now(mail).in_order
    for depth in range(1, 7):
        assert mail.ids("moss", depth=depth) == sorted({*IDS, *ids})[:depth]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1}', '{"a": [1]}', '{"a": "xy"}'])
def test_a_note_that_cannot_be_read_is_none(mail: Case, text: str) -> None:
    (mail.engine.root / INDEX / ORDER).write_text(text, encoding="utf-8")
    assert noted_layout(mail.engine.root / INDEX) == {}
    assert not now(mail).in_order
    assert mail.fresh().ids("moss", depth=3) == [2, 3, 5]


def test_a_segment_without_a_note_is_read_by_who_writes_next(mail: Case) -> None:
    (mail.engine.root / INDEX / ORDER).unlink()
    assert not now(mail).in_order
    change(mail, 9)
    assert now(mail).in_order


def test_a_note_of_part_of_the_segments_is_not_enough() -> None:
    parts = [Segment("a", 2, None), Segment("b", 1, None)]
    assert ascend(parts, {"a": Span(1, 4), "b": Span(4, 4)})
    assert not ascend(parts, {"a": Span(1, 4), "b": Span(3, 3)})
    assert not ascend(parts, {"a": Span(1, 4), "b": None})
    assert not ascend(parts, {"a": Span(1, 4)})
    assert not ascend([], {})


def test_ids_are_read_where_nothing_is_noted(mail: Case) -> None:
    found = now(mail)
    name = found.segments[0].name
    assert index.read(found.searcher, found.segments, {}) == {name: Span(2, 8)}


@given(seed=st.integers(0, 10_000))
@settings(max_examples=5, deadline=None)
def test_in_order_or_not_the_answers_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    rng = Random(seed)
    texts = [rng.choice(["moss", "moss stone", "stone moss fern"]) for _ in range(60)]
    messages = [one(at, text) for at, text in enumerate(texts, start=1)]
    mail = built(tmp_path_factory.mktemp("order") / "mail", messages[:40])
    mail.engine.update_incremental([upsert(message) for message in messages[40:]])
    assert now(mail).in_order
    copied = Path(shutil.copytree(mail.engine.root, mail.engine.root.with_name("copied")))
    (copied / INDEX / ORDER).unlink()
    slow = case(copied, messages)
    assert not now(slow).in_order
    for _ in range(20):
        text, filters = rng.choice(["moss", "stone fern", some_text(rng)]), some_filters(rng)
        asked = rng.choice([NONE, filters]), rng.choice(list(RankingMode)), rng.randrange(70)
        assert mail.candidates(text, *asked) == slow.candidates(text, *asked)
        assert mail.engine.typeahead("mo", NONE, 9) == slow.engine.typeahead("mo", NONE, 9)
