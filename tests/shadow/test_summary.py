"""What a log says while it grows, to the page that people see; what diverged is asked again."""

import json
import random
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.agreement import Class, ComparisonTally, RankPair, classify
from harness.core.engine import Answer
from harness.core.errors import BadFile, BadPolicy, EvidenceError
from harness.core.records import Query
from harness.core.run import Status
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.pipeline.receipts import read_manifest
from harness.shadow import log as shadow_log
from harness.shadow.comparison import ShadowLog, ShedReason
from harness.shadow.divergences import (
    AcceptedDivergence,
    Now,
    Suppressions,
    SuppressionStatus,
    again,
    questions,
)
from harness.shadow.log import Follower, LogWriter, Tail
from harness.shadow.record import Degradation, Observation, ProblemKind, query_key
from harness.shadow.settings import (
    ComparisonSettings,
    accept,
    read_bounds,
    read_settings,
    read_suppressions,
)
from harness.shadow.stage import Ran, shadow_replay, shadow_report, shadow_run
from harness.shadow.summary import LogState, MedianRatio, Summary
from harness.shadow.words import standing_counts
from tests.make import shadow_log as live_log
from tests.make.shadow_records import START, WATCH, attempt, bounds, divergence, seen, shed
from tests.make.toy import CANDIDATE, CONTROL, Toy
from tests.shadow.arms import OTHER, Arm, hits
from tests.source import ROOT

FAILED = seen(status=Status.FAILED, hits=0)
LATE = seen(status=Status.TIMED_OUT, hits=0, elapsed_ns=9_000_000)


def mixed() -> Summary:
    summary = Summary(bounds())
    for one in (
        attempt(1, slices=("id",)),
        attempt(2, slices=("id", "old"), outcome=Class.OVERLAP, jaccard=0.5),
        attempt(3, outcome=Class.BOTH_EMPTY, jaccard=None, candidate=seen(hits=0)),
        attempt(4, outcome=Class.ERROR, jaccard=None, candidate=FAILED, reason="it broke"),
        attempt(5, outcome=Class.ERROR, jaccard=None, control=FAILED, reason="ours broke"),
        attempt(6, outcome=Class.TIMEOUT, jaccard=None, candidate=LATE, reason="late"),
        attempt(7, outcome=Class.STALE, jaccard=None, reason="it moved"),
        shed(9),
    ):
        summary.see(one)
    return summary


def test_every_attempt_is_counted_once() -> None:
    found = mixed()
    assert found.tally == ComparisonTally(attempted=8, compared=3, errored=3, skipped=1, shed=1)
    assert found.by_slice["id"] == {Class.EXACT: 1, Class.OVERLAP: 1}
    assert found.by_slice["(no slice)"].total() == 6
    assert found.reasons[Class.SHED, "the queue is full"] == 1
    assert found.missing == 1
    assert found.first is not None
    assert found.last is not None
    assert (found.first.number, found.last.number) == (1, 9)


@pytest.mark.parametrize(
    ("track", "value", "n"),
    [("overlap", 0.75, 2), ("failures", 2 / 7, 7), ("slow", 0.2, 5), ("ratio", 1.0, 5)],
)
def test_an_estimate_is_of_the_pairs_for_which_it_is_defined(
    track: str, value: float, n: int
) -> None:
    """One given up is slow; one that failed has no time; an undefined overlap is in no mean."""
    now = mixed().tracks[track].now
    assert now is not None
    assert now.value == pytest.approx(value, rel=0.02)
    assert now.n == n


def test_failures_and_times_are_counted_by_arm() -> None:
    found = mixed()
    assert found.failures == {"control": 1, "candidate": 2}
    assert found.elapsed_ns("candidate").tolist() == [1_000_000] * 3 + [9_000_000, 1_000_000]
    assert found.elapsed_ns("control").tolist() == [1_000_000] * 5
    assert found.served_by["candidate"] == {"engine": 5}


