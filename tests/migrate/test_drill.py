"""The drill of a rollback: what proves it, and that every failure ends on the old engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.core.digest import of_json
from harness.core.errors import EvidenceError
from harness.migrate import ledger
from harness.migrate import moves as migrate
from harness.migrate.drill import Clock, Service, Who, drill
from harness.migrate.ledger import SWITCH_FILE
from harness.migrate.standing import START, Drilled
from harness_engines.stacks.agent_mail.budget import value_in
from tests.make.decisions import POLICY, day, decision, evidence

QUESTIONS = ["one", "two", "three"]
BY = "a test"


def who(value: str) -> Who:
    return Who(of_json(value), value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Take the step shadow: the way back is to fts5."""
    folder = tmp_path / "migration"
    migrate.begin(folder, POLICY, "fts5", now=day(1), by=BY)
    found = evidence(decision(1))
    assert migrate.advance(folder, POLICY, found, now=day(1), by=BY, reason="") == ()
    return folder


def walked(folder: Path, answers: Callable[[str, str], Who], patience_ns: int = 50) -> Drilled:
    """Drill with a service whose answers depend on the switch and the question."""
    ticks = iter(range(0, 10_000, 10))
    return drill(
        folder,
        Service(lambda text: answers(value_in(folder / SWITCH_FILE), text), who),
        QUESTIONS,
        by=BY,
        clock=Clock(lambda: day(2), lambda: next(ticks), lambda: None),
        patience_ns=patience_ns,
    )


def test_a_drill_that_is_proven_leaves_the_new_engine_and_notes_its_times(folder: Path) -> None:
    seen: list[tuple[str, str]] = []

    def answers(value: str, text: str) -> Who:
        seen.append((value, text))
        return who(value)

    event = walked(folder, answers)
    assert event.passed
    assert (event.back_ns, event.forth_ns) == (10, 10)
    assert (event.old, event.new, event.questions) == ("fts5", "shadow", 3)
    for side in (who("fts5"), who("shadow")):
        assert side.shown in event.said
    assert value_in(folder / SWITCH_FILE) == "shadow"
    assert {("fts5", text) for text in QUESTIONS} <= set(seen)
    assert [value for value, _ in seen] == ["shadow"] * 3 + ["fts5"] * 4 + ["shadow"] * 4
    (taken,) = ledger.read(folder).state.taken
    assert taken.drilled_at == day(2)


def deaf(_value: str, _text: str) -> Who:
    """Answer as a service that does not read its switch."""
    return who("shadow")


def old_already(_value: str, _text: str) -> Who:
    """Answer as one that never served the new engine."""
    return who("fts5")


def one_strays(value: str, text: str) -> Who:
    """Answer the last question from elsewhere after the switch back."""
    return who("shadow") if (value, text) == ("fts5", "three") else who(value)


def other_index(value: str, _text: str) -> Who:
    """Answer from the right engine over another index."""
    return who(value) if value == "shadow" else Who(of_json("other"), "fts5")


def breaks(value: str, _text: str) -> Who:
    """Die of the switch."""
    if value == "fts5":
        raise ConnectionError("gone")
    return who(value)


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        (deaf, "after the switch to fts5, shadow"),
        (old_already, "before the drill, fts5"),
        (one_strays, "after the switch to fts5, shadow"),
        (other_index, "is meant to"),
        (breaks, "ConnectionError: gone"),
    ],
)
def test_a_drill_that_fails_leaves_the_old_engine_and_says_why(
    folder: Path, answers: Callable[[str, str], Who], says: str
) -> None:
    event = walked(folder, answers)
    assert not event.passed
    assert says in event.said
    assert value_in(folder / SWITCH_FILE) == "fts5"
    state = ledger.read(folder).state
    assert (state.step, state.switch) == ("", "fts5")
    found = migrate.look(folder, POLICY, evidence(decision(1)), now=day(2, 10))
    assert "decided before shadow was taken back" in found.hindrances[0]


def test_a_service_that_follows_late_is_waited_for_and_timed(folder: Path) -> None:
    asked: dict[str, int] = {}

    def late(value: str, _text: str) -> Who:
        asked[value] = asked.get(value, 0) + 1
        return who("shadow") if value == "fts5" and asked[value] < 4 else who(value)

    assert walked(folder, late, patience_ns=100).back_ns == 40
    asked.clear()
    assert not walked(folder, late, patience_ns=20).passed


def test_an_interrupted_drill_goes_back_too(folder: Path) -> None:
    def interrupted(value: str, _text: str) -> Who:
        if value == "fts5":
            raise KeyboardInterrupt
        return who(value)

    with pytest.raises(KeyboardInterrupt):
        walked(folder, interrupted)
    assert value_in(folder / SWITCH_FILE) == "fts5"
    event = ledger.read(folder).events[-1]
    assert isinstance(event, Drilled)
    assert event.said == "it was interrupted"


def test_two_values_that_sign_alike_prove_nothing(folder: Path) -> None:
    clock = Clock(lambda: day(2), lambda: 0, lambda: None)
    same = Service(lambda _: who("shadow"), lambda _: who("shadow"))
    event = drill(folder, same, QUESTIONS, by=BY, clock=clock, patience_ns=1)
    assert "no answer can tell them apart" in event.said
    assert not event.passed


def test_there_must_be_a_step_and_a_question(folder: Path) -> None:
    clock = Clock(lambda: day(2), lambda: 0, lambda: None)
    with pytest.raises(EvidenceError, match="the query set is empty"):
        drill(folder, Service(lambda _: who("shadow"), who), [], by=BY, clock=clock, patience_ns=1)
    migrate.rollback(folder, to=START, reason="r", now=day(2), by=BY)
    with pytest.raises(EvidenceError, match="no step is in force"):
        walked(folder, deaf)
