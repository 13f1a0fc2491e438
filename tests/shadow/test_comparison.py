"""The comparison: it samples, sheds, switches off, classifies as a replay does, and goes on."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event, Thread, current_thread, main_thread

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
from harness.shadow.comparison import (
    UNWRITABLE,
    LiveComparison,
    LoadShedder,
    Sampler,
    Shadowed,
    ShedReason,
)
from harness.shadow.log import OFF, Stream, read_logs
from harness.shadow.pair import Attempt, RecordBatch, ServedQuery, judged, unanswered
from harness.shadow.record import DIVERGING, LoggedAnswer, ProblemKind, query_key
from harness.shadow.settings import MILLION
from tests.make.arms import Hand
from tests.make.shadow_log import LIMITS, MS, changed, comparison, drained, here
from tests.shadow.arms import MANIFEST, OTHER, Arm, Plain, arm, given, hits


def ask(made: LiveComparison, count: int, text: str = "ab") -> None:
    shadowed = Shadowed(Arm(), made)
    for _ in range(count):
        shadowed.search(text, 10)


def until(true: Callable[[], object]) -> None:
    """Wait until it is so."""
    for _ in range(2_000):
        if true():
            return
        time.sleep(0.005)
    pytest.fail("it is still not so")


@pytest.fixture
def hand(monkeypatch: pytest.MonkeyPatch) -> Hand:
    """Turn the clock by hand that says when a candidate may start again."""
    hand = Hand()
    monkeypatch.setattr(worker, "monotonic_ns", hand.now_ns)
    monkeypatch.setattr(worker, "BACKOFF_MS", (400, 60_000))
    return hand


def fails(*_: object) -> None:
    """Write to a disk that is full."""
    raise OSError(28, "No space left on device")


class Held:
    """A candidate that waits until it is let go."""

    def __init__(self) -> None:
        self.go = Event()
        self.arm = Arm(OTHER, self.act)

    def act(self, _: str, __: int) -> Answer:
        assert self.go.wait(30)
        return Answer(hits("ab"), OTHER.fingerprint)


def test_the_sampler_says_which_queries_are_attempts(tmp_path: Path) -> None:
    with comparison(tmp_path, here(arm()), rate=250_000) as made:
        ask(made, 100)
        found = drained(made)
        counts = made.counts
    sampler = Sampler(rate=250_000, seed=1)
    picked = [n for n in range(1, 101) if sampler.takes(n)]
    assert [one.served for one in found.observations] == picked
    assert [one.number for one in found.observations] == list(range(1, len(picked) + 1))
    assert (counts.served, counts.attempted) == (100, len(picked))


def test_what_does_not_fit_is_shed_and_written_down(tmp_path: Path) -> None:
    held = Held()
    limits = changed(LIMITS, queue=3)
    with comparison(tmp_path, here(given(held.arm)), limits=limits) as made:
        ask(made, 10)
        held.go.set()
        found = drained(made)
        assert made.counts.shed == {ShedReason.QUEUE: 6}
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
    monkeypatch.setattr(LoadShedder, "off", seen, raising=False)
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
    tmp_path: Path, hand: Hand
) -> None:
    with comparison(tmp_path, here(arm("quit"))) as made:
        ask(made, 1, "quit")
        ask(made, 2)
        drained(made)
        hand.at_ns += 400 * MS
        ask(made, 1)
        ask(made, 1, "quit")
        drained(made)
        hand.at_ns += 400 * MS
        ask(made, 1)
        found = drained(made)
    outcomes = [one.outcome for one in found.observations]
    skipped = [Class.ERROR, Class.SKIPPED, Class.SKIPPED, Class.EXACT, Class.ERROR, Class.EXACT]
    assert outcomes == skipped
    assert "is down" in found.observations[1].reason


def test_many_threads_may_serve_at_once(tmp_path: Path) -> None:
    limits = changed(LIMITS, in_flight=3, queue=10_000)
    with comparison(tmp_path, here(arm()), limits=limits) as made:
        threads = [Thread(target=ask, args=(made, 100)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = drained(made)
    assert [one.number for one in sorted(found.observations, key=lambda one: one.number)] == list(
        range(1, 401)
    )
    assert found.tally.compared == 400


def test_while_the_log_cannot_be_written_nothing_is_compared_and_all_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    whole = Stream.append
    with comparison(tmp_path, here(arm())) as made:
        ask(made, 2)
        drained(made)
        made.check_written()
        monkeypatch.setattr(Stream, "append", fails)
        ask(made, 1)
        until(lambda: made.stuck)
        ask(made, 5)
        monkeypatch.setattr(Stream, "append", whole)
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
    assert all(one.cause.endswith(UNWRITABLE) for one in others)
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
        shadowed = Shadowed(Arm(), made)
        shadowed.search("ab", 10)
        shadowed.search_with("ab", 10, {"long": "x" * MAX_LINE_BYTES})
        shadowed.search("ab", 10)
        found = drained(made)
    outcomes = [one.outcome for one in found.observations]
    assert outcomes == [Class.REORDER, Class.SKIPPED, Class.REORDER]
    assert [(one.number, one.kind) for one in found.degradations] == [(2, ProblemKind.FAULT)]


rates = st.integers(0, MILLION)
seeds = st.integers(0, 2**32)


def off_by(picked: list[bool], rate: int) -> int:
    """Most millionths by which any window misses its share."""
    low = high = at = 0
    for one in picked:
        at += MILLION * one - rate
        low, high = min(low, at), max(high, at)
    return high - low


@hypothesis.given(rate=rates, seed=seeds, start=st.integers(1, 10**12))
def test_every_window_has_its_share_but_for_one(rate: int, seed: int, start: int) -> None:
    sampler = Sampler(rate=rate, seed=seed)
    assert off_by([sampler.takes(start + n) for n in range(300)], rate) <= MILLION


def test_the_same_seed_picks_the_same_and_another_seed_others() -> None:
    def picks(seed: int) -> list[int]:
        sampler = Sampler(rate=10_000, seed=seed)
        return [n for n in range(1, 1_001) if sampler.takes(n)]

    assert picks(7) == picks(7)
    assert len({tuple(picks(seed)) for seed in range(20)}) > 10


SECOND = 1_000_000_000


def gate(*, in_flight: int = 2, queue: int = 1, budget_s: float = 10.0) -> tuple[LoadShedder, Hand]:
    clock = Hand()
    limits = changed(LIMITS, in_flight=in_flight, queue=queue, budget_s=budget_s)
    return LoadShedder(limits, clock.now_ns), clock


def test_no_more_pairs_are_inside_than_may_run_and_wait() -> None:
    made, _ = gate()
    assert [made.admit() for _ in range(5)] == [None] * 3 + [ShedReason.QUEUE] * 2
    made.done(1)
    assert made.inside == 2
    assert made.admit() is None
    assert made.shed == {ShedReason.QUEUE: 2}
    made, _ = gate(in_flight=1, queue=0)
    assert [made.admit(), made.admit()] == [None, ShedReason.QUEUE]


def test_the_budget_is_of_the_minute_that_just_was() -> None:
    made, clock = gate()
    for spent in (4, 6):
        assert made.admit() is None
        made.done(spent * SECOND)
        clock.at_ns += 20 * SECOND
    assert made.admit() is ShedReason.BUDGET
    clock.at_ns += 19 * SECOND
    assert made.admit() is ShedReason.BUDGET
    clock.at_ns += SECOND
    assert made.admit() is None
    made.done(4 * SECOND)
    assert made.admit() is ShedReason.BUDGET


PRINT = MANIFEST.fingerprint
G = PRINT[:16]


def pair(
    shown: object = "ab",
    candidate: str | LoggedAnswer | None = "ab",
    *,
    number: int = 1,
    k: int = 10,
    text: str = "red fox",
    params: Mapping[str, Scalar] | None = None,
    error: str = "",
    after: str = G,
    shed: str = "",
) -> Attempt:
    """One pair; letters are the documents that an arm showed."""
    answer = Answer(hits(shown), PRINT) if isinstance(shown, str) else shown
    served = ServedQuery(text, k, params or {}, answer, error, 1_000, G)
    side = found(candidate) if isinstance(candidate, str) else candidate
    return Attempt(number, 10 * number, 7, served, lambda: G, side, after, shed)


def found(ids: str, served_by: str = PRINT, after: str = G) -> LoggedAnswer:
    return LoggedAnswer(Status.ANSWERED, hits(ids), served_by, "", "", 2_000, G, after)


def judge(*pairs: Attempt) -> RecordBatch:
    return judged(pairs, writer="w", slices=None)


lists = st.text("abcdefgh", max_size=6)


@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.given(
    rows=st.lists(st.tuples(lists, lists, st.sampled_from([1, 3, 10])), min_size=1, max_size=9)
)
def test_each_pair_is_classified_and_measured_as_in_a_replay(
    rows: list[tuple[str, str, int]],
) -> None:
    made = [pair(a[:k], b[:k], number=n, k=k) for n, (a, b, k) in enumerate(rows, start=1)]
    records = {record.number: record for record in judge(*made).observations}
    for number, (a, b, k) in enumerate(rows, start=1):
        runs = [
            Run.of(arm, [Row("q", Status.ANSWERED, hits(ids[:k]), PRINT)])
            for arm, ids in (("control", a), ("candidate", b))
        ]
        wanted = agree(*runs, depths=[k], p=0.9)
        record = records[number]
        assert record.outcome == wanted.classes[0]
        for value, scores in ((record.jaccard, f"Jaccard@{k}"), (record.rbo, "RBO")):
            same = wanted.scores[scores].values
            assert (value is None) == (len(same) == 0)
            assert value is None or value == pytest.approx(float(same[0]), abs=1e-12)


def test_an_observation_tells_what_both_arms_showed() -> None:
    (record,) = judge(pair("abb", "bacd", params={"limit": 3}, number=4)).observations
    assert (record.number, record.served, record.at, record.writer) == (4, 40, 7, "w")
    assert record.query == query_key("red fox", {"limit": 3})
    assert record.control is not None
    assert record.candidate is not None
    control = record.control
    assert (control.hits, control.duplicates, control.elapsed_ns) == (2, 1, 1_000)
    assert (record.candidate.top, record.candidate.top_raw) == (1.0, 50.0)
    assert record.candidate.served_by == PRINT
    assert record.control.generation == G
    assert record.control.answer != record.candidate.answer
    (same,) = judge(pair("ab", "ab")).observations
    assert same.control is not None
    assert same.candidate is not None
    assert same.control.answer == same.candidate.answer == record.control.answer


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
    records = judge(made)
    (record,) = records.observations
    assert record.outcome is outcome
    assert record.reason.startswith(reason)
    assert record.jaccard is None
    assert record.rbo is None
    assert len(records.divergences) == (outcome in DIVERGING)
