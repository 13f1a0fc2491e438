"""Days on which arms were compared, from shadow streams and from a decision."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from harness.agreement import Class
from harness.core.errors import BadFile, EvidenceError
from harness.core.run import Status
from harness.migrate import ledger
from harness.migrate import moves as migrate
from harness.migrate.ledger import live, replayed, streamed
from harness.migrate.standing import Day
from harness.shadow.log import path
from harness.shadow.record import Observation, Seen, dumped
from tests.make.decisions import POLICY, day, decision, evidence

STEP = POLICY.steps[1]


def seen(who: str) -> Seen:
    return Seen(
        status=Status.ANSWERED,
        elapsed_ns=1,
        hits=1,
        duplicates=0,
        top=1.0,
        top_raw=1.0,
        answer="a",
        served_by=who,
        generation="g",
    )


def observation(
    number: int, at: datetime, outcome: Class = Class.EXACT, who: tuple[str, str] = ("old", "new")
) -> Observation:
    return Observation(
        number=number,
        writer="w",
        at=int(at.timestamp()) * 1_000_000_000,
        served=number,
        query="k",
        slices=(),
        outcome=outcome,
        reason="",
        k=10,
        control=seen(who[0]),
        candidate=seen(who[1]),
        jaccard=None,
        rbo=None,
    )


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
        observation(1, last),
        observation(2, midnight, Class.REORDER),
        observation(3, midnight, Class.TIMEOUT),
        observation(4, datetime(2026, 3, 9, tzinfo=UTC), Class.SHED),
    )
    second = log(tmp_path / "two", observation(1, midnight))
    days = streamed(live([first, second]), STEP)
    assert [(one.day.day, one.pairs) for one in days] == [(3, 1), (4, 2)]
    assert {(one.control, one.candidate, one.source) for one in days} == {
        ("mail-fts5", "mail-tantivy", "streams")
    }


@pytest.mark.parametrize("who", [("same", "same"), ("", "new"), ("old", "")])
def test_an_engine_compared_with_itself_or_with_nobody_is_no_evidence(
    tmp_path: Path, who: tuple[str, str]
) -> None:
    folder = log(tmp_path, observation(1, day(1)), observation(2, day(2), who=who))
    with pytest.raises(EvidenceError, match="attempt 2 of w"):
        streamed(live([folder]), STEP)


def test_a_folder_without_streams_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="holds no shadow streams"):
        list(live([tmp_path]))


def test_a_decision_is_a_day_of_each_pair_of_arms() -> None:
    days = replayed(decision(5))
    assert len(days) == 3  # shadow and tantivy compare the same arms
    assert {(one.day, one.pairs, one.source) for one in days} == {(date(2026, 3, 5), 600, "replay")}


def test_deciding_again_makes_no_day_of_an_old_replay() -> None:
    assert {one.day for one in replayed(decision(9, replayed=5))} == {date(2026, 3, 5)}
    unknown = decision(9)
    steps = tuple(one.model_copy(update={"replayed_at": None}) for one in unknown.steps)
    assert replayed(unknown.model_copy(update={"steps": steps})) == ()


def test_what_was_noted_is_not_noted_again_and_no_day_is_to_come(tmp_path: Path) -> None:
    migrate.begin(tmp_path, POLICY, "fts5", now=day(1), by="t")
    found, given = evidence(decision(2)), replayed(decision(1))
    assert migrate.observe(tmp_path, found, given, now=day(2), by="t") is not None
    assert migrate.observe(tmp_path, found, given, now=day(2), by="t") is None
    late = (Day(day=date(2026, 3, 4), control="a", candidate="b", pairs=1, source="streams"),)
    with pytest.raises(EvidenceError, match="from the future"):
        migrate.observe(tmp_path, found, late, now=day(3), by="t")
    with pytest.raises(EvidenceError, match="torn"):
        migrate.observe(tmp_path, evidence(None, "torn"), (), now=day(3), by="t")
    assert len(ledger.read(tmp_path).events) == 2


def test_the_switch_names_the_entry_of_the_ledger_that_set_it(tmp_path: Path) -> None:
    migrate.begin(tmp_path, POLICY, "fts5", now=day(1), by="t")
    migrate.advance(tmp_path, POLICY, evidence(decision(1)), now=day(1), by="t", reason="")
    text = (tmp_path / ledger.SWITCH_FILE).read_text()
    head = ledger.read(tmp_path).head
    assert f"# harness migrate: shadow, entry 2 of ledger.json, {head[:12]}\n" in text
    assert ledger.drift(tmp_path, "shadow") == ""
    ledger.write(tmp_path, "fts5", why="a comment\nSEARCH_ENGINE=hybrid")
    assert "is set to fts5" in ledger.drift(tmp_path, "shadow")
