"""From a log to what people see."""

import json
import shutil
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.agreement import Class, RankPair, classify
from harness.core.errors import BadFile, EvidenceError
from harness.core.records import Query
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.pipeline.receipts import read_manifest
from harness.shadow import log
from harness.shadow.comparison import ShadowLog, ShedReason
from harness.shadow.divergences import (
    AcceptedDivergence,
    Now,
    Suppressions,
    SuppressionStatus,
    questions,
)
from harness.shadow.log import LogWriter, read_logs
from harness.shadow.record import DIVERGING, query_key
from harness.shadow.settings import ComparisonSettings, accept, read_settings
from harness.shadow.stage import LogWatch, Ran, shadow_replay, shadow_report, shadow_run
from tests.make import shadow_log as live_log
from tests.make.shadow_records import WATCH, attempt, divergence, observation, seen
from tests.make.toy import CANDIDATE, CONTROL, Toy
from tests.source import ROOT

pytestmark = pytest.mark.slow
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
        assert len(look.now(TODAY).blocking) == 1
        accept(
            suppressions, AcceptedDivergence.of("r", "b", TODAY, kind=Class.REORDER), today=TODAY
        )
        log.append([attempt(2, outcome=Class.REORDER)], [], [])
        found = look.now(TODAY)
        assert (found.summary.tally.attempted, found.blocking) == (2, ())
        assert [standing for _, standing in found.standing] == [SuppressionStatus.ACCEPTED]
        assert len(look.now(date(2026, 11, 23)).blocking) == 1


def reported(tmp_path: Path, suppressions: Path) -> tuple[str, dict[str, Any]]:
    """Write the report of the log; return its page and its JSON."""
    shadow_report(
        [tmp_path / "log"], tmp_path / "out", bounds=WATCH, suppressions=suppressions, today=TODAY,
        top=1, commands=("typed",),
    )  # fmt: skip
    page, found = (tmp_path / "out" / name for name in ("index.html", "shadow.json"))
    return page.read_text("utf-8"), json.loads(found.read_text("utf-8"))


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


SETTINGS = read_settings(ROOT / "policy" / "shadow.toml")
PAIR = CONTROL, CANDIDATE
K = 50


def run(
    toy: Toy,
    folder: Path,
    count: int,
    settings: ComparisonSettings = SETTINGS,
    *,
    per_second: float = 0.0,
    queries: Sequence[Query] | None = None,
    pair: tuple[str, str] = PAIR,
) -> Ran:
    return shadow_run(
        toy.layout,
        pair,
        toy.cache,
        ShadowLog(folder, settings),
        Prepared.open(toy.layout.data).queries() if queries is None else queries,
        count=count,
        k=K,
        per_second=per_second,
    )


def narrow(**limits: float) -> ComparisonSettings:
    """Change some limits."""
    return SETTINGS.model_copy(update={"limits": SETTINGS.limits.model_copy(update=limits)})


def test_each_pair_is_in_the_class_that_a_replay_of_it_has(project: Toy, tmp_path: Path) -> None:
    queries = Prepared.open(project.layout.data).queries()
    ran = run(project, tmp_path / "log", len(queries))
    found = log.read_logs(tmp_path / "log")
    control, candidate = (read_run(project.layout.run(arm)) for arm in PAIR)
    pair = RankPair.of(control, candidate)
    classes = classify(control, candidate, pair, depth=K, shed=(), stale=())
    replayed = dict(zip(pair.query_ids, classes, strict=True))
    by_key = {query_key(query.text, query.params): query for query in queries}
    assert len(found.observations) == ran.counts.served == len(queries)
    for one in found.observations:
        query = by_key[one.query]
        assert one.outcome is replayed[query.query_id]
        assert one.slices == query.slices
        assert one.control is not None
        assert one.candidate is not None
        served_by = (one.control.served_by, one.candidate.served_by)
        assert served_by == tuple(read_manifest(project.layout, arm).fingerprint for arm in PAIR)


def test_without_a_rate_nothing_is_shed(project: Toy, tmp_path: Path) -> None:
    """However narrow the queue, and however little of a minute the candidate may have."""
    ran = run(project, tmp_path / "log", 60, narrow(queue=0, budget_s=0.000001))
    tally = log.read_logs(tmp_path / "log").tally
    assert (tally.attempted, tally.compared, tally.shed) == (60, 60, 0)
    assert ran.written
    assert ran.control_ns.shape == (60,)
    assert (ran.control_ns > 0).all()
    assert ran.elapsed_ns > int(np.sum(ran.control_ns))
    assert ran.per_second == 60 * 1e9 / ran.elapsed_ns


def test_with_a_rate_the_limits_hold(project: Toy, tmp_path: Path) -> None:
    """The candidate's process takes longer to start than all the questions take to come."""
    ran = run(project, tmp_path / "log", 60, narrow(queue=0), per_second=100_000)
    tally = log.read_logs(tmp_path / "log").tally
    assert tally.attempted == 60
    assert 0 < tally.shed == ran.counts.shed[ShedReason.IN_FLIGHT] < 60


def test_questions_do_not_come_before_their_time_and_a_log_goes_on(
    project: Toy, tmp_path: Path
) -> None:
    assert run(project, tmp_path / "log", 11, per_second=50).elapsed_ns >= 200_000_000
    assert run(project, tmp_path / "log", 5).counts.served == 5
    found = log.read_logs(tmp_path / "log")
    assert [one.number for one in found.observations] == list(range(1, 17))


EARLIER = Path(__file__).parent / "earlier"
LOG, THEN = EARLIER / "log", date(2026, 11, 27)
SAYS_OTHERWISE = {"headline", "alarms"}
"""The first begins with failures now; the second say what each is about."""


def reported_now(folder: Path) -> dict[str, Any]:
    shadow_report(
        [LOG], folder, bounds=WATCH, suppressions=EARLIER / "accepted.toml", today=THEN, top=3,
        commands=(),
    )  # fmt: skip
    found: dict[str, Any] = json.loads((folder / "shadow.json").read_text("utf-8"))
    return found


def test_a_log_is_reported_with_the_figures_of_then(tmp_path: Path) -> None:
    then, now = json.loads((EARLIER / "shadow.json").read_text("utf-8")), reported_now(tmp_path)
    assert set(then) == set(now)
    for key in set(then) - SAYS_OTHERWISE:
        assert now[key] == then[key], key
    for old, new in zip(then["alarms"][:-1], now["alarms"], strict=True):  # of the mix: none now
        assert {key: new[key] for key in old} == old
    assert then["untimed"] == 1, "the proxy did not know all times"
    known = {Class.TIE_ORDER, Class.ERROR, Class.TIMEOUT, Class.STALE, Class.SKIPPED, Class.SHED}
    assert known < set(map(Class, now["classes"]))


def test_a_log_is_asked_again_and_goes_on(tmp_path: Path) -> None:
    found = read_logs(LOG)
    diverged = [one for one in found.observations if one.outcome in DIVERGING]
    assert sum(one.times for one in questions(found.divergences)) == len(diverged) > 9
    shutil.copytree(LOG, tmp_path / "log")
    with LogWriter(tmp_path / "log", rotate_bytes=10**6, sync_ns=0) as log:
        assert log.number == max(one.number for one in found.observations)
        log.append([observation(log.number + 1, writer=log.writer)], [], [])
    assert len(read_logs(tmp_path / "log").observations) == len(found.observations) + 1
