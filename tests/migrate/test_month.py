"""A month of a migration by a clock that is handed in: what is done each day, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.digest import of_json
from harness.migrate import moves as migrate
from harness.migrate.drill import Clock, Service, Who, drill
from harness.migrate.ledger import SWITCH_FILE
from harness.migrate.standing import Action, Ask, Decided
from harness_engines.stacks.agent_mail.budget import value_in
from tests.make.decisions import GATE, POLICY, day, decision, evidence

SOON = replace(POLICY, evidence_days=5)
"""Evidence that expires within the month."""
BY = "the operator"
ENGINE = {"fts5": "fts5", "shadow": "fts5", "tantivy": "tantivy", "hybrid": "hybrid",
          "hybrid_rerank": "rerank"}  # fmt: skip


def who(value: str) -> Who:
    return Who(of_json(value), ENGINE[value])


class Operator:
    """Does each day what the status asks for first, until there is nothing to do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.diary: list[tuple[int, Action, str]] = []
        self.found: Decided | None = None

    def spend(self, number: int, made: Decided | None) -> None:
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
            assert migrate.advance(self.folder, SOON, ev, now=now, by=BY, reason="") == ()
        elif first.action is Action.ROLLBACK:
            migrate.rollback(self.folder, to=first.to, reason=first.why, now=now, by=BY)
        elif first.action is Action.DRILL:
            answers = Service(lambda _: who(value_in(self.folder / SWITCH_FILE)), who)
            ticks = iter(range(100))
            clock = Clock(lambda: now, lambda: next(ticks), lambda: None)
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


@pytest.mark.slow
@pytest.mark.parametrize("missed", [0, 1, 5])
def test_a_day_without_evidence_is_no_day_of_shadow(tmp_path: Path, missed: int) -> None:
    """The fourteenth day comes as many days later as there were without."""
    operator = Operator(tmp_path)
    migrate.begin(tmp_path, SOON, "fts5", now=day(1, 8), by=BY)
    operator.spend(1, decision(1))
    for number in range(2, 2 + missed):
        operator.spend(number, None)
    for number in range(2 + missed, 14 + missed):
        operator.spend(number, decision(number))
        assert operator.on(number) == [Action.WAIT]
    operator.spend(14 + missed, decision(14 + missed))
    assert Action.ADVANCE in operator.on(14 + missed)
    assert operator.on(14 + missed)[-1] is Action.DONE
    assert operator.serves == "hybrid_rerank"
