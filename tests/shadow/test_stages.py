"""From a log to what people see."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from harness.agreement import Class
from harness.core.errors import BadFile, BadPolicy, EvidenceError
from harness.shadow.divergences import AcceptedDivergence, Now, Suppressions, SuppressionStatus
from harness.shadow.log import LogWriter
from harness.shadow.settings import accept
from harness.shadow.stage import LogWatch, shadow_replay, shadow_report
from tests.make import shadow_log as live_log
from tests.make.shadow_records import WATCH, attempt, divergence, seen
from tests.make.toy import CANDIDATE, CONTROL, Toy

TODAY = date(2026, 11, 22)
NONE = Suppressions()


def open_log(folder: Path) -> LogWriter:
    return LogWriter(folder, rotate_bytes=10**6, sync_ns=10**12)


@pytest.fixture
def suppressions(tmp_path: Path) -> Path:
    path = tmp_path / "accepted.toml"
    path.write_text("")
    return path


def test_a_look_sees_what_is_new_and_what_was_accepted_meanwhile(
    tmp_path: Path, suppressions: Path
) -> None:
    with open_log(tmp_path / "log") as log:
        look = LogWatch([tmp_path / "log"], WATCH, suppressions)
        assert look.now(TODAY).summary.tally.attempted == 0
        log.append([attempt(1, outcome=Class.REORDER)], [], [])
        assert len(look.now(TODAY).judged.blocking) == 1
        accept(
            suppressions, AcceptedDivergence.of("r", "b", TODAY, kind=Class.REORDER), today=TODAY
        )
        log.append([attempt(2, outcome=Class.REORDER)], [], [])
        found = look.now(TODAY)
        assert (found.summary.tally.attempted, found.judged.blocking) == (2, ())
        assert found.judged.counts == {SuppressionStatus.ACCEPTED: 2}
        assert len(look.now(date(2026, 11, 23)).judged.blocking) == 1


def test_a_register_that_breaks_meanwhile_is_said(tmp_path: Path, suppressions: Path) -> None:
    open_log(tmp_path / "log").close()
    look = LogWatch([tmp_path / "log"], WATCH, suppressions)
    suppressions.write_text("[[accepted]]\n")
    with pytest.raises(BadPolicy, match=r"accepted\.toml:1: "):
        look.now(TODAY)


def reported(tmp_path: Path, suppressions: Path) -> tuple[str, dict[str, Any]]:
    """Write the report of the log; return its page and its JSON."""
    written = shadow_report(
        [tmp_path / "log"], tmp_path / "out", bounds=WATCH, suppressions=suppressions, today=TODAY,
        top=1, commands=("typed",),
    )  # fmt: skip
    return written.page.read_text("utf-8"), json.loads(written.json.read_text("utf-8"))


def test_the_report_has_both_rankings_and_percentiles_with_their_intervals(
    tmp_path: Path, suppressions: Path
) -> None:
    slow = seen(elapsed_ns=3_000_000)
    with open_log(tmp_path / "log") as log:
        log.append([attempt(1)], [], [])
        _, said = reported(tmp_path, suppressions)
        assert set(said["latency_ns"]["control"].values()) == {None}, "too few for a percentile"
        log.append([attempt(n, candidate=slow) for n in range(2, 301)], [], [])
        wrong = divergence(301, Class.DISJOINT, ["lost-one"], ["found-one"], text="worst")
        log.append([attempt(301, text="worst", outcome=Class.DISJOINT, jaccard=0.0)], [wrong], [])
    page, said = reported(tmp_path, suppressions)
    assert page.count("lost-one") == page.count("found-one") == 1
    assert "typed" in page
    assert said["latency_ns"]["candidate"]["p50"] == {
        "value": 3e6, "low": 3e6, "high": 3e6, "n": 301,
    }  # fmt: skip
    assert said["latency_ns"]["control"]["p95"]["value"] == 1e6
    assert said["headline"] == (
        "Mean Jaccard of the first hits 0.9967;"
        " 1 attempt of 1 query diverged without being accepted."
    )


def replayed(
    project: Toy,
    log: Path,
    known: Suppressions = NONE,
    limit: int | None = None,
    control: str = CONTROL,
) -> list[tuple[Class, Now, SuppressionStatus | None]]:
    found = shadow_replay(
        [log], project.layout, control, CANDIDATE, project.cache, suppressions=known, today=TODAY,
        time_limit_s=10, limit=limit,
    )  # fmt: skip
    return [(one.outcome, one.now, standing) for one, standing in found]


def test_a_replay_asks_the_most_frequent_first_and_says_what_the_register_says(
    project: Toy, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    live_log.write(project, log)
    every = replayed(project, log)
    assert every[-1][1:] == (Now.FIXED, None)
    assert {standing for _, now, standing in every if now is Now.STILL} == {SuppressionStatus.OPEN}
    some = Class(every[0][0])
    known = Suppressions(accepted=(AcceptedDivergence.of("r", "b", TODAY, kind=some),))
    assert replayed(project, log, known, 1) == [(some, Now.STILL, SuppressionStatus.ACCEPTED)]
    with pytest.raises(EvidenceError, match="compared with itself"):
        replayed(project, log, control=CANDIDATE)
    with pytest.raises(BadFile, match="its log is missing"):
        replayed(project, tmp_path / "none")
