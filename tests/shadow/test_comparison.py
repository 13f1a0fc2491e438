"""The comparison: it samples, sheds, switches off, classifies as a replay does, and goes on."""

import time
from collections.abc import Callable, Mapping
from itertools import accumulate
from pathlib import Path
from threading import Event, Thread, current_thread, main_thread
from unittest.mock import Mock

import hypothesis
import pytest
from hypothesis import strategies as st

from harness.agreement import Class, agree
from harness.core.engine import Answer
from harness.core.errors import HarnessError
from harness.core.reading import MAX_LINE_BYTES
from harness.core.records import Scalar
from harness.core.run import Row, Run, Status
from harness.shadow import comparison as live
from harness.shadow import worker
from harness.shadow.log import OFF, Stream, read_logs
from harness.shadow.pair import Attempt, RecordBatch, ServedQuery, judged, unanswered
from harness.shadow.record import DIVERGING, LoggedAnswer, ProblemKind, query_key
from harness.shadow.settings import MILLION
from tests.make.arms import Hand
from tests.make.shadow_log import LIMITS, MS, SECOND, changed, comparison, drained, here
from tests.shadow.arms import MANIFEST, OTHER, Arm, Plain, arm, given, hits


def ask(made: live.LiveComparison, count: int, text: str = "ab") -> None:
    shadowed = live.Shadowed(Arm(), made)
    for _ in range(count):
        shadowed.search(text, 10)


def until(true: Callable[[], object]) -> None:
    """Wait until it is so."""
    for _ in range(2_000):
        if true():
            return
        time.sleep(0.005)
    pytest.fail("it is still not so")


def test_the_sampler_says_which_queries_are_attempts(tmp_path: Path) -> None:
    with comparison(tmp_path, here(arm()), rate=250_000) as made:
        ask(made, 100)
        found = drained(made)
        counts = made.counts
    sampler = live.Sampler(rate=250_000, seed=1)
    picked = [n for n in range(1, 101) if sampler.takes(n)]
    assert [one.served for one in found.observations] == picked
    assert [one.number for one in found.observations] == list(range(1, len(picked) + 1))
    assert (counts.served, counts.attempted) == (100, len(picked))


def test_what_does_not_fit_is_shed_and_written_down(tmp_path: Path) -> None:
    go, limits = Event(), changed(LIMITS, queue=3)

    def held(*_: object) -> Answer:
        assert go.wait(30)
        return Arm(OTHER).answer("ab")

    with comparison(tmp_path, here(given(Arm(OTHER, held))), limits=limits) as made:
        ask(made, 10)
        go.set()
        found = drained(made)
        assert made.counts.shed == {live.ShedReason.QUEUE: 6}
    tally = found.tally
    assert (tally.attempted, tally.compared, tally.shed) == (10, 4, 6)
    assert {one.reason for one in found.observations if one.outcome is Class.SHED} == {"queue"}


def test_a_file_switches_it_off_from_the_first_question_on_while_it_is_there(
    tmp_path: Path,
) -> None:
    (tmp_path / OFF).touch()
    with comparison(tmp_path, here(arm())) as made:
        ask(made, 2)
        (tmp_path / OFF).unlink()
        until(lambda: not made.gate.off)
        ask(made, 1)
        (tmp_path / OFF).touch()
        until(lambda: made.gate.off)
        ask(made, 1)
        found = drained(made)
    assert [one.reason for one in found.observations] == ["off", "off", "", "off"]


def test_a_look_for_the_file_switches_nothing_on_that_is_closed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turned: list[bool] = []
    looks, closed = Event(), Event()

    def exists(path: Path) -> bool:
        if path.name == OFF and current_thread() is not main_thread():
            looks.set()
            closed.wait(10)
        return False

    seen = property(lambda _: turned[-1], lambda _, off: turned.append(off))
    monkeypatch.setattr(live.LoadShedder, "off", seen, raising=False)
    monkeypatch.setattr(Path, "exists", exists)
    made = comparison(tmp_path, here(arm()))
    looks.wait(10)
    closing = Thread(target=made.close)
    closing.start()
    until(lambda: made.gate.off)
    closed.set()
    closing.join()
    assert all(turned[turned.index(True) :])


def test_a_candidate_that_is_down_is_skipped_and_comes_back_after_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Hand()
    monkeypatch.setattr(worker, "monotonic_ns", clock.now_ns)
    monkeypatch.setattr(worker, "BACKOFF_MS", (400, 60_000))
    with comparison(tmp_path, here(arm("quit"))) as made:
        for texts in (["quit", "ab", "ab"], ["ab", "quit"], ["ab"]):
            for text in texts:
                ask(made, 1, text)
            found = drained(made)
            clock.at_ns += 400 * MS
    outcomes = [one.outcome for one in found.observations]
    skipped = [Class.ERROR, Class.SKIPPED, Class.SKIPPED, Class.EXACT, Class.ERROR, Class.EXACT]
    assert outcomes == skipped
    assert "is down" in found.observations[1].reason


