"""What a log says while it grows, to the page that people see; what diverged is asked again."""

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from harness.agreement import Class, ComparisonTally, RankPair, classify
from harness.core.errors import BadPolicy, EvidenceError
from harness.core.records import Query
from harness.core.run import Status
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.pipeline.receipts import read_manifest
from harness.shadow import log as shadow_log
from harness.shadow import settings
from harness.shadow.comparison import ComparisonCounts, ShadowLog
from harness.shadow.divergences import AcceptedDivergence, Suppressions, SuppressionStatus
from harness.shadow.log import LogWriter
from harness.shadow.record import DIVERGING, Degradation, Observation, ProblemKind, query_key
from harness.shadow.stage import diverging, log_state, shadow_report, shadow_run
from harness.shadow.summary import LogState, MedianRatio, Summary
from tests.make import shadow_log as live_log
from tests.make.shadow_records import WATCH, accepted, attempt, bounds, divergence, seen, shed
from tests.make.toy import CANDIDATE, CONTROL, Toy
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
    assert [one and one.number for one in (found.first, found.last)] == [1, 9]


@pytest.mark.parametrize(
    ("track", "value", "n"),
    [("overlap", 0.75, 2), ("failures", 2 / 7, 7), ("slow", 0.2, 5), ("ratio", 1.0, 5)],
)
def test_an_estimate_is_of_the_pairs_for_which_it_is_defined(
    track: str, value: float, n: int
) -> None:
    """One given up is slow; one that failed has no time; an undefined overlap is in no mean."""
    now = mixed().estimates[track]
    assert now is not None
    assert (now.value, now.n) == pytest.approx((value, n), rel=0.02)


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


def test_a_summary_counts_what_the_reader_of_the_whole_counts(tmp_path: Path) -> None:
    summary = Summary(bounds())
    with LogWriter(tmp_path) as writer:
        for first in range(1, 60, 7):
            other = attempt(100 + first, outcome=Class.DISJOINT, jaccard=0.0)
            found = divergence(100 + first, Class.DISJOINT, ["a"], ["b"])
            note = Degradation(5, "w1", 7, "candidate", ProblemKind.CRASH, "it ended")
            same = [attempt(n) for n in range(first, first + 7)]
            writer.append([*same, other], [found], [note])
        summary.read(shadow_log.all_records([tmp_path]))
    whole = shadow_log.read_logs(tmp_path)
    assert summary.tally == whole.tally == ComparisonTally(72, 72, 0, 0, 0)
    assert summary.missing == whole.missing == 157 - 72
    assert summary.degradations == {("candidate", ProblemKind.CRASH): 9}
    traces = summary.traces(Suppressions(), TODAY)
    assert [(t.times, t.text) for t in traces] == [(9, "a query")]


def test_a_torn_line_waits_until_it_is_whole(tmp_path: Path) -> None:
    with LogWriter(tmp_path) as writer:
        writer.append([attempt(n) for n in (1, 2)], [], [])
    file = shadow_log.path(tmp_path, Observation)
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    assert [one.number for one in shadow_log.records(tmp_path, Observation)] == [1]
    file.write_bytes(whole)
    assert [one.number for one in shadow_log.records(tmp_path, Observation)] == [1, 2]


TODAY = date(2026, 11, 22)
KEY = query_key("a query", {})
TIES = accepted(TODAY, **{"class": "tie_order"})
OLD = date(2026, 11, 21)


IDS = accepted(TODAY, slice="id", **{"class": "reorder"})
OVER, QUERY = accepted(OLD, **{"class": "tie_order"}), accepted(TODAY, query=KEY)
GONE = accepted(OLD, query=KEY)


@pytest.mark.parametrize(
    ("entries", "kind", "slices", "query", "said"),
    [
        ((TIES,), Class.TIE_ORDER, (), KEY, SuppressionStatus.ACCEPTED),
        ((TIES,), Class.REORDER, (), KEY, SuppressionStatus.OPEN),
        ((IDS,), Class.REORDER, ("id",), KEY, SuppressionStatus.ACCEPTED),
        ((IDS,), Class.REORDER, ("words",), KEY, SuppressionStatus.OPEN),
        ((QUERY,), Class.DISJOINT, (), KEY, SuppressionStatus.ACCEPTED),
        ((QUERY,), Class.DISJOINT, (), "f" * 32, SuppressionStatus.OPEN),
        ((accepted(TODAY, query=KEY, **{"class": "overlap"}),), Class.DISJOINT, (), KEY,
         SuppressionStatus.OPEN),
        ((GONE,), Class.DISJOINT, (), KEY, SuppressionStatus.EXPIRED),
        ((OVER, TIES), Class.TIE_ORDER, (), KEY, SuppressionStatus.ACCEPTED),
        ((TIES, OVER), Class.TIE_ORDER, (), KEY, SuppressionStatus.ACCEPTED),
        ((GONE, TIES), Class.TIE_ORDER, (), KEY, SuppressionStatus.ACCEPTED),
    ],
)  # fmt: skip
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
    before, found, after = (POLICY / name).read_text(encoding="utf-8").partition(old)
    assert found
    return before + new + after


