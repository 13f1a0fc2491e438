"""From a log to what people see."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from harness.agreement import Class
from harness.core.errors import BadFile, BadPolicy, EvidenceError
from harness.shadow.divergences import Accepted, Now, Standing, Suppressions
from harness.shadow.log import Log
from harness.shadow.settings import accept
from harness.shadow.stage import Look, shadow_replay, shadow_report
from tests.make.shadow import live_log
from tests.make.shadow.attempts import WATCH, attempt, divergence, seen
from tests.make.toy import CANDIDATE, CONTROL, Toy

TODAY = date(2026, 11, 22)


def open_log(folder: Path) -> Log:
    return Log(folder, rotate_bytes=10**6, sync_ns=10**12)


@pytest.fixture
def suppressions(tmp_path: Path) -> Path:
    path = tmp_path / "accepted.toml"
    path.write_text("")
    return path


def test_a_look_sees_what_is_new_and_what_was_accepted_meanwhile(
    tmp_path: Path, suppressions: Path
) -> None:
    with open_log(tmp_path / "log") as log:
        look = Look([tmp_path / "log"], WATCH, suppressions)
        assert look.now(TODAY).summary.tally.attempted == 0
        log.append([attempt(1, outcome=Class.REORDER)], [], [])
        assert len(look.now(TODAY).judged.blocking) == 1
        accept(suppressions, Accepted.of("r", "b", TODAY, kind=Class.REORDER), today=TODAY)
        log.append([attempt(2, outcome=Class.REORDER)], [], [])
        found = look.now(TODAY)
        assert (found.summary.tally.attempted, found.judged.blocking) == (2, ())
        assert found.judged.counts == {Standing.ACCEPTED: 2}
        assert len(look.now(date(2026, 11, 23)).judged.blocking) == 1


def test_a_register_that_breaks_meanwhile_is_said(tmp_path: Path, suppressions: Path) -> None:
    open_log(tmp_path / "log").close()
    look = Look([tmp_path / "log"], WATCH, suppressions)
    suppressions.write_text("[[accepted]]\n")
    with pytest.raises(BadPolicy, match=r"accepted\.toml:1: "):
        look.now(TODAY)


def test_the_report_has_both_rankings_and_percentiles_with_their_intervals(
    tmp_path: Path, suppressions: Path
) -> None:
    slow = seen(elapsed_ns=3_000_000)
    with open_log(tmp_path / "log") as log:
        log.append([attempt(n, candidate=slow) for n in range(1, 300)], [], [])
        wrong = divergence(300, Class.DISJOINT, ["lost-one"], ["found-one"], text="worst")
        log.append([attempt(300, text="worst", outcome=Class.DISJOINT, jaccard=0.0)], [wrong], [])
    folders = [tmp_path / "log"]
    out = tmp_path / "out"
    written = shadow_report(
        folders,
        out,
        bounds=WATCH,
        suppressions=suppressions,
        today=TODAY,
        top=1,
        commands=("typed",),
    )
    page = written.page.read_text(encoding="utf-8")
    assert page.count("lost-one") == page.count("found-one") == 1
    assert "typed" in page
    said = json.loads(written.json.read_text(encoding="utf-8"))
    assert said["latency_ns"]["candidate"]["p50"] == {
        "value": 3e6, "low": 3e6, "high": 3e6, "n": 300,
    }  # fmt: skip
    assert said["latency_ns"]["control"]["p95"]["value"] == 1e6
    assert said["headline"] == (
        "Mean Jaccard of the first hits 0.9967;"
        " 1 attempt of 1 query diverged without being accepted."
    )


def test_the_report_of_a_short_log_has_no_percentile(tmp_path: Path, suppressions: Path) -> None:
    with open_log(tmp_path / "log") as log:
        log.append([attempt(1)], [], [])
    written = shadow_report(
        [tmp_path / "log"], tmp_path, bounds=WATCH, suppressions=suppressions, today=TODAY, top=1,
        commands=(),
    )  # fmt: skip
    said = json.loads(written.json.read_text(encoding="utf-8"))
    assert set(said["latency_ns"]["control"].values()) == {None}


def test_a_replay_asks_the_most_frequent_first_and_says_what_the_register_says(
    project: Toy, tmp_path: Path
) -> None:
    folder = tmp_path / "log"
    live_log.write(project, folder)

    def replay(known: Suppressions, limit: int | None) -> list[tuple[Class, Now, Standing | None]]:
        replayed = shadow_replay(
            [folder],
            project.layout,
            CONTROL,
            CANDIDATE,
            project.cache,
            suppressions=known,
            today=TODAY,
            time_limit_s=10,
            limit=limit,
        )
        return [(one.outcome, one.now, standing) for one, standing in replayed]

    every = replay(Suppressions(), None)
    assert every[-1][1:] == (Now.FIXED, None)
    assert {standing for _, now, standing in every if now is Now.STILL} == {Standing.OPEN}
    some = Class(every[0][0])
    known = Suppressions(accepted=(Accepted.of("r", "b", TODAY, kind=some),))
    assert replay(known, 1) == [(some, Now.STILL, Standing.ACCEPTED)]


def test_an_arm_with_itself_and_a_folder_without_a_log_are_refused(
    project: Toy, tmp_path: Path
) -> None:
    def replay(control: str) -> object:
        return shadow_replay(
            [tmp_path / "none"], project.layout, control, CANDIDATE, project.cache,
            suppressions=Suppressions(), today=TODAY, time_limit_s=10,
        )  # fmt: skip

    with pytest.raises(EvidenceError, match="compared with itself"):
        replay(CANDIDATE)
    with pytest.raises(BadFile, match="its log is missing"):
        replay(CONTROL)
