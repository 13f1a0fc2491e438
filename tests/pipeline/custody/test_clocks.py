"""A time of the future makes old evidence young: it is refused wherever one is stored."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.core.errors import BadFile, EvidenceError, HarnessError
from harness.migrate.ledger import evidence
from harness.pipeline.experiments import note_timed
from harness.pipeline.pins import pin
from harness.pipeline.race import read_race
from harness.pipeline.receipts import note_replayed, replayed
from harness.pipeline.verify import verify
from harness.policy.age import SLACK, check_past
from harness.policy.pins import path_of
from tests.make.forging import forge
from tests.make.toy import ARMS, CONTROL, GATES, HEAD, RACED, STEP, Toy

pytestmark = pytest.mark.slow

AHEAD = timedelta(hours=40)


@pytest.fixture(scope="module")
def decided(measured: Toy, tmp_path_factory: pytest.TempPathFactory) -> Toy:
    made = measured.copied(tmp_path_factory.mktemp("clocks") / "project")
    made.policy(HEAD + STEP + GATES + RACED)
    made.decide()
    return made


@pytest.fixture
def held(decided: Toy, tmp_path: Path) -> Toy:
    return decided.copied(tmp_path / "held")


def moved(by: timedelta) -> Callable[[dict[str, Any]], None]:
    """Move when it was decided, and when it expires."""

    def edit(about: dict[str, Any]) -> None:
        of = about["provenance"]
        for name in ("decided_at", "expires_at"):
            of[name] = (datetime.fromisoformat(of[name]) + by).isoformat(timespec="seconds")

    return edit


def test_a_decision_of_the_future_is_refused_by_all_that_read_it(held: Toy) -> None:
    forge(held.layout, moved(AHEAD))
    with pytest.raises(BadFile, match=r"decision\.json: .* from the future .*harness gate"):
        verify(held.layout)
    found = evidence(held.layout, held.project.policy_file, lambda: None)
    assert found.decision is None
    assert "from the future" in found.refused


def test_a_decision_is_of_the_time_of_its_line(held: Toy) -> None:
    """Nor can an old one be made younger than its line of the log."""
    forge(held.layout, moved(-AHEAD))
    with pytest.raises(EvidenceError, match=r"decision\.json: was decided at .*, and line 3 of"):
        verify(held.layout)


def test_a_line_of_the_log_of_the_future_is_refused(held: Toy) -> None:
    note_timed(held.layout, "race", ARMS, datetime.now(UTC) + AHEAD)
    held.decide()
    with pytest.raises(EvidenceError, match=r"log\.jsonl:4: .* from the future"):
        verify(held.layout)


def test_a_pin_of_the_future_is_refused(held: Toy) -> None:
    file = held.project.policy_file
    pin(held.layout, file, at=datetime.now(UTC) + AHEAD, by="me")
    assert path_of(file).is_file()
    held.decide()
    with pytest.raises(EvidenceError, match="from the future"):
        verify(held.layout)


def test_a_replay_of_the_future_is_refused(held: Toy) -> None:
    note_replayed(held.layout, CONTROL, datetime.now(UTC) + AHEAD)
    with pytest.raises(BadFile, match=r"from the future .*harness stage replay"):
        replayed(held.layout, CONTROL)


def test_a_race_of_the_future_is_refused(held: Toy) -> None:
    table = pq.read_table(held.layout.times)
    ahead = (datetime.now(UTC) + AHEAD).isoformat().encode()
    about = {**(table.schema.metadata or {}), b"raced_at": ahead}
    pq.write_table(table.replace_schema_metadata(about), held.layout.times)
    with pytest.raises(EvidenceError, match=r"from the future .*harness race"):
        read_race(held.layout)


def test_honest_times_are_verified(held: Toy) -> None:
    verify(held.layout)


@pytest.mark.parametrize("made_at", ["2026-11-02", "yesterday", "2026-11-02T12:05:01+00:00"])
def test_a_time_that_is_none_or_to_come_is_refused(made_at: str) -> None:
    with pytest.raises(HarnessError):
        check_past(made_at, now=datetime(2026, 11, 2, 12, tzinfo=UTC))


def test_clocks_may_be_some_minutes_apart() -> None:
    now = datetime(2026, 11, 2, 12, tzinfo=UTC)
    check_past(now + SLACK, now=now)