@pytest.mark.slow
def test_the_median_ratio_is_held_at_every_look() -> None:
    """Of 100 streams at a confidence of 0.9, at most about ten ever lose the true median."""
    lost = 0
    for run in range(100):
        rng = random.Random(run)
        median_ratio = MedianRatio(confidence=0.9)
        held = True
        for _ in range(200):
            median_ratio.update(1_000_000, round(1_000_000 * 1.5 * rng.lognormvariate(0, 0.7)))
            now = median_ratio.interval()
            held &= now.low <= 1.5 <= now.high
        lost += not held
    assert lost <= 16


def test_the_median_ratio_closes_in_and_off_the_grid_is_unbounded() -> None:
    rng = random.Random(1)
    median_ratio, far = MedianRatio(confidence=0.95), MedianRatio(confidence=0.95)
    for _ in range(2000):
        median_ratio.update(1_000_000, round(2_000_000 * rng.lognormvariate(0, 0.3)))
    now = median_ratio.interval()
    assert now.value == pytest.approx(2, rel=0.05)
    assert 1.8 < now.low < 2 < now.high < 2.2
    for _ in range(100):
        far.update(1, 1000)
    assert (far.interval().low >= 60, far.interval().high) == (True, float("inf"))


def log(folder: Path, rotate_bytes: int = 2000) -> LogWriter:
    return LogWriter(folder, rotate_bytes=rotate_bytes, sync_ns=10**12)


def batch(folder: LogWriter, first: int, count: int) -> None:
    folder.append([attempt(n) for n in range(first, first + count)], [], [])


def test_a_follower_sees_what_the_reader_of_the_whole_sees(tmp_path: Path) -> None:
    with log(tmp_path) as writer:
        follower, summary = Follower([tmp_path]), Summary(bounds())
        for first in range(1, 60, 7):
            batch(writer, first, 7)
            other = attempt(100 + first, outcome=Class.DISJOINT, jaccard=0.0)
            found = divergence(100 + first, Class.DISJOINT, ["a"], ["b"])
            note = Degradation(5, "w1", START, "candidate", ProblemKind.CRASH, "it ended")
            writer.append([other], [found], [note])
            summary.read(follower)
            assert summary.tally.attempted == first // 7 * 8 + 8
        summary.read(follower)
    whole = shadow_log.read_logs(tmp_path)
    assert summary.tally == whole.tally
    assert summary.missing == whole.missing
    assert summary.degradations == {("candidate", ProblemKind.CRASH): 9}
    traces = summary.traces(Suppressions(), TODAY)
    assert [(t.times, t.text) for t in traces] == [(9, "a query")]


def test_a_torn_line_waits_until_it_is_whole(tmp_path: Path) -> None:
    with log(tmp_path, 10**6) as writer:
        batch(writer, 1, 2)
    file = shadow_log.path(tmp_path, Observation, 1)
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    tail = Tail(tmp_path, Observation)
    assert [one.number for one in tail.new()] == [1]
    file.write_bytes(whole)
    assert [one.number for one in tail.new()] == [2]


TODAY = date(2026, 11, 22)
KEY = query_key("a query", {})
TIES = AcceptedDivergence.of("ties are broken by id", "Ada", TODAY, kind=Class.TIE_ORDER)


OLD = date(2026, 11, 21)


def entry(until: date = TODAY, **about: str) -> AcceptedDivergence:
    return AcceptedDivergence.of("r", "b", until, **about)


IDS, OVER = entry(slice="id", kind="reorder"), entry(OLD, kind="tie_order")