def test_many_threads_may_serve_at_once(tmp_path: Path) -> None:
    limits = changed(LIMITS, in_flight=3, queue=10_000)
    with comparison(tmp_path, here(arm()), limits=limits) as made:
        threads = [Thread(target=ask, args=(made, 30)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = drained(made)
    assert sorted(one.number for one in found.observations) == list(range(1, 121))
    assert found.tally.compared == 120


def test_an_attempt_that_is_counted_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was counted before it was passed on, and in between nothing waited for it."""

    def slow(*_: object) -> str:
        time.sleep(0.05)
        return ""

    monkeypatch.setattr(live, "client_key", slow)
    with comparison(tmp_path, here(arm())) as made:
        Thread(target=ask, args=(made, 1)).start()
        until(lambda: made.counts.attempted)
        assert len(drained(made).observations) == 1


def test_while_the_log_cannot_be_written_nothing_is_compared_and_all_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    full = Mock(side_effect=OSError(28, "No space left on device"))
    with comparison(tmp_path, here(arm())) as made:
        ask(made, 2)
        drained(made)
        made.check_written()
        with monkeypatch.context() as patched:
            patched.setattr(Stream, "append", full)
            ask(made, 1)
            until(lambda: made.stuck)
            ask(made, 5)
        until(lambda: not made.stuck)
        ask(made, 1)
        found = drained(made)
        with pytest.raises(HarnessError, match=r"1 attempt lost \(OSError: \[Errno 28\]"):
            made.check_written()
        assert made.counts.lost == found.missing == 1
    assert found.tally.attempted == 3
    (lost,) = [one.cause for one in found.degradations if one.kind is ProblemKind.FAULT]
    assert lost.startswith("1 were not written down: OSError: [Errno 28] No space left")
    others = [one for one in found.degradations if one.kind is not ProblemKind.FAULT]
    assert sum(one.times for one in others) == 5
    assert all(one.cause.endswith(live.UNWRITABLE) for one in others)
    (said,) = [one.getMessage() for one in caplog.records]
    assert said.startswith(f"{tmp_path}: the log cannot be written ([Errno 28] No space left")


def test_what_waits_beyond_the_backlog_is_lost_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "BACKLOG", 0)
    with comparison(tmp_path, here(arm())) as made:
        ask(made, 3)
        until(lambda: made.counts.lost == 3)
        with pytest.raises(HarnessError, match="3 attempts lost"):
            made.check_written()
    found = read_logs(tmp_path)
    (lost,) = [one.cause for one in found.degradations if one.kind is ProblemKind.FAULT]
    assert lost.startswith("3 were not written down: too many waited")
    assert not found.observations


def test_a_pair_that_cannot_be_written_spoils_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "LINGER_S", 0.1)  # all three are written in one batch
    with comparison(tmp_path, here(given(Plain("ba")))) as made:
        shadowed = live.Shadowed(Arm(), made)
        shadowed.search("ab", 10)
        shadowed.search_with("ab", 10, {"long": "x" * MAX_LINE_BYTES})
        shadowed.search("ab", 10)
        found = drained(made)
    outcomes = [one.outcome for one in found.observations]
    assert outcomes == [Class.REORDER, Class.SKIPPED, Class.REORDER]
    assert [(one.number, one.kind) for one in found.degradations] == [(2, ProblemKind.FAULT)]


@hypothesis.given(
    rate=st.integers(0, MILLION), seed=st.integers(0, 2**32), start=st.integers(1, 10**12)
)
def test_every_window_has_its_share_but_for_one(rate: int, seed: int, start: int) -> None:
    sampler = live.Sampler(rate=rate, seed=seed)
    misses = accumulate(MILLION * sampler.takes(start + n) - rate for n in range(300))
    beyond = [0, *misses]
    assert max(beyond) - min(beyond) <= MILLION


def test_the_same_seed_picks_the_same_and_another_seed_others() -> None:
    def picks(seed: int) -> list[int]:
        sampler = live.Sampler(rate=10_000, seed=seed)
        return [n for n in range(1, 1_001) if sampler.takes(n)]

    assert picks(7) == picks(7)
    assert len({tuple(picks(seed)) for seed in range(20)}) > 10


def test_the_budget_is_of_the_minute_that_just_was() -> None:
    made, clock = gate()
    for spent in (4, 6):
        assert made.admit() is None
        made.done(spent * SECOND)
        clock.at_ns += 20 * SECOND
    assert made.admit() is live.ShedReason.BUDGET
    clock.at_ns += 19 * SECOND
    assert made.admit() is live.ShedReason.BUDGET
    clock.at_ns += SECOND
    assert made.admit() is None
    made.done(4 * SECOND)
    assert made.admit() is live.ShedReason.BUDGET


def gate(in_flight: int = 2, queue: int = 1) -> tuple[live.LoadShedder, Hand]:
    clock = Hand()
    limits = changed(LIMITS, in_flight=in_flight, queue=queue, budget_s=10.0)
    return live.LoadShedder(limits, clock.now_ns), clock


def test_no_more_pairs_are_inside_than_may_run_and_wait() -> None:
    full = live.ShedReason.QUEUE
    made, _ = gate()
    assert [made.admit() for _ in range(5)] == [None, None, None, full, full]
    made.done(1)
    assert made.inside == 2
    assert made.admit() is None
    assert made.shed == {full: 2}
    made, _ = gate(in_flight=1, queue=0)
    assert [made.admit(), made.admit()] == [None, full]


PRINT = MANIFEST.fingerprint
G = PRINT[:16]


def pair(
    shown: object = "ab", candidate: str | LoggedAnswer | None = "ab", *,
    number: int = 1, k: int = 10, params: Mapping[str, Scalar] | None = None, error: str = "",
    after: str = G, shed: str = "",
) -> Attempt:  # fmt: skip
    """One pair; letters are the documents that an arm showed."""
    answer = Answer(hits(shown), PRINT) if isinstance(shown, str) else shown
    served = ServedQuery("red fox", k, params or {}, answer, error, 1_000, G)
    side = found(candidate) if isinstance(candidate, str) else candidate
    return Attempt(number, 10 * number, 7, served, lambda: G, side, after, shed)


def found(ids: str, after: str = G) -> LoggedAnswer:
    return LoggedAnswer(Status.ANSWERED, hits(ids), PRINT, "", "", 2_000, G, after)


def judge(*pairs: Attempt) -> RecordBatch:
    return judged(pairs, writer="w", slices=None)


lists = st.text("abcdefgh", max_size=6)
rows = st.tuples(lists, lists, st.sampled_from([1, 3, 10]))


@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.given(rows=st.lists(rows, min_size=1, max_size=9))
def test_each_pair_is_classified_and_measured_as_in_a_replay(
    rows: list[tuple[str, str, int]],
) -> None:
    made = [pair(a[:k], b[:k], number=n, k=k) for n, (a, b, k) in enumerate(rows, start=1)]
    records = sorted(judge(*made).observations, key=lambda one: one.number)
    for record, (a, b, k) in zip(records, rows, strict=True):
        runs = [
            Run.of(arm, [Row("q", Status.ANSWERED, hits(ids[:k]), PRINT)])
            for arm, ids in (("control", a), ("candidate", b))
        ]
        wanted = agree(*runs, depths=[k], p=0.9)
        assert record.outcome == wanted.classes[0]
        for value, scores in ((record.jaccard, f"Jaccard@{k}"), (record.rbo, "RBO")):
            same = wanted.scores[scores].values.tolist()
            assert ([] if value is None else [value]) == pytest.approx(same, abs=1e-12)


def test_an_observation_tells_what_both_arms_showed() -> None:
    (record,) = judge(pair("abb", "bacd", params={"limit": 3}, number=4)).observations
    assert (record.number, record.served, record.at, record.writer) == (4, 40, 7, "w")
    assert record.query == query_key("red fox", {"limit": 3})
    (same,) = judge(pair("ab", "ab")).observations
    control, candidate, one, other = (
        side for found in (record, same) for side in (found.control, found.candidate) if side
    )
    assert (control.hits, control.duplicates, control.elapsed_ns) == (2, 1, 1_000)
    assert (candidate.top, candidate.top_raw) == (1.0, 50.0)
    assert (candidate.served_by, control.generation) == (PRINT, G)
    assert control.answer != candidate.answer
    assert one.answer == other.answer == control.answer


ERROR = unanswered(Status.FAILED, "ValueError: x", 5)
LATE = unanswered(Status.TIMED_OUT, "late", 5)
UNKNOWN = LoggedAnswer(Status.ANSWERED, hits("ab"), PRINT, "", "", 1, "", "")


@pytest.mark.parametrize(
    ("made", "outcome", "reason"),
    [
        (pair(candidate=ERROR), Class.ERROR, "candidate: ValueError: x"),
        (pair(None, error="KeyError: y"), Class.ERROR, "control: KeyError: y"),
        (pair(None, ERROR, error="KeyError: y"), Class.ERROR,
         "control: KeyError: y; candidate: ValueError: x"),
        (pair(["a"]), Class.ERROR, "control: answered list instead of an Answer"),
        (pair("abc", k=2), Class.ERROR, "control: 3 hits were shown, 2"),
        (pair(candidate=LATE), Class.TIMEOUT, "candidate: late"),
        (pair(candidate=unanswered(Status.NOT_ASKED, "down")), Class.SKIPPED, "candidate: down"),
        (pair(candidate=None, shed="queue"), Class.SHED, "queue"),
        (pair(after="other"), Class.STALE, f"the index of the control moved from {G} to other"),
        (pair(candidate=found("xy", after="z")), Class.STALE,
         f"the index of the candidate moved from {G} to z"),
        (pair(after=""), Class.STALE, f"the index of the control moved from {G} to unknown"),
        (pair(candidate=UNKNOWN), Class.STALE, "the index of the candidate moved from unknown"),
    ],
)  # fmt: skip
def test_what_was_not_compared_says_why_and_has_no_number(
    made: Attempt, outcome: Class, reason: str
) -> None:
    (record,), divergences, _ = judge(made)
    assert record.outcome is outcome
    assert record.reason.startswith(reason)
    assert (record.jaccard, record.rbo) == (None, None)
    assert len(divergences) == (outcome in DIVERGING)
