"""``harness shadow traffic``: a log of live comparisons, taken in and judged."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.run import Status
from harness.pipeline.receipts import read_manifest
from harness.shadow.log import Log
from harness.shadow.record import Observation
from harness.shadow.traffic import path_of, taken_in
from tests.cli.conftest import Harness
from tests.make.shadow.records import SEEN, observation
from tests.make.toy import GATES, HEAD, NAME, STEP, Toy

pytestmark = pytest.mark.slow
WORDS = ("--dataset", NAME, "--control", "fts5", "--candidate", "tantivy")
EACH_S = 720
LIVE = """
[[step.gate]]
name = "Alike"
rule = "anytime_overlap"
k = 10
floor = 0.8
period = "day"
block_s = 1440
max_query_share = 0.1
max_client_share = 0.1

[[step.gate]]
name = "Live answers"
rule = "anytime_failures"
max_share = 0.05
period = "day"
block_s = 1440
max_query_share = 0.1
max_client_share = 0.1

[[step.gate]]
name = "Live speed"
rule = "anytime_slow"
max_ratio = 2.0
max_share = 0.05
period = "day"
block_s = 1440
max_query_share = 0.1
max_client_share = 0.1
"""


def pairs(project: Toy, count: int, *, failing: int = 0, at_s: float = 0) -> list[Observation]:
    old, new = (
        replace(SEEN, served_by=read_manifest(project.layout, arm).fingerprint)
        for arm in ("fts5", "tantivy")
    )
    failed = replace(new, status=Status.FAILED, served_by="")
    start = int(((at_s or time.time() - 60) - count * EACH_S) * 1e9)
    return [
        observation(
            number,
            at=start + number * EACH_S * 1_000_000_000,
            client=f"{number % 50:032x}",
            query=f"{number:032x}",
            control=old,
            candidate=failed if number <= failing else new,
            jaccard=None if number <= failing else 1.0,
        )
        for number in range(1, count + 1)
    ]


def written(folder: Path, observations: list[Observation]) -> Path:
    with Log(folder, rotate_bytes=1_000_000, sync_ns=0) as out:
        out.append(observations, [], [])
    return folder


def policy(project: Toy) -> Path:
    path = project.root / "policy" / "live.toml"
    path.write_text(HEAD + STEP + GATES + LIVE)
    return path


def test_a_log_that_was_taken_in_is_judged(project: Toy, harness: Harness, tmp_path: Path) -> None:
    decide = ("gate", "--policy", policy(project))
    before = harness(*decide)
    assert before.code == 3
    assert "no live traffic of tantivy beside fts5" in before.out
    said = harness("shadow", "traffic", written(tmp_path / "log", pairs(project, 300)), *WORDS)
    assert said.code == 0, said
    assert "300 attempts" in said.out
    assert "300 count, 0 of them unanswered" in said.out
    assert harness(*decide).code == 0


def test_a_candidate_that_fails_live_is_held_though_it_is_good_offline(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    log = written(tmp_path / "log", pairs(project, 300, failing=90))
    assert "90 of them unanswered" in harness("shadow", "traffic", log, *WORDS).out
    said = harness("gate", "--policy", policy(project))
    assert said.code == 1
    assert "FAIL: Live answers" in said.out


def test_old_traffic_is_stale(project: Toy, harness: Harness, tmp_path: Path) -> None:
    log = written(tmp_path / "log", pairs(project, 300, at_s=time.time() - 3 * 86_400))
    assert harness("shadow", "traffic", log, *WORDS).code == 0
    assert "is 3 days old" in harness("gate", "--policy", policy(project)).error


def test_a_decision_rests_on_the_traffic_that_was_taken_in(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    project.policy(policy(project).read_text())
    assert (
        harness("shadow", "traffic", written(tmp_path / "log", pairs(project, 300)), *WORDS).code
        == 0
    )
    assert harness("gate").code == 0
    (path,) = taken_in(project.layout)
    path.write_text(path.read_text().replace("1.0", "0.9", 1))
    said = harness("report")
    assert said.code == 2
    assert path.name in said.err


def test_traffic_of_another_index_is_not_of_these_arms(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    assert (
        harness("shadow", "traffic", written(tmp_path / "log", pairs(project, 300)), *WORDS).code
        == 0
    )
    path = path_of(project.layout, "fts5", "tantivy")
    own = read_manifest(project.layout, "tantivy").fingerprint
    path.write_text(path.read_text().replace(own, "0" * 64))
    said = harness("gate", "--policy", policy(project))
    assert "no live traffic of tantivy beside fts5" in said.out


@pytest.mark.parametrize("spoilt", ["{", "[]", '{"format": 2}', '{"format": 1, "by": []}'])
def test_a_file_that_is_none_is_refused(
    project: Toy, harness: Harness, tmp_path: Path, spoilt: str
) -> None:
    assert (
        harness("shadow", "traffic", written(tmp_path / "log", pairs(project, 60)), *WORDS).code
        == 0
    )
    path_of(project.layout, "fts5", "tantivy").write_text(spoilt)
    error = harness("gate", "--policy", policy(project)).error
    assert "fts5~tantivy.json" in error
    assert "harness shadow traffic" in error


def test_bad_input_is_two(project: Toy, harness: Harness, tmp_path: Path) -> None:
    log = written(tmp_path / "log", pairs(project, 60))
    assert "its log is missing" in harness("shadow", "traffic", tmp_path, *WORDS).error
    assert "there twice" in harness("shadow", "traffic", log, log, *WORDS).error
    assert "dense has no index" in harness("shadow", "traffic", log, *WORDS[:-1], "dense").error
