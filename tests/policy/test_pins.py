"""Pins lie beside their policy, and that somebody pinned again is kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.core.errors import BadFile
from harness.core.records import Qrels, Query
from harness.corpus.prepared import Inventory
from harness.policy.pins import path_of, pin, read

AT = datetime(2026, 3, 1, tzinfo=UTC)
FIRST = Inventory.of([Query("a", "one")], Qrels({"a": {"d": 1}}))
SECOND = Inventory.of([Query("a", "one"), Query("b", "two")], Qrels({"a": {"d": 1}}))


def test_a_policy_without_pins_has_none(tmp_path: Path) -> None:
    assert path_of(tmp_path / "mail.toml") == tmp_path / "mail.pins.json"
    assert read(tmp_path / "mail.toml").datasets == {}


def test_what_differs_from_a_pin_is_told(tmp_path: Path) -> None:
    found = pin(tmp_path / "p.toml", "toy", FIRST, {"k": 50}, at=AT, by="me")
    assert found == read(tmp_path / "p.toml").datasets["toy"]
    assert found.differences(FIRST, {"k": 50}) == ()
    assert found.differences(SECOND, {"k": 50}) == ("1 query added (b)",)
    assert found.differences(FIRST, {"k": 20, "seed": 1}) == (
        "race k is 20, pinned 50", "race seed is 1, pinned not set",
    )  # fmt: skip


def test_no_race_is_no_other_race(tmp_path: Path) -> None:
    raced = pin(tmp_path / "p.toml", "toy", FIRST, {"k": 50}, at=AT, by="me")
    assert raced.differences(FIRST, {}) == ()
    never = pin(tmp_path / "q.toml", "toy", FIRST, {}, at=AT, by="me")
    assert never.differences(FIRST, {"k": 50}) == ()


def test_every_pin_is_kept_with_what_it_changed(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    pin(file, "toy", FIRST, {}, at=AT, by="me")
    pin(file, "other", FIRST, {}, at=AT, by="me")
    pin(file, "toy", SECOND, {}, at=AT + timedelta(days=1), by="you")
    found = read(file).datasets
    assert found.keys() == {"toy", "other"}
    assert [(one.by, one.changes) for one in found["toy"].made] == [
        ("me", ()), ("you", ("1 query added (b)",)),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "[]", '{"format": 2, "datasets": {}}', '{"datasets": 1}'])
def test_what_is_no_pin_is_refused(tmp_path: Path, text: str) -> None:
    path_of(tmp_path / "p.toml").write_text(text)
    with pytest.raises(BadFile, match=r"p\.pins\.json:(1:)? "):
        read(tmp_path / "p.toml")
    with pytest.raises(BadFile, match=r"p\.pins\.json:(1:)? "):
        pin(tmp_path / "p.toml", "toy", FIRST, {}, at=AT, by="me")
