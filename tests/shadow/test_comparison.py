"""The comparison, with its lane and its recorder: it samples, sheds, switches, and goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from opentelemetry import metrics, trace

from harness.agreement import Class
from harness.core.engine import Answer
from harness.core.errors import BadPolicy, HarnessError
from harness.core.reading import MAX_LINE_BYTES
from harness.shadow import worker
from harness.shadow.comparison import (
    UNWRITABLE,
    LiveComparison,
    LoadShedder,
    Sampler,
    Shadowed,
    ShedReason,
)
from harness.shadow.log import OFF, Stream
from harness.shadow.record import ProblemKind
from harness.shadow.recorder import LOOK_S
from harness.shadow.settings import MILLION, read_settings
from harness.shadow.telemetry import to_opentelemetry
from tests.make.arms import Hand
from tests.make.shadow_log import LIMITS, MS, RECORDING, changed, comparison, drained, here
from tests.shadow.arms import OTHER, Arm, Plain, arm, broken, given, hits
from tests.source import ROOT

SLOW = changed(RECORDING, linger_ms=100.0)
"""All that is asked in one test is written in one batch."""


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
    assert {one.kind for one in found.degradations} == {ProblemKind.SHED}


def test_a_file_switches_it_off_from_the_first_question_on_while_it_is_there(
    tmp_path: Path,
) -> None:
    (tmp_path / OFF).touch()
    with comparison(tmp_path, here(arm())) as made:
        ask(made, 2)
        (tmp_path / OFF).unlink()
        until(lambda: not made.off)
        ask(made, 1)
        (tmp_path / OFF).touch()
        until(lambda: made.off)
        ask(made, 1)
        made.switch_off("by hand")
        (tmp_path / OFF).unlink()
        drained(made)
        time.sleep(2 * LOOK_S)
        assert made.off == "by hand"
        found = drained(made)
    assert [one.reason for one in found.observations] == ["off", "off", "", "off"]
    assert [one.kind for one in found.degradations if one.number == 0] == [ProblemKind.DISABLED] * 3


def test_a_candidate_that_is_down_is_skipped_and_comes_back_after_a_pause(
    tmp_path: Path, hand: Hand
) -> None:
    limits = changed(LIMITS, backoff_ms=400.0, backoff_most_ms=60_000.0)
    with comparison(tmp_path, here(arm("quit")), limits=limits) as made:
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


def test_the_pause_doubles_until_a_question_is_answered(tmp_path: Path, hand: Hand) -> None:
    """A query every 10 ms; starts after 0, 20, 40, 80 and 160 ms of pause."""
    limits = changed(LIMITS, backoff_ms=20.0, backoff_most_ms=60_000.0)
    with comparison(tmp_path, here(broken), limits=limits) as made:
        for _ in range(50):
            ask(made, 1)
            assert made.drain(60)
            hand.at_ns += 10 * MS
        found = drained(made)
    starts = [one.number for one in found.degradations if one.kind is ProblemKind.CRASH]
    assert starts == [1, 3, 7, 15, 31]


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


def test_a_pair_that_cannot_be_written_spoils_no_other(tmp_path: Path) -> None:
    with comparison(tmp_path, here(given(Plain("ba"))), recording=SLOW) as made:
        shadowed = Shadowed(Arm(), made)
        shadowed.search("ab", 10)
        shadowed.search_with("ab", 10, {"long": "x" * MAX_LINE_BYTES})
        shadowed.search("ab", 10)
        found = drained(made)
    outcomes = [one.outcome for one in found.observations]
    assert outcomes == [Class.REORDER, Class.SKIPPED, Class.REORDER]
    assert [(one.number, one.kind) for one in found.degradations] == [(2, ProblemKind.FAULT)]


FILE = ROOT / "policy" / "shadow.toml"
TEXT = FILE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("queue = 64", "", "queue: is missing"),
        ("rate = 1000000", "rate = 1000001", "sampling.rate"),
        ("seed = 20261122", "seeds = 1", "sampling.seeds: unknown key"),
        ("hang_ms = 3000.0", "hang_ms = 1.0", "hang_ms 1.0 must not lie below"),
    ],
)
def test_nothing_has_a_default_and_what_is_wrong_is_named(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    assert old in TEXT
    (tmp_path / "shadow.toml").write_text(TEXT.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(BadPolicy, match=says) as raised:
        read_settings(tmp_path / "shadow.toml")
    assert raised.value.line is not None


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
    assert [made.admit(), made.admit()] == [None, ShedReason.IN_FLIGHT]


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


class Reported(list[tuple[Any, ...]]):
    """A meter, its instruments, a tracer and its spans: all that is reported is in the list."""

    def named(self, name: str, **_: str) -> Reported:
        made = Reported()
        made.add = made.record = lambda *said: self.append((name, *said))  # type: ignore[attr-defined]
        return made

    create_counter = create_histogram = named

    def start_span(self, name: str, *, attributes: dict[str, object], start_time: int) -> Reported:
        made = Reported()
        made.end = lambda until: self.append((name, attributes["outcome"], until - start_time))  # type: ignore[attr-defined]
        return made


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> Reported:
    found = Reported()
    monkeypatch.setattr(metrics, "get_meter", lambda _: found)
    monkeypatch.setattr(trace, "get_tracer", lambda _: found)
    return found


def test_each_attempt_is_reported_as_it_is_logged(tmp_path: Path, reported: Reported) -> None:
    with comparison(tmp_path, here(arm()), export=to_opentelemetry()) as made:
        for text in ("ab", "zzz", "secret words"):
            Shadowed(Arm(), made).search(text, 10, client="ada")
        logged = drained(made).observations
    outcomes = [one.outcome.value for one in logged]
    counted = [said["outcome"] for name, _, *(said,) in by(reported, "shadow.attempts")]
    assert sorted(counted) == sorted(outcomes)
    spans = {(outcome, ns) for _, outcome, ns in by(reported, "shadow.attempt")}
    assert spans == {
        (one.outcome.value, one.candidate.elapsed_ns) for one in logged if one.candidate
    }
    assert len(by(reported, "shadow.duration")) == 2 * len(logged)
    assert [one[1] for one in by(reported, "shadow.jaccard")] == [
        one.jaccard for one in logged if one.jaccard is not None
    ]
    assert not any(word in str(reported) for word in ("secret", "ada"))


def by(found: Reported, name: str) -> list[tuple[Any, ...]]:
    return [one for one in found if one[0] == name]
