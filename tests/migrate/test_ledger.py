"""The ledger of a migration, its drill, and mail."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from agent_mail.generate import Traffic, generate

from harness.core.digest import of_json
from harness.core.errors import BadFile, EvidenceError
from harness.core.gate import Finding, StepDecision
from harness.corpus import prepared
from harness.migrate import ledger
from harness.migrate import moves as migrate
from harness.migrate.drill import Answerer, DrillClock, Service, drill
from harness.migrate.ledger import SWITCH_FILE
from harness.migrate.standing import Advanced, Begun, Drilled, Event, Observed, RolledBack
from harness.pipeline import params
from harness.pipeline.layout import Layout
from harness.pipeline.oneshot import RunRequest, oneshot
from harness_engines import registry as arms
from harness_engines.stacks.agent_mail.budget import value_in
from tests.make.decisions import POLICY, day, decision, evidence
from tests.make.toy import PARAMS
from tests.source import ROOT

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
        (lambda w: w["entries"].reverse(), "entry 1 does not follow"),
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
    with pytest.raises(BadFile, match=says):
        ledger.add(folder, Begun(at=day(9), by=BY, policy="p", switch="x"), after=ledger.FIRST)


def test_every_torn_file_is_refused(folder: Path) -> None:
    path = folder / ledger.LEDGER_FILE
    whole = path.read_bytes()
    for size in range(0, len(whole) - 2, 97):
        path.write_bytes(whole[:size])
        with pytest.raises(BadFile, match="is torn"):
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


def test_a_drill_that_is_proven_leaves_the_new_engine_and_notes_its_times(
    folder_drill: Path,
) -> None:
    seen: list[tuple[str, str]] = []

    def answers(value: str, text: str) -> Answerer:
        seen.append((value, text))
        return who(value)

    event = walked(folder_drill, answers)
    assert event.passed
    assert (event.back_ns, event.forth_ns) == (10, 10)
    assert (event.old, event.new, event.questions) == ("fts5", "shadow", 3)
    for side in (who("fts5"), who("shadow")):
        assert side.shown in event.said
    assert value_in(folder_drill / SWITCH_FILE) == "shadow"
    assert {("fts5", text) for text in QUESTIONS} <= set(seen)
    assert [value for value, _ in seen] == ["shadow"] * 3 + ["fts5"] * 4 + ["shadow"] * 4
    (taken,) = ledger.read(folder_drill).state.taken
    assert taken.drilled_at == day(2)


def deaf(_value: str, _text: str) -> Answerer:
    """Answer as a service that does not read its switch."""
    return who("shadow")


def old_already(_value: str, _text: str) -> Answerer:
    """Answer as one that never served the new engine."""
    return who("fts5")


def one_strays(value: str, text: str) -> Answerer:
    """Answer the last question from elsewhere after the switch back."""
    return who("shadow") if (value, text) == ("fts5", "three") else who(value)


def other_index(value: str, _text: str) -> Answerer:
    """Answer from the right engine over another index."""
    return who(value) if value == "shadow" else Answerer(of_json("other"), "fts5")


def breaks(value: str, _text: str) -> Answerer:
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
    folder_drill: Path, answers: Callable[[str, str], Answerer], says: str
) -> None:
    event = walked(folder_drill, answers)
    assert not event.passed
    assert says in event.said
    assert value_in(folder_drill / SWITCH_FILE) == "fts5"
    state = ledger.read(folder_drill).state
    assert (state.step, state.switch) == ("", "fts5")
    found = migrate.look(folder_drill, POLICY, evidence(decision(1)), now=day(2, 10))
    assert "decided before shadow was taken back" in found.hindrances[0]


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
    assert event.said == "it was interrupted"


POLICY_MAIL = ROOT / "policy" / "mail.toml"
TRAFFIC = Traffic(messages=1_000, seed=3, queries=12)
IDENTIFIERS = "Quality on identifiers"
FILTERS = "Quality with filters"


@pytest.fixture(scope="module")
def mailbox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the data set once."""
    folder = tmp_path_factory.mktemp("mailbox") / "data"
    made = generate(TRAFFIC)
    prepared.write(folder, "agent-mail", "test", made.documents, made.queries, made.qrels)
    return folder


def migrate_mail(mailbox: Path, out: Path, until: str) -> tuple[StepDecision, ...]:
    """Judge the policy of mail up to a step; hashed words, weighted otherwise, are the model."""
    root = out / "work" / "build"
    root.mkdir(parents=True)
    (root / "data").symlink_to(mailbox)
    hybrid = out / "mail-hybrid.toml"
    text = arms.path_of("mail-hash").read_text(encoding="utf-8")
    hybrid.write_text(text.replace("subject_weight = 2", "subject_weight = 3"))
    policy = out / "mail.toml"
    bounds = POLICY_MAIL.read_text(encoding="utf-8")
    policy.write_text(bounds.replace("resamples = 10000", "resamples = 1000 "), encoding="utf-8")
    settings = out / "params.yaml"
    settings.write_text(PARAMS)
    wanted = RunRequest(
        arms=(str(hybrid),) if until == "hybrid" else (),
        runs={},
        control="",
        policy_file=policy,
        by_steps=True,
        until=until,
        timed=False,
        licence="Apache-2.0",
        source="made by a test",
        command="harness run",
    )
    layout = Layout(root, out / "work" / "perf", out / "work" / "cache")
    return oneshot(
        layout, wanted, params.read(settings), out=out, cache=out / "cache", tell=lambda _: None
    )


@pytest.fixture(scope="module")
def honest(
    mailbox: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, tuple[StepDecision, ...]]:
    """Judge the stack as it is, and give the folder and the decisions."""
    out = tmp_path_factory.mktemp("honest")
    return out, migrate_mail(mailbox, out, "hybrid")


def finding(decision: StepDecision, gate: str) -> Finding:
    return next(found for found in decision.findings if found.gate == gate)
