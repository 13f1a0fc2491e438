"""The switch of interleaving, in the ledger."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from harness.core.errors import EvidenceError
from harness.migrate import ledger, moves
from harness.migrate.ledger import Switch, interleave
from harness.migrate.standing import Interleaved
from harness.policy.load import load_policy
from tests.clicks.test_log import ARMS, AT
from tests.make.shadow.attempts import WATCH

HOUR = timedelta(hours=1)


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    folder = tmp_path / "migration"
    moves.begin(folder, load_policy(WATCH.parent / "mail.toml"), "fts5", now=AT, by="ada")
    return folder


def test_it_is_off_until_an_operator_sets_it_for_these_arms(begun: Path) -> None:
    switch, other = Switch(begun, ARMS), Switch(begun, ("fts5", "dense"))
    assert not switch()
    state = interleave(begun, ARMS, reason="to see", now=AT + HOUR, by="ada")
    assert state.interleaved == Interleaved(at=AT + HOUR, by="ada", arms=ARMS, reason="to see")
    assert ledger.read(begun).state == state
    assert switch()
    assert not other()
    interleave(begun, (), reason="seen", now=AT + 2 * HOUR, by="bob")
    assert not switch()
    assert [event.kind for event in ledger.read(begun).events[1:]] == ["interleaved"] * 2


def test_a_step_taken_back_ends_it(begun: Path) -> None:
    interleave(begun, ARMS, reason="to see", now=AT + HOUR, by="ada")
    switch = Switch(begun, ARMS)
    assert switch()
    moves.rollback(begun, to="", reason="bad", now=AT + 2 * HOUR, by="ada")
    assert not switch()


def test_a_ledger_that_is_torn_or_missing_is_off(begun: Path, tmp_path: Path) -> None:
    interleave(begun, ARMS, reason="to see", now=AT + HOUR, by="ada")
    switch = Switch(begun, ARMS)
    assert switch()
    file = begun / ledger.LEDGER_FILE
    whole = file.read_text()
    file.write_text(whole.replace("to see", "to sell"))
    assert not switch()
    file.write_text(whole)
    assert switch()
    file.unlink()
    assert not switch()
    assert not Switch(tmp_path / "nowhere", ARMS)()


@pytest.mark.parametrize("arms", [("fts5",), ("fts5", "fts5")])
def test_one_arm_or_one_twice_is_refused(begun: Path, arms: tuple[str, ...]) -> None:
    with pytest.raises(EvidenceError, match="name two arms or more, each once"):
        interleave(begun, arms, reason="x", now=AT + HOUR, by="ada")


def test_where_nothing_began_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="has not begun"):
        interleave(tmp_path / "none", ARMS, reason="x", now=AT, by="ada")
    assert not (tmp_path / "none").exists()