@pytest.mark.parametrize(
    ("read", "text", "line", "says"),
    [
        (settings.read_suppressions, entry_with(reason=""), "[[accepted]]", "reason: is miss"),
        (settings.read_suppressions, entry_with(**{"class": '"error"'}), "class",
         "can be accepted are"),
        (settings.read_suppressions, entry_with(**{"class": "", "slice": '"id"'}), "[[accepted]]",
         "name a class or a query"),
        (settings.read_suppressions, entry_with(until="", untill="2027-01-01"), "untill",
         "unknown key"),
        (settings.read_bounds, file_with("watch.toml", "slow_ratio = 2.0", "slow_ratio = 0.5"),
         "slow_ratio", "watch.slow_ratio"),
        (settings.read_bounds,
         file_with("watch.toml", "max_share = 0.05", 'max_share = "a twentieth"'),
         "max_share", "alarm.scores.max_share"),
        (settings.read_bounds, file_with("watch.toml", "remember = 100000", ""), "[alarm.churn]",
         "alarm.churn.remember: is missing"),
        (settings.read_settings, file_with("shadow.toml", "rate = 1000000", "rate = 1000001"),
         "rate", "sampling.rate"),
        (settings.read_settings, file_with("shadow.toml", "hang_ms = 3000.0", "hang_ms = 1.0"),
         "[limits]", "hang_ms 1.0 must not lie below"),
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


def test_traces_are_held_against_the_register_the_worst_first() -> None:
    found = Summary(bounds())
    for number, (text, outcome, jaccard) in enumerate([
        *[("ties", Class.TIE_ORDER, 1.0)] * 3, ("other", Class.DISJOINT, 0.0),
        ("half", Class.OVERLAP, 0.5), ("half", Class.OVERLAP, 0.2), ("same", Class.EXACT, 1.0),
        ("late", Class.TIMEOUT, None),
    ], start=1):  # fmt: skip
        found.see(attempt(number, text=text, outcome=outcome, jaccard=jaccard))
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
    known = Suppressions(accepted=(accepted(TODAY, **{"class": "disjoint"}),))
    first, *_ = found.traces(known, TODAY)
    assert first.outcome is Class.OVERLAP, "what blocks a step stands before what is accepted"
    late = Suppressions(accepted=(accepted(TODAY, query=query_key("late", {})),))
    said = {one.outcome: one.register for one in found.traces(late, TODAY)}
    assert said[Class.TIMEOUT] is SuppressionStatus.ACCEPTED, "a failure, for one query"


def reported(log: Path, out: Path, register: Path, today: date) -> tuple[str, dict[str, Any]]:
    """Write the report of a log; return its page and its JSON."""
    state = log_state([log], WATCH, register, today)
    shadow_report(state, [log], out, today=today, top=1, commands=("typed",))
    page, found = (out / name for name in ("index.html", "shadow.json"))
    return page.read_text("utf-8"), json.loads(found.read_text("utf-8"))


@pytest.mark.slow
def test_the_report_has_both_rankings_and_percentiles_with_their_intervals(tmp_path: Path) -> None:
    slow, paths = seen(elapsed_ns=3_000_000), (tmp_path / "log", tmp_path / "out")
    register = tmp_path / "accepted.toml"
    register.write_text("")
    with LogWriter(tmp_path / "log") as writer:
        writer.append([attempt(1)], [], [])
        _, said = reported(*paths, register, TODAY)
        assert set(said["latency_ns"]["control"].values()) == {None}, "too few for a percentile"
        writer.append([attempt(n, candidate=slow) for n in range(2, 301)], [], [])
        wrong = divergence(301, Class.DISJOINT, ["lost-one"], ["found-one"], text="worst")
        last = attempt(301, text="worst", outcome=Class.DISJOINT, jaccard=0.0)
        writer.append([last], [wrong], [])
    page, said = reported(*paths, register, TODAY)
    assert page.count("lost-one") == page.count("found-one") == 1
    assert "typed" in page
    p50 = {"value": 3e6, "low": 3e6, "high": 3e6, "n": 301}
    assert said["latency_ns"]["candidate"]["p50"] == p50
    assert said["latency_ns"]["control"]["p95"]["value"] == 1e6
    assert said["headline"] == (
        "Mean Jaccard of the first hits 0.9967;"
        " 1 attempt of 1 query diverged without being accepted."
    )


SETTINGS = settings.read_settings(POLICY / "shadow.toml")
PAIR = CONTROL, CANDIDATE
K = 50


def run(
    toy: Toy, folder: Path, count: int, limits: Mapping[str, float] = MappingProxyType({}),
    queries: Mapping[Query, int] | None = None,
) -> ComparisonCounts:  # fmt: skip
    """Run so many queries, each to its depth where queries are given."""
    narrow = SETTINGS.limits.model_copy(update=limits)
    log = ShadowLog(folder, SETTINGS.model_copy(update={"limits": narrow}))
    every = Prepared.open(toy.layout.data).queries() if queries is None else (*queries,)
    return shadow_run(toy.layout, PAIR, toy.cache, log, every, count=count, k=K, depths=queries)


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
    prints = [read_manifest(project.layout, arm).fingerprint for arm in PAIR]
    assert len(found.observations) == ran.served == len(queries)
    for one in found.observations:
        query = by_key[one.query]
        assert (one.outcome, one.slices) == (replayed[query.query_id], query.slices)
        assert [side and side.served_by for side in (one.control, one.candidate)] == prints


@pytest.mark.slow
def test_without_a_rate_nothing_is_shed(project: Toy, tmp_path: Path) -> None:
    """However narrow the queue, and however little of a minute the candidate may have."""
    counts = run(project, tmp_path / "log", 20, {"queue": 0, "budget_s": 0.000001})
    tally = shadow_log.read_logs(tmp_path / "log").tally
    assert (counts.attempted, tally.compared, tally.shed) == (20, 20, 0)
    assert run(project, tmp_path / "log", 5).served == 5
    found = shadow_log.read_logs(tmp_path / "log")
    assert [one.number for one in found.observations] == list(range(1, 26))
    to = ShadowLog(tmp_path / "log", SETTINGS)
    with pytest.raises(EvidenceError, match="compared with itself"):
        shadow_run(project.layout, (CONTROL, CONTROL), project.cache, to, (), count=1, k=K)


@pytest.mark.slow
def test_what_diverged_is_run_again_at_its_depth_the_most_frequent_first(
    project: Toy, tmp_path: Path
) -> None:
    before = tmp_path / "before"
    live_log.write(project, before)
    asked = diverging(before)
    diverged = Counter(one.text for one in shadow_log.read_logs(before).divergences)
    assert [diverged[one.text] for one in asked] == sorted(diverged.values(), reverse=True)
    assert set(asked.values()) == {live_log.K}
    run(project, tmp_path / "after", len(asked), queries=asked)
    found = shadow_log.read_logs(tmp_path / "after")
    again = {one.query: one for one in found.observations}
    assert {one.k for one in found.observations} == {live_log.K}
    assert again.pop(query_key(live_log.MENDED, {})).outcome is Class.EXACT
    assert all(one.outcome in DIVERGING for one in again.values())


def test_each_question_is_asked_once_with_its_latest_slices(tmp_path: Path) -> None:
    old, new = (
        divergence(n, Class.REORDER, "ab", "ba", text="twice", slices=(f"s{n}",)) for n in (1, 2)
    )
    other = replace(divergence(3, Class.REORDER, "ab", "ba", text="twice"), params={"x": 1})
    deep = divergence(4, Class.REORDER, "ab", "ba", text="twice", k=50)
    with LogWriter(tmp_path) as writer:
        writer.append([attempt(n) for n in range(1, 5)], [old, new, other, deep], [])
    found = [(one.slices, one.params, k) for one, k in diverging(tmp_path).items()]
    assert found == [(("s2",), {}, 10), ((), {"x": 1}, 10), ((), {}, 50)]


EARLIER = Path(__file__).parent / "earlier"
SAYS_OTHERWISE = {"headline", "alarms"}
"""The first begins with failures now; the second say what each is about."""


@pytest.mark.slow
def test_a_log_is_reported_with_the_figures_of_then(tmp_path: Path) -> None:
    then = json.loads((EARLIER / "shadow.json").read_text("utf-8"))
    register, day = EARLIER / "accepted.toml", date(2026, 11, 27)
    _, now = reported(EARLIER / "log", tmp_path, register, day)
    assert set(then) - {"sequences"} == set(now)
    for key in set(now) - SAYS_OTHERWISE:
        assert now[key] == then[key], key
    for old, new in zip(then["alarms"][:5], now["alarms"], strict=False):  # of scores: another now
        del old["note"]
        assert {key: new[key] for key in old} == old
    assert then["untimed"] == 1, "the proxy did not know all times"
    known = {Class.TIE_ORDER, Class.ERROR, Class.TIMEOUT, Class.STALE, Class.SKIPPED, Class.SHED}
    assert known < set(map(Class, now["classes"]))
