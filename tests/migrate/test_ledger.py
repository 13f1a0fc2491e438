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


@pytest.mark.parametrize(
    ("change", "says"),
    [(lambda w: w["entries"][2]["event"].update(switch="tantivy"), "entry 3 was changed"),
     (lambda w: w["entries"].pop(), "ends with entry 3, which is not its last"),
     (lambda w: w["entries"].pop(1), "entry 2 does not follow"),
     (lambda w: w.update(head="0" * 64), "is not its last"),
     (lambda w: w.update(format=2), "is of format 2")],
)  # fmt: skip
def test_an_edit_is_missed_and_the_hint_named(
    folder: Path, change: Callable[[Any], object], says: str
) -> None:
    path = folder / ledger.LEDGER_FILE
    whole = json.loads(path.read_text())
    change(whole)
    path.write_text(json.dumps(whole))
    with pytest.raises(BadFile, match=f"{says}.* write SEARCH_ENGINE=VALUE into switch.env"):
        ledger.read(folder)


def test_every_torn_file_is_refused(folder: Path) -> None:
    path = folder / ledger.LEDGER_FILE
    whole = path.read_bytes()
    for size in range(0, len(whole) - 2, 97):
        path.write_bytes(whole[:size])
        with pytest.raises(BadFile, match="is torn"):
            ledger.read(folder)


@pytest.mark.parametrize(
    ("event", "says"),
    [(Begun(at=day(4), by=BY, policy="p", switch="x"), "began already"),
     (RolledBack(at=day(4), by=BY, to="tantivy", switch="x", reason="r"), "is not in force"),
     (Observed(at=day(1), by=BY, decision=None, days=()), "correct the clock")],
)  # fmt: skip
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
    written = iter(range(files))

    def write(path: Path, text: str, *, durable: bool) -> None:
        del durable
        if next(written, None) is None:
            raise KeyboardInterrupt
        path.write_text(text)

    with monkeypatch.context() as dying:
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
    service = Service(lambda text: answers(value_in(folder / SWITCH_FILE), text), who)
    clock = DrillClock(lambda: day(2), lambda: next(ticks), lambda: None)
    return drill(folder, service, QUESTIONS, by=BY, clock=clock, patience_ns=patience_ns)


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
    assert [one.drilled_at for one in ledger.read(folder_drill).state.taken] == [day(2)]


def dies_of(exc: BaseException) -> Callable[[str, str], Answerer]:
    """Make answers that end with the switch."""

    def answers(value: str, _text: str) -> Answerer:
        if value == "fts5":
            raise exc
        return who(value)

    return answers


FAILING: dict[str, tuple[Callable[[str, str], Answerer], str]] = {
    "deaf": (lambda *_: who("shadow"), "after the switch to fts5, shadow"),
    "old already": (lambda *_: who("fts5"), "before the drill, fts5"),
    "one strays": (
        lambda value, text: who("shadow" if (value, text) == ("fts5", "three") else value),
        "after the switch to fts5, shadow",
    ),
    "another index": (
        lambda value, _: who(value)._replace(fingerprint=of_json("other")), "is meant to",
    ),
    "breaks": (dies_of(ConnectionError("gone")), "ConnectionError: gone"),
}  # fmt: skip


@pytest.mark.parametrize("how", FAILING)
def test_a_drill_that_fails_leaves_the_old_engine_and_says_why(
    folder_drill: Path, how: str
) -> None:
    answers, says = FAILING[how]
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
    with pytest.raises(KeyboardInterrupt):
        walked(folder_drill, dies_of(KeyboardInterrupt()))
    assert value_in(folder_drill / SWITCH_FILE) == "fts5"
    event = ledger.read(folder_drill).events[-1]
    assert isinstance(event, Drilled)
    assert not event.passed


STEP = POLICY.steps[1]


def seen(
    number: int, at: datetime, outcome: Class = Class.EXACT, who: tuple[str, str] = ("old", "new")
) -> Observation:
    control, candidate = (replace(SEEN, served_by=by) for by in who)
    return observation(
        number, outcome, writer="w", at=int(at.timestamp()) * 1_000_000_000, control=control,
        candidate=candidate,
    )  # fmt: skip


def log(folder: Path, *records: Observation) -> Path:
    file = path(folder, Observation)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"".join(map(dumped, records)))
    return folder


def test_pairs_are_counted_by_day_of_utc_and_only_those_that_were_compared(tmp_path: Path) -> None:
    midnight = datetime(2026, 3, 4, tzinfo=UTC)
    first = log(
        tmp_path / "one",
        seen(1, midnight - timedelta(seconds=1)),
        seen(2, midnight, Class.REORDER),
        seen(3, midnight, Class.TIMEOUT),
        seen(4, midnight + timedelta(days=5), Class.SHED),
    )
    second = log(tmp_path / "two", seen(1, midnight))
    days = streamed(live([first, second]), STEP)
    assert [(one.day.day, one.pairs) for one in days] == [(3, 1), (4, 2)]
    about = {(one.control, one.candidate, one.source) for one in days}
    assert about == {("mail-fts5", "mail-tantivy", "streams")}


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

    def spend(number: int, *wanted: Action, why: str, serves: str, tantivy: str = "pass") -> None:
        """Live through a day with a decision at which hybrid fails, and look at its end."""
        operator.spend(number, decision(number, hybrid="fail", tantivy=tantivy))
        assert operator.on(number) == [*wanted, Action.WAIT]
        assert why in operator.why(number)
        assert operator.serves == serves

    taken = Action.ADVANCE, Action.DRILL
    days = "{} of the 14 days of shadow that the policy asks for"
    spend(1, *taken, why="tantivy: " + days.format(1), serves="shadow")
    for number in range(2, 9):
        spend(number, why=days.format(number), serves="shadow")
    held = f"tantivy: the decision is HOLD: {GATE} fails"
    spend(9, why=held, serves="shadow", tantivy="fail")
    for number in range(10, 23):
        spend(number, why=days.format(number - 9), serves="shadow")
    spend(23, *taken, why=f"hybrid: the decision is HOLD: {GATE} fails", serves="tantivy")

    for number in range(24, 30):
        operator.spend(number, None)
        assert operator.on(number) == [Action.WAIT if number < 28 else Action.MEASURE]
    assert "6 days old, and the policy takes none older than 5" in operator.why(29)
    assert operator.serves == "tantivy"

    old = "tantivy: it was decided before tantivy was taken back"
    spend(30, Action.ROLLBACK, why=old, serves="shadow", tantivy="fail")
    assert operator.diary[-2][2] == f"tantivy is in force and fails since 2026-03-30: {GATE}"
    spend(31, why=days.format(1), serves="shadow")
