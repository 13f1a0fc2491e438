"""The ledger of a migration, its drill, evidence of live traffic, and a month of steps."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.agreement import Class
from harness.core.digest import of_json
from harness.core.errors import BadFile, EvidenceError
from harness.migrate import ledger
from harness.migrate.drill import Answerer, DrillClock, Service, drill
from harness.migrate.ledger import SWITCH_FILE, Switch, interleave, live, replayed, streamed
from harness.migrate.standing import (
    Action,
    Advanced,
    Ask,
    Begun,
    Day,
    DecisionRecord,
    Drilled,
    Event,
    Interleaved,
    Observed,
    RolledBack,
)
from harness.policy.load import load_policy
from harness.shadow.log import path
from harness.shadow.record import Observation, dumped
from harness_engines.stacks.agent_mail.pipeline.plan import value_in
from tests.clicks.test_clicks import ARMS, AT
from tests.make.decisions import GATE, POLICY, day, decision, evidence
from tests.make.shadow_records import SEEN, WATCH, observation

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
    assert "write SEARCH_ENGINE=VALUE into switch.env" in str(told.value)


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


def test_the_way_back_is_open_before_it_is_noted_and_the_way_forth_is_noted_first(
    folder_drill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    monkeypatch.setattr(
        "harness.core.folders.write_text", lambda path, *_, **__: written.append(path.name)
    )
    ledger.rollback(folder_drill, to="", reason="r", now=day(2), by=BY)
    assert written == [SWITCH_FILE, ledger.LEDGER_FILE]
    written.clear()
    begun = Begun(at=day(1), by=BY, policy="p", switch="fts5")
    ledger.add(folder_drill / "other", begun, after=ledger.FIRST, value="fts5")
    assert written == [ledger.LEDGER_FILE, SWITCH_FILE]


@pytest.mark.parametrize("files", [0, 1])
def test_a_step_that_was_cut_off_is_taken_by_the_same_command_and_not_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    """The process dies after the journal, or after the ledger."""
    folder, found = tmp_path / "migration", evidence(decision(1))
    ledger.begin(folder, POLICY, "fts5", now=day(1), by=BY)
    with monkeypatch.context() as dying:
        written = iter(range(files))

        def write(path: Path, text: str, *, durable: bool) -> None:
            del durable
            if next(written, None) is None:
                raise KeyboardInterrupt
            path.write_text(text)

        dying.setattr("harness.core.folders.write_text", write)
        with pytest.raises(KeyboardInterrupt):
            ledger.advance(folder, POLICY, found, now=day(1), by=BY, reason="")
    (ask, *_) = ledger.look(folder, POLICY, found, now=day(1)).asks
    assert ask.action is Action.SWITCH
    assert "Repeat its command" in ask.why
    assert "rollback" not in ask.why
    assert ledger.advance(folder, POLICY, found, now=day(1), by=BY, reason="").state.step
    assert value_in(folder / SWITCH_FILE) == ledger.read(folder).state.switch == "shadow"


QUESTIONS = ["one", "two", "three"]


def who(value: str) -> Answerer:
    return Answerer(of_json(value), value)


@pytest.fixture
def folder_drill(tmp_path: Path) -> Path:
    """Take the step shadow: the way back is to fts5."""
    folder = tmp_path / "migration"
    ledger.begin(folder, POLICY, "fts5", now=day(1), by=BY)
    found = evidence(decision(1))
    assert not ledger.advance(folder, POLICY, found, now=day(1), by=BY, reason="").hindrances
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


STEP = POLICY.steps[1]


def seen(
    number: int, at: datetime, outcome: Class = Class.EXACT, who: tuple[str, str] = ("old", "new")
) -> Observation:
    sides = {
        name: replace(SEEN, served_by=by)
        for name, by in zip(("control", "candidate"), who, strict=True)
    }
    at_ns = int(at.timestamp()) * 1_000_000_000
    return observation(number, outcome, writer="w", at=at_ns, **sides)


def log(folder: Path, *records: Observation) -> Path:
    file = path(folder, Observation)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"".join(map(dumped, records)))
    return folder


def test_pairs_are_counted_by_day_of_utc_and_only_those_that_were_compared(tmp_path: Path) -> None:
    midnight = datetime(2026, 3, 4, tzinfo=UTC)
    last = datetime(2026, 3, 3, 23, 59, 59, tzinfo=UTC)
    first = log(
        tmp_path / "one",
        seen(1, last),
        seen(2, midnight, Class.REORDER),
        seen(3, midnight, Class.TIMEOUT),
        seen(4, datetime(2026, 3, 9, tzinfo=UTC), Class.SHED),
    )
    second = log(tmp_path / "two", seen(1, midnight))
    days = streamed(live([first, second]), STEP)
    assert [(one.day.day, one.pairs) for one in days] == [(3, 1), (4, 2)]
    assert {(one.control, one.candidate, one.source) for one in days} == {
        ("mail-fts5", "mail-tantivy", "streams")
    }


@pytest.mark.parametrize("who", [("same", "same"), ("", "new"), ("old", "")])
def test_an_engine_compared_with_itself_or_with_nobody_is_no_evidence(
    tmp_path: Path, who: tuple[str, str]
) -> None:
    folder = log(tmp_path, seen(1, day(1)), seen(2, day(2), who=who))
    with pytest.raises(EvidenceError, match="attempt 2 of w"):
        streamed(live([folder]), STEP)


def test_a_decision_is_a_day_of_each_pair_of_arms() -> None:
    days = replayed(decision(5))
    assert len(days) == 3  # shadow and tantivy compare the same arms
    assert {(one.day, one.pairs, one.source) for one in days} == {(date(2026, 3, 5), 600, "replay")}


def test_what_was_noted_is_not_noted_again_and_no_day_is_to_come(tmp_path: Path) -> None:
    ledger.begin(tmp_path, POLICY, "fts5", now=day(1), by="t")
    found, given = evidence(decision(2)), replayed(decision(1))
    assert ledger.observe(tmp_path, found, given, now=day(2), by="t") is not None
    assert ledger.observe(tmp_path, found, given, now=day(2), by="t") is None
    late = (Day(day=date(2026, 3, 4), control="a", candidate="b", pairs=1, source="streams"),)
    with pytest.raises(EvidenceError, match="from the future"):
        ledger.observe(tmp_path, found, late, now=day(3), by="t")
    assert len(ledger.read(tmp_path).events) == 2


HOUR = timedelta(hours=1)


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    folder = tmp_path / "migration"
    ledger.begin(folder, load_policy(WATCH.parent / "mail.toml"), "fts5", now=AT, by="ada")
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


def test_a_ledger_that_is_torn_or_missing_is_off(begun: Path) -> None:
    interleave(begun, ARMS, reason="to see", now=AT + HOUR, by="ada")
    switch = Switch(begun, ARMS)
    assert switch()
    file = begun / ledger.LEDGER_FILE
    whole = file.read_text()
    file.write_text(whole.replace("to see", "to sell"))
    assert not switch()
    file.unlink()
    assert not switch()


SOON = replace(POLICY, evidence_days=5)
"""Evidence that expires within the month."""
ENGINE = {"fts5": "fts5", "shadow": "fts5", "tantivy": "tantivy", "hybrid": "hybrid",
          "hybrid_rerank": "rerank"}  # fmt: skip


def engine_of(value: str) -> Answerer:
    return Answerer(of_json(value), ENGINE[value])


class Operator:
    """Does each day what the status asks for first, until there is nothing to do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.diary: list[tuple[int, Action, str]] = []
        self.found: DecisionRecord | None = None

    def spend(self, number: int, made: DecisionRecord | None) -> None:
        """Live through a day; ``made`` is the decision of its morning, if there is one."""
        now = day(number)
        self.found = made or self.found
        if made:
            ledger.observe(self.folder, evidence(made), (), now=now, by=BY)
        while True:
            asks = ledger.look(self.folder, SOON, evidence(self.found), now=now).asks
            self.diary.append((number, asks[0].action, asks[0].why))
            if not self.acted(asks, number):
                return

    def acted(self, asks: Sequence[Ask], number: int) -> bool:
        """Do what is asked for first; tell whether anything was done."""
        now, first = day(number), asks[0]
        if first.action is Action.ADVANCE:
            ev = evidence(self.found)
            assert not ledger.advance(self.folder, SOON, ev, now=now, by=BY, reason="").hindrances
        elif first.action is Action.ROLLBACK:
            ledger.rollback(self.folder, to=first.to, reason=first.why, now=now, by=BY)
        elif first.action is Action.DRILL:
            answers = Service(lambda _: engine_of(value_in(self.folder / SWITCH_FILE)), engine_of)
            ticks = iter(range(100))
            clock = DrillClock(lambda: now, lambda: next(ticks), lambda: None)
            done = drill(self.folder, answers, ["q"], by=BY, clock=clock, patience_ns=9)
            assert done.passed, done.said
        else:
            return False
        return True

    def on(self, number: int) -> list[Action]:
        return [action for at, action, _ in self.diary if at == number]

    def why(self, number: int) -> str:
        return next(why for at, _, why in reversed(self.diary) if at == number)

    @property
    def serves(self) -> str:
        return value_in(self.folder / SWITCH_FILE)


