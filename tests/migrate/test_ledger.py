"""The ledger of a migration, and its drill."""

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
from harness.migrate import moves as migrate
from harness.migrate.drill import Answerer, DrillClock, Service, drill
from harness.migrate.ledger import SWITCH_FILE
from harness.migrate.standing import Advanced, Begun, Drilled, Event, Observed, RolledBack
from harness_engines.stacks.agent_mail.pipeline.plan import value_in
from tests.make.decisions import POLICY, day, decision, evidence

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


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda w: w["entries"][2]["event"].update(switch="tantivy"), "entry 3 was changed"),
        (lambda w: w["entries"].pop(), "ends with entry 3, which is not its last"),
        (lambda w: w["entries"].pop(1), "entry 2 does not follow"),
        (lambda w: w.update(head="0" * 64), "is not its last"),
        (lambda w: w.update(format=2), "is of format 2"),
    ],
)
def test_an_edit_is_missed_and_the_hint_named(
    folder: Path, change: Callable[[Any], object], says: str
) -> None:
    spoil(folder, change)
    with pytest.raises(BadFile, match=says) as told:
        ledger.read(folder)
    assert "rollback --without-ledger" in str(told.value)


def test_every_torn_file_is_refused(folder: Path) -> None:
    path = folder / ledger.LEDGER_FILE
    whole = path.read_bytes()
    for size in range(0, len(whole) - 2, 97):
        path.write_bytes(whole[:size])
        with pytest.raises(BadFile, match="is torn"):
            ledger.read(folder)


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


QUESTIONS = ["one", "two", "three"]


def who(value: str) -> Answerer:
    return Answerer(of_json(value), value)


@pytest.fixture
def folder_drill(tmp_path: Path) -> Path:
    """Take the step shadow: the way back is to fts5."""
    folder = tmp_path / "migration"
    migrate.begin(folder, POLICY, "fts5", now=day(1), by=BY)
    found = evidence(decision(1))
    assert not migrate.advance(folder, POLICY, found, now=day(1), by=BY, reason="").hindrances
    return folder


def walked(folder: Path, answers: Callable[[str, str], Answerer], patience_ns: int = 50) -> Drilled:
    """Drill with a service whose answers depend on the switch and the question."""
    ticks = iter(range(0, 10_000, 10))
    return drill(
        folder,
        Service(lambda text: answers(value_in(folder / SWITCH_FILE), text), who),
        QUESTIONS,
        by=BY,
        clock=DrillClock(lambda: day(2), lambda: next(ticks), lambda: None),
        patience_ns=patience_ns,
    )


def test_a_drill_that_is_proven_leaves_the_new_engine(folder_drill: Path) -> None:
    seen: list[tuple[str, str]] = []

    def answers(value: str, text: str) -> Answerer:
        seen.append((value, text))
        return who(value)

    event = walked(folder_drill, answers)
    assert event.passed
    assert (event.back_ns, event.forth_ns) == (10, 10)
    assert (event.old, event.new, event.questions) == ("fts5", "shadow", 3)
    assert value_in(folder_drill / SWITCH_FILE) == "shadow"
    assert {("fts5", text) for text in QUESTIONS} <= set(seen)
    assert [value for value, _ in seen] == ["shadow"] * 3 + ["fts5"] * 4 + ["shadow"] * 4
    (taken,) = ledger.read(folder_drill).state.taken
    assert taken.drilled_at == day(2)


def breaks(value: str, _text: str) -> Answerer:
    """Die of the switch."""
    if value == "fts5":
        raise ConnectionError("gone")
    return who(value)


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        (lambda *_: who("shadow"), "after the switch to fts5, shadow"),
        (lambda *_: who("fts5"), "before the drill, fts5"),
        (lambda value, text: who("shadow" if (value, text) == ("fts5", "three") else value),
         "after the switch to fts5, shadow"),
        (lambda value, _: Answerer(of_json("other"), "fts5") if value == "fts5" else who(value),
         "is meant to"),
        (breaks, "ConnectionError: gone"),
    ],
    ids=["deaf", "old already", "one strays", "another index", "breaks"],
)  # fmt: skip
def test_a_drill_that_fails_leaves_the_old_engine_and_says_why(
    folder_drill: Path, answers: Callable[[str, str], Answerer], says: str
) -> None:
    event = walked(folder_drill, answers)
    assert not event.passed
    assert says in event.said
    assert value_in(folder_drill / SWITCH_FILE) == "fts5"
    state = ledger.read(folder_drill).state
    assert (state.step, state.switch) == ("", "fts5")


def test_a_service_that_follows_late_is_waited_for_and_timed(folder_drill: Path) -> None:
    asked: dict[str, int] = {}

    def late(value: str, _text: str) -> Answerer:
        asked[value] = asked.get(value, 0) + 1
        return who("shadow") if value == "fts5" and asked[value] < 4 else who(value)

    assert walked(folder_drill, late, patience_ns=100).back_ns == 40
    asked.clear()
    assert not walked(folder_drill, late, patience_ns=20).passed


def test_an_interrupted_drill_goes_back_too(folder_drill: Path) -> None:
    def interrupted(value: str, _text: str) -> Answerer:
        if value == "fts5":
            raise KeyboardInterrupt
        return who(value)

    with pytest.raises(KeyboardInterrupt):
        walked(folder_drill, interrupted)
    assert value_in(folder_drill / SWITCH_FILE) == "fts5"
    event = ledger.read(folder_drill).events[-1]
    assert isinstance(event, Drilled)
    assert not event.passed
