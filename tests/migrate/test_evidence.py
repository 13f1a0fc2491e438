"""Evidence of live traffic, interleaving, and a month of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from harness.agreement import Class
from harness.core.digest import of_json
from harness.core.errors import EvidenceError
from harness.migrate import ledger, moves
from harness.migrate import moves as migrate
from harness.migrate.drill import Answerer, DrillClock, Service, drill
from harness.migrate.ledger import SWITCH_FILE, Switch, interleave, live, replayed, streamed
from harness.migrate.standing import Action, Ask, Day, DecisionRecord, Interleaved
from harness.policy.load import load_policy
from harness.shadow.log import path
from harness.shadow.record import Observation, dumped
from harness_engines.stacks.agent_mail.pipeline.plan import value_in
from tests.clicks.test_clicks import ARMS, AT
from tests.make.decisions import GATE, POLICY, day, decision, evidence
from tests.make.shadow_records import SEEN, WATCH, observation

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
    file = path(folder, Observation, 1)
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
    migrate.begin(tmp_path, POLICY, "fts5", now=day(1), by="t")
    found, given = evidence(decision(2)), replayed(decision(1))
    assert migrate.observe(tmp_path, found, given, now=day(2), by="t") is not None
    assert migrate.observe(tmp_path, found, given, now=day(2), by="t") is None
    late = (Day(day=date(2026, 3, 4), control="a", candidate="b", pairs=1, source="streams"),)
    with pytest.raises(EvidenceError, match="from the future"):
        migrate.observe(tmp_path, found, late, now=day(3), by="t")
    assert len(ledger.read(tmp_path).events) == 2


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
BY = "the operator"
ENGINE = {"fts5": "fts5", "shadow": "fts5", "tantivy": "tantivy", "hybrid": "hybrid",
          "hybrid_rerank": "rerank"}  # fmt: skip


def who(value: str) -> Answerer:
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
            migrate.observe(self.folder, evidence(made), (), now=now, by=BY)
        while True:
            asks = migrate.look(self.folder, SOON, evidence(self.found), now=now).asks
            self.diary.append((number, asks[0].action, asks[0].why))
            if not self.acted(asks, number):
                return

    def acted(self, asks: Sequence[Ask], number: int) -> bool:
        """Do what is asked for first; tell whether anything was done."""
        now, first = day(number), asks[0]
        if first.action is Action.ADVANCE:
            ev = evidence(self.found)
            assert not migrate.advance(self.folder, SOON, ev, now=now, by=BY, reason="").hindrances
        elif first.action is Action.ROLLBACK:
            migrate.rollback(self.folder, to=first.to, reason=first.why, now=now, by=BY)
        elif first.action is Action.DRILL:
            answers = Service(lambda _: who(value_in(self.folder / SWITCH_FILE)), who)
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
    migrate.begin(operator.folder, SOON, "fts5", now=day(1, 8), by=BY)
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