@pytest.mark.parametrize(
    ("entries", "kind", "slices", "query", "said"),
    [
        ((TIES,), Class.TIE_ORDER, (), KEY, SuppressionStatus.ACCEPTED),
        ((TIES,), Class.REORDER, (), KEY, SuppressionStatus.OPEN),
        ((IDS,), Class.REORDER, ("id",), KEY, SuppressionStatus.ACCEPTED),
        ((IDS,), Class.REORDER, ("words",), KEY, SuppressionStatus.OPEN),
        ((entry(query=KEY),), Class.DISJOINT, (), KEY, SuppressionStatus.ACCEPTED),
        ((entry(query=KEY),), Class.DISJOINT, (), "f" * 32, SuppressionStatus.OPEN),
        ((entry(query=KEY, kind="overlap"),), Class.DISJOINT, (), KEY, SuppressionStatus.OPEN),
        ((entry(OLD, query=KEY),), Class.DISJOINT, (), KEY, SuppressionStatus.EXPIRED),
        ((OVER, TIES), Class.TIE_ORDER, (), KEY, SuppressionStatus.ACCEPTED),
        ((TIES, OVER), Class.TIE_ORDER, (), KEY, SuppressionStatus.ACCEPTED),
        ((entry(OLD, query=KEY), TIES), Class.TIE_ORDER, (), KEY, SuppressionStatus.ACCEPTED),
    ],
)
def test_an_entry_covers_what_it_names_until_its_day(
    entries: tuple[AcceptedDivergence, ...],
    kind: Class,
    slices: tuple[str, ...],
    query: str,
    said: SuppressionStatus,
) -> None:
    assert Suppressions(accepted=entries).standing(kind, slices, query, today=TODAY) is said


POLICY = ROOT / "policy"
ENTRY = {"class": '"reorder"', "reason": '"r"', "by": '"A"', "until": "2027-01-01"}


def entry_with(**changed: str) -> str:
    """Write an entry; empty texts leave a key out."""
    lines = [f"{key} = {text}" for key, text in {**ENTRY, **changed}.items() if text]
    return "\n".join(["[[accepted]]", *lines, ""])


def file_with(name: str, old: str, new: str) -> str:
    """Change a file that the project ships."""
    text = (POLICY / name).read_text(encoding="utf-8")
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("read", "text", "line", "says"),
    [
        (read_suppressions, entry_with(reason=""), "[[accepted]]", "reason: is miss"),
        (read_suppressions, entry_with(**{"class": '"error"'}), "class", "can be accepted are"),
        (read_suppressions, entry_with(**{"class": "", "slice": '"id"'}), "[[accepted]]",
         "name a class or a query"),
        (read_suppressions, entry_with(until="", untill="2027-01-01"), "untill", "unknown key"),
        (read_bounds, file_with("watch.toml", "slow_ratio = 2.0", "slow_ratio = 0.5"),
         "slow_ratio", "watch.slow_ratio"),
        (read_bounds, file_with("watch.toml", "max_distance = 0.20", 'max_distance = "a fifth"'),
         "max_distance", "alarm.scores.max_distance"),
        (read_bounds, file_with("watch.toml", "remember = 100000", ""), "[alarm.churn]",
         "alarm.churn.remember: is missing"),
        (read_settings, file_with("shadow.toml", "rate = 1000000", "rate = 1000001"), "rate",
         "sampling.rate"),
        (read_settings, file_with("shadow.toml", "hang_ms = 3000.0", "hang_ms = 1.0"), "[limits]",
         "hang_ms 1.0 must not lie below"),
    ],
)  # fmt: skip
def test_nothing_has_a_default_and_what_is_wrong_is_named_with_its_line(
    tmp_path: Path, read: Callable[[Path], object], text: str, line: str, says: str
) -> None:
    path = tmp_path / "file.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadPolicy, match=says) as raised:
        read(path)
    assert text.splitlines()[(raised.value.line or 0) - 1].startswith(line)
    with pytest.raises(BadPolicy, match=r"none\.toml: cannot be read"):
        read(tmp_path / "none.toml")


def test_an_entry_is_added_once_and_nothing_else_changes(tmp_path: Path) -> None:
    path = tmp_path / "accepted.toml"
    path.write_text("# ours\n", encoding="utf-8")
    odd = AcceptedDivergence.of(
        'say "why"\\\n\x7f é [x]', "Bea", date(2027, 1, 1), query=KEY, slice="a=b"
    )
    accept(path, TIES, today=TODAY)
    for _ in range(2):
        found = accept(path, odd, today=TODAY)
        assert found.entries == (TIES, odd)
        text = path.read_text(encoding="utf-8")
        assert text.startswith("# ours\n\n[[accepted]]\nclass = ")
        assert len(tomllib.loads(text)["accepted"]) == 2


