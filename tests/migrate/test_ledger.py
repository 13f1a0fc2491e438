"""The ledger only grows: whatever else is done to it is missed, and the hint is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.core.digest import of_json
from harness.core.errors import BadFile, EvidenceError
from harness.migrate import ledger
from harness.migrate.standing import Advanced, Begun, Event, Observed, RolledBack
from tests.make.decisions import day, decision

BY = "a test"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a ledger of four events."""
    folder = tmp_path / "migration"
    events = (
        Begun(at=day(1), by=BY, policy="p", switch="fts5"),
        Observed(at=day(2), by=BY, decision=decision(2), days=()),
        Advanced(at=day(2), by=BY, step="shadow", switch="shadow", decision=decision(2, raced=1)),
        RolledBack(at=day(3), by=BY, to="", switch="fts5", reason="a reason"),
    )
    head = ledger.FIRST
    for event in events:
        head = ledger.add(folder, event, after=head).head
    return folder


def spoil(folder: Path, change: Callable[[Any], object]) -> None:
    path = folder / ledger.LEDGER_FILE
    whole = json.loads(path.read_text())
    change(whole)
    path.write_text(json.dumps(whole))


def test_what_was_added_is_read_back(folder: Path) -> None:
    found = ledger.read(folder)
    kinds = ["begun", "observed", "advanced", "rolled_back"]
    assert [event.kind for event in found.events] == kinds
    assert found.events[2] == Advanced(
        at=day(2), by=BY, step="shadow", switch="shadow", decision=decision(2, raced=1)
    )
    assert (found.state.step, found.state.switch) == ("", "fts5")
    assert found.state.turned_back == {"shadow": day(3)}
    assert ledger.read(folder / "none") == ledger.Ledger((), ledger.FIRST)
    with pytest.raises(EvidenceError, match="has not begun"):
        _ = ledger.read(folder / "none").state


def last(whole: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = whole["entries"][-1]
    return found


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda w: w["entries"][2]["event"].update(switch="tantivy"), "entry 3 was changed"),
        (lambda w: w["entries"][0]["event"].update(at="2026-03-01T08:00:00Z"), "entry 1 was ch"),
        (lambda w: w["entries"].pop(), "ends with entry 3, which is not its last"),
        (lambda w: w["entries"].pop(1), "entry 2 does not follow"),
        (lambda w: w["entries"].pop(0), "entry 1 does not follow"),
        (lambda w: w["entries"].reverse(), "entry 1 does not follow"),
        (lambda w: w["entries"].append(last(w)), "entry 5 does not follow"),
        (lambda w: w["entries"][1].pop("previous"), "entry 2 is invalid"),
        (lambda w: w.update(head="0" * 64), "is not its last"),
        (lambda w: w.update(format=2), "is of format 2"),
        (lambda w: w.update(entries={}), "has no list of entries"),
        (lambda w: w.pop("head"), "is not a ledger"),
        (lambda w: w.update(more=1), "is not a ledger"),
    ],
)
def test_an_edit_is_missed_and_the_hint_named(
    folder: Path, change: Callable[[Any], object], says: str
) -> None:
    spoil(folder, change)
    with pytest.raises(BadFile, match=says) as told:
        ledger.read(folder)
    assert "rollback --without-ledger" in str(told.value)
    with pytest.raises(BadFile, match=says):
        ledger.add(folder, Begun(at=day(9), by=BY, policy="p", switch="x"), after=ledger.FIRST)


def test_every_torn_file_is_refused(folder: Path) -> None:
    path = folder / ledger.LEDGER_FILE
    whole = path.read_bytes()
    for size in range(0, len(whole) - 2, 97):
        path.write_bytes(whole[:size])
        with pytest.raises(BadFile, match="is torn"):
            ledger.read(folder)


def test_an_event_that_is_well_signed_and_none_is_refused(folder: Path) -> None:
    def forge(whole: dict[str, Any]) -> None:
        entry = last(whole)
        entry["event"]["kind"] = "forged"
        entry["sha256"] = of_json([entry["number"], entry["previous"], entry["event"]])
        whole["head"] = entry["sha256"]

    spoil(folder, forge)
    with pytest.raises(BadFile, match="entry 4"):
        ledger.read(folder)


def test_two_who_read_the_same_head_cannot_both_write(folder: Path) -> None:
    known = ledger.read(folder)
    event = Observed(at=day(4), by=BY, decision=None, days=())
    ledger.add(folder, event, after=known.head)
    with pytest.raises(EvidenceError, match="somebody else wrote"):
        ledger.add(folder, event, after=known.head)
    assert len(ledger.read(folder).events) == 5


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (Begun(at=day(4), by=BY, policy="p", switch="x"), "began already"),
        (RolledBack(at=day(4), by=BY, to="tantivy", switch="x", reason="r"), "is not in force"),
        (Observed(at=day(1), by=BY, decision=None, days=()), "correct the clock"),
    ],
)
def test_what_cannot_happen_is_not_written(folder: Path, event: Event, says: str) -> None:
    before = (folder / ledger.LEDGER_FILE).read_bytes()
    with pytest.raises(EvidenceError, match=says):
        ledger.add(folder, event, after=ledger.read(folder).head)
    assert (folder / ledger.LEDGER_FILE).read_bytes() == before
    assert [path.name for path in folder.iterdir()] == [ledger.LEDGER_FILE]


def test_a_time_of_the_future_is_refused(tmp_path: Path) -> None:
    """A ledger may not rest on a decision of later, nor be of later than today."""
    late = datetime.now(UTC) + timedelta(hours=40)
    begun = Begun(at=day(1), by=BY, policy="p", switch="fts5")
    head = ledger.add(tmp_path, begun, after=ledger.FIRST).head
    rests = Observed(at=day(2), by=BY, decision=decision(4, replayed=1), days=())
    with pytest.raises(EvidenceError, match="from the future"):
        ledger.add(tmp_path, rests, after=head)
    ledger.add(tmp_path, Observed(at=late, by=BY, decision=None, days=()), after=head)
    with pytest.raises(BadFile, match=r"ledger\.json: .* from the future .*Bring the file back"):
        ledger.read(tmp_path)