@pytest.mark.slow
def test_a_month_with_a_regression_expiry_and_a_way_back(tmp_path: Path) -> None:
    operator = Operator(tmp_path / "migration")
    ledger.begin(operator.folder, SOON, "fts5", now=day(1, 8), by=BY)
    assert operator.serves == "fts5"

    operator.spend(1, decision(1, hybrid="fail"))
    assert operator.on(1) == [Action.ADVANCE, Action.DRILL, Action.WAIT]
    assert operator.serves == "shadow"
    assert operator.why(1) == "tantivy: 1 of the 14 days of shadow that the policy asks for"

    for number in range(2, 9):
        operator.spend(number, decision(number, hybrid="fail"))
        assert operator.on(number) == [Action.WAIT]
        assert f"{number} of the 14 days" in operator.why(number)

    operator.spend(9, decision(9, tantivy="fail", hybrid="fail"))
    assert operator.on(9) == [Action.WAIT]
    assert operator.why(9) == f"tantivy: the decision is HOLD: {GATE} fails"
    operator.spend(10, decision(10, hybrid="fail"))
    assert "1 of the 14 days" in operator.why(10)

    for number in range(11, 23):
        operator.spend(number, decision(number, hybrid="fail"))
        assert operator.on(number) == [Action.WAIT]
        assert operator.serves == "shadow"
    operator.spend(23, decision(23, hybrid="fail"))
    assert operator.on(23) == [Action.ADVANCE, Action.DRILL, Action.WAIT]
    assert operator.serves == "tantivy"
    assert operator.why(23) == f"hybrid: the decision is HOLD: {GATE} fails"

    for number in range(24, 28):
        operator.spend(number, None)
        assert operator.on(number) == [Action.WAIT]
    for number in (28, 29):
        operator.spend(number, None)
        assert operator.on(number) == [Action.MEASURE]
    assert "6 days old, and the policy takes none older than 5" in operator.why(29)
    assert operator.serves == "tantivy"

    operator.spend(30, decision(30, tantivy="fail", hybrid="fail"))
    assert operator.on(30) == [Action.ROLLBACK, Action.WAIT]
    assert operator.diary[-2][2] == f"tantivy is in force and fails since 2026-03-30: {GATE}"
    assert operator.serves == "shadow"

    operator.spend(31, decision(31, hybrid="fail"))
    assert operator.on(31) == [Action.WAIT]
    assert "1 of the 14 days" in operator.why(31)
    assert operator.serves == "shadow"