def test_traces_are_held_against_the_register_the_worst_first() -> None:
    found = Summary(bounds())
    for number in range(1, 4):
        found.see(attempt(number, text="ties", outcome=Class.TIE_ORDER))
    found.see(attempt(4, text="other", outcome=Class.DISJOINT, jaccard=0.0))
    found.see(attempt(5, text="half", outcome=Class.OVERLAP, jaccard=0.5))
    found.see(attempt(6, text="half", outcome=Class.OVERLAP, jaccard=0.2))
    found.see(attempt(7, text="same"))
    found.see(attempt(8, text="late", outcome=Class.TIMEOUT, jaccard=None))
    found.tell(divergence(4, Class.DISJOINT, ["a"], ["b"], text="other"))
    register = Suppressions(accepted=(TIES,))
    state = LogState(found, register, found.traces(register, TODAY))
    assert [(trace.outcome, trace.register) for trace in state.traces] == [
        ("disjoint", SuppressionStatus.OPEN),
        ("overlap", SuppressionStatus.OPEN),
        ("tie_order", SuppressionStatus.ACCEPTED),
        ("timeout", SuppressionStatus.FAILED),
    ]
    assert [trace.text for trace in state.blocking] == ["other", ""]
    assert (state.blocking[1].jaccard, state.blocking[1].times) == (0.2, 2)
    known = Suppressions(accepted=(entry(kind="disjoint"),))
    first, *_ = found.traces(known, TODAY)
    assert first.outcome is Class.OVERLAP, "what blocks a step stands before what is accepted"
    late = Suppressions(accepted=(entry(query=query_key("late", {})),))
    said = {one.outcome: one.register for one in found.traces(late, TODAY)}
    assert said[Class.TIMEOUT] is SuppressionStatus.ACCEPTED, "a failure, for one query"
    assert standing_counts(state) == (
        "7 diverging attempts: 3 accepted, 3 open, 1 failed. 3 block the next step."
    )


LIMIT_NS = 10**10


def shows(ids: str) -> Arm:
    return Arm(act=lambda *_: Answer(hits(ids), OTHER.fingerprint))


@pytest.mark.parametrize(
    ("control", "candidate", "outcome", "now"),
    [
        ("ab", "ba", Class.REORDER, Now.STILL),
        ("ab", "ab", Class.EXACT, Now.FIXED),
        ("ba", "ab", Class.REORDER, Now.STILL),
        ("", "", Class.BOTH_EMPTY, Now.FIXED),
        ("ab", "cd", Class.DISJOINT, Now.CHANGED),
        ("ab", "", Class.SHADOW_EMPTY, Now.CHANGED),
    ],
)
def test_what_became_of_a_reordering(
    control: str, candidate: str, outcome: Class, now: Now
) -> None:
    found = questions([divergence(1, Class.REORDER, "ab", "ba")])
    (one,) = again(found, shows(control), shows(candidate), time_limit_ns=LIMIT_NS)
    assert (one.outcome, one.now) == (outcome, now)
    assert one.control_moved is (control != "ab"), "another order counts as moved"


def test_a_failure_that_fails_again_is_still_there() -> None:
    def broken(*_: object) -> Answer:
        raise RuntimeError("it broke")

    found = replace(divergence(1, Class.ERROR, "ab", ""), outcome=Class.ERROR)
    (one,) = again(questions([found]), Arm(), Arm(act=broken), time_limit_ns=LIMIT_NS)
    assert (one.outcome, one.now) == (Class.ERROR, Now.STILL)
    assert "it broke" in one.candidate.error


def test_only_the_first_k_are_compared_and_params_are_handed_on() -> None:
    control, candidate = Arm(), Arm()
    found = replace(divergence(1, Class.DISJOINT, "a", "b", text="abc", k=2), params={"x": 1})
    (one,) = again(questions([found]), control, candidate, time_limit_ns=LIMIT_NS)
    assert one.now is Now.FIXED
    assert control.asked == candidate.asked == [("abc", 2, {"x": 1})]


