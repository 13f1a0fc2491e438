"""What a log says while it grows; what is accepted does not block; what diverged is asked again."""

import random
import tomllib
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from harness.agreement import Class, ComparisonTally
from harness.core.engine import Answer
from harness.core.errors import BadPolicy
from harness.core.run import Status
from harness.shadow import log as shadow_log
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
from harness.shadow.settings import accept, read_bounds, read_settings, read_suppressions
from harness.shadow.summary import LogState, MedianRatio, Summary
from harness.shadow.words import standing_counts
from tests.make.shadow_records import START, attempt, bounds, divergence, seen, shed
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
    assert [(t.times, t.text) for t in summary.diverging.traces()] == [(9, "a query")]


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


def test_a_long_list_is_not_read_for_each_query(monkeypatch: pytest.MonkeyPatch) -> None:
    fits, looked = AcceptedDivergence.fits, []

    def counted(one: AcceptedDivergence, *about: Any) -> bool:  # noqa: ANN401  as of fits
        looked.append(one)
        return fits(one, *about)

    monkeypatch.setattr(AcceptedDivergence, "fits", counted)
    own = entry(query=KEY)
    known = Suppressions(accepted=(own, *(entry(query=f"{of:032x}") for of in range(50)), TIES))
    for _ in range(3):
        standing = known.standing(Class.DISJOINT, (), KEY, today=TODAY)
        assert standing is SuppressionStatus.ACCEPTED
    assert sorted(map(id, looked)) == sorted(map(id, 3 * [own, TIES]))


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
    summary = Summary(bounds())
    found = summary.diverging
    for number in range(1, 4):
        found.see(attempt(number, text="ties", outcome=Class.TIE_ORDER))
    found.see(attempt(4, text="other", outcome=Class.DISJOINT, jaccard=0.0))
    found.see(attempt(5, text="half", outcome=Class.OVERLAP, jaccard=0.5))
    found.see(attempt(6, text="half", outcome=Class.OVERLAP, jaccard=0.2))
    found.see(attempt(7, text="same"))
    found.see(attempt(8, text="late", outcome=Class.TIMEOUT, jaccard=None))
    found.tell(divergence(4, Class.DISJOINT, ["a"], ["b"], text="other"))
    state = LogState.of(summary, Suppressions(accepted=(TIES,)), today=TODAY)
    assert [(trace.outcome, standing) for trace, standing in state.standing] == [
        ("disjoint", SuppressionStatus.OPEN),
        ("overlap", SuppressionStatus.OPEN),
        ("tie_order", SuppressionStatus.ACCEPTED),
        ("timeout", SuppressionStatus.FAILED),
    ]
    assert [trace.text for trace in state.blocking] == ["other", ""]
    assert (state.blocking[1].jaccard, state.blocking[1].times) == (0.2, 2)
    known = Suppressions(accepted=(entry(kind="disjoint"),))
    first, *_ = LogState.of(summary, known, today=TODAY).standing
    assert first[0].outcome is Class.OVERLAP, "what blocks a step stands before what is accepted"
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