def test_what_asks_the_same_is_asked_once_by_its_latest_record() -> None:
    old, new = (divergence(n, Class.REORDER, "ab", "ba", text="twice") for n in (1, 2))
    other = replace(divergence(3, Class.REORDER, "ab", "ba", text="twice"), params={"x": 1})
    deep = divergence(4, Class.REORDER, "ab", "ba", text="twice", k=50)
    found = questions([new, other, deep, old])
    assert [(one.times, one.latest.number) for one in found] == [(2, 2), (1, 3), (1, 4)]


NONE = Suppressions()


@pytest.fixture
def suppressions(tmp_path: Path) -> Path:
    path = tmp_path / "accepted.toml"
    path.write_text("")
    return path


def reported(tmp_path: Path, suppressions: Path) -> tuple[str, dict[str, Any]]:
    """Write the report of the log; return its page and its JSON."""
    shadow_report(
        [tmp_path / "log"], tmp_path / "out", bounds=WATCH, suppressions=suppressions, today=TODAY,
        top=1, commands=("typed",),
    )  # fmt: skip
    page, found = (tmp_path / "out" / name for name in ("index.html", "shadow.json"))
    return page.read_text("utf-8"), json.loads(found.read_text("utf-8"))


@pytest.mark.slow
def test_the_report_has_both_rankings_and_percentiles_with_their_intervals(
    tmp_path: Path, suppressions: Path
) -> None:
    slow = seen(elapsed_ns=3_000_000)
    with log(tmp_path / "log") as writer:
        writer.append([attempt(1)], [], [])
        _, said = reported(tmp_path, suppressions)
        assert set(said["latency_ns"]["control"].values()) == {None}, "too few for a percentile"
        writer.append([attempt(n, candidate=slow) for n in range(2, 301)], [], [])
        wrong = divergence(301, Class.DISJOINT, ["lost-one"], ["found-one"], text="worst")
        writer.append(
            [attempt(301, text="worst", outcome=Class.DISJOINT, jaccard=0.0)], [wrong], []
        )
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_each_pair_is_in_the_class_that_a_replay_of_it_has(project: Toy, tmp_path: Path) -> None:
    queries = Prepared.open(project.layout.data).queries()
    ran = run(project, tmp_path / "log", len(queries))
    found = shadow_log.read_logs(tmp_path / "log")
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


@pytest.mark.slow
def test_without_a_rate_nothing_is_shed(project: Toy, tmp_path: Path) -> None:
    """However narrow the queue, and however little of a minute the candidate may have."""
    ran = run(project, tmp_path / "log", 60, narrow(queue=0, budget_s=0.000001))
    tally = shadow_log.read_logs(tmp_path / "log").tally
    assert (tally.attempted, tally.compared, tally.shed) == (60, 60, 0)
    assert ran.written
    assert ran.control_ns.shape == (60,)
    assert (ran.control_ns > 0).all()
    assert ran.elapsed_ns > int(np.sum(ran.control_ns))
    assert ran.per_second == 60 * 1e9 / ran.elapsed_ns


@pytest.mark.slow
def test_with_a_rate_the_limits_hold(project: Toy, tmp_path: Path) -> None:
    """The candidate's process takes longer to start than all the questions take to come."""
    ran = run(project, tmp_path / "log", 60, narrow(queue=0), per_second=100_000)
    tally = shadow_log.read_logs(tmp_path / "log").tally
    assert tally.attempted == 60
    assert 0 < tally.shed == ran.counts.shed[ShedReason.IN_FLIGHT] < 60


@pytest.mark.slow
def test_questions_do_not_come_before_their_time_and_a_log_goes_on(
    project: Toy, tmp_path: Path
) -> None:
    assert run(project, tmp_path / "log", 11, per_second=50).elapsed_ns >= 200_000_000
    assert run(project, tmp_path / "log", 5).counts.served == 5
    found = shadow_log.read_logs(tmp_path / "log")
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


@pytest.mark.slow
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
