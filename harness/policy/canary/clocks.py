"""Synthetic races, loads and live traffic with known truth, and the right verdicts on them.

Nothing is timed. Times are constructed so that the percentile, ratio or share is the bound times a
factor. The case says how busy the machine is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.evidence import Race, Stolen, Traffic
from harness.core.gate import Verdict
from harness.core.load import AtRate, Load
from harness.core.qrels import Qrels
from harness.replay.load.trial import PERCENTS
from harness.stats.times.processes import fewest_for

Written = Mapping[str, Any]
Ints = NDArray[np.int64]
PASSES, FAILS = frozenset({Verdict.PASS}), frozenset({Verdict.FAIL})
OPEN = frozenset({Verdict.INCONCLUSIVE})
NO_PASS = FAILS | OPEN
LEAST = 50
PROCESSES, ROUNDS = 4, 24
LEVEL_NS = 10_000_000
SPREAD = 0.002
"""Of the queries among each other: they differ, and no percentile moves."""
WITHIN, BEYOND = 0.9, 1.1
"""Of the bound."""
LOUDEST = 10
"""Noise that a policy may allow and a candidate still be tried with more."""
SURELY, FEWEST_BLOCKS = 4, 20
"""Times the blocks that a mere chance as the confidence leaves takes; and the fewest."""
SECOND_NS = 1_000_000_000


class Clocked(NamedTuple):
    """Measurements by field of the evidence, and the right verdicts on them."""

    what: str
    measured: Mapping[str, Race | Load | Traffic | Qrels | Mapping[str, Qrels] | None]
    right: frozenset[Verdict]


def clocked(rule: str, written: Written, arms: tuple[str, str], sure: float) -> Iterator[Clocked]:
    """Give the right verdicts of the gate ``written``; none for a rule without times.

    ``arms`` are control and candidate, ``sure`` the confidence of the policy.
    """
    if rule in MAKERS:
        yield from MAKERS[rule](written, arms, sure)


def _race(written: Written, arms: tuple[str, str], sure: float, levels: Ints) -> Race:
    """Write the times of a quiet race; ``levels`` is nanoseconds by arm and process."""
    percent = written["percent"]
    queries = max(LEAST, fewest_for(float(percent[1:]), sure, arms=2))
    spread = 1 + SPREAD * np.arange(queries) / queries
    times = {
        arm: np.rint(level[:, None] * spread).astype(np.int64)
        for arm, level in zip(arms, levels, strict=True)
    }
    turns = (np.arange(queries) + np.arange(PROCESSES)[:, None]) % 2
    quiet = Stolen(waited=0, others=0, steal=0, throttled=0, preempted=0, worked=1)
    return Race(
        query_ids=tuple(f"c{at:05}" for at in range(queries)),
        elapsed_ns=times,
        lost_ns={arm: np.zeros_like(of) for arm, of in times.items()},
        turns={arms[0]: turns, arms[1]: 1 - turns},
        repeated_ns={arm: of[:, :LEAST] for arm, of in times.items()},
        unseen_ns={arm: of[:, :LEAST] for arm, of in times.items()},
        reference_ns=np.full((PROCESSES, 1), _reference_ns(written)),
        stolen=dict.fromkeys(arms, quiet),
        verified=dict.fromkeys(arms, True),
        machine="canary",
        raced_at="",
    )


def _reference_ns(written: Written) -> float:
    return float(written.get("reference_ms", 1)) * 1e6


def _raced(written: Written, arms: tuple[str, str], sure: float) -> Iterator[Clocked]:
    """latency_ratio and latency_ceiling."""
    budget = "max_ms" in written
    bound = float(written["max_ms"]) * 1e6 if budget else float(written["max_ratio"]) * LEVEL_NS
    control = float(LEVEL_NS)
    apart = float(written["max_noise"]) ** 0.25
    uneven = apart ** np.array([1, -1, 1, -1])

    def race(factor: float, by: NDArray[np.float64] | float = 1.0, **changes: Any) -> Race:  # noqa: ANN401  fields of Race
        own = np.maximum(bound * factor * np.ones(PROCESSES) * by, 1)
        levels = np.array([np.full(PROCESSES, control), own])
        return replace(_race(written, arms, sure, levels), **changes)

    kept = race(WITHIN)
    yield Clocked("a candidate within its bound", {"race": kept}, PASSES)
    yield Clocked("a candidate beyond its bound", {"race": race(BEYOND)}, FAILS)
    yield Clocked("one at its bound that processes disagree on", {"race": race(1, uneven)}, NO_PASS)
    if float(written["max_noise"]) <= LOUDEST:
        noisy = race(WITHIN / apart**12, uneven**3)
        yield Clocked("one that differs too much from itself", {"race": noisy}, OPEN)
    busy = replace(kept.stolen[arms[1]], others=1.5 * float(written["max_stolen"]))
    stolen = {**kept.stolen, arms[1]: busy}
    yield Clocked("one on a busy machine", {"race": race(WITHIN, stolen=stolen)}, OPEN)
    strange = {arms[0]: True, arms[1]: False}
    yield Clocked("one that answers otherwise", {"race": race(WITHIN, verified=strange)}, OPEN)
    late = race(BEYOND)
    waited = {**late.lost_ns, arms[1]: late.elapsed_ns[arms[1]] // 3}
    yield Clocked("one that only waited", {"race": replace(late, lost_ns=waited)}, OPEN)
    yield Clocked("no race", {"race": None}, OPEN)
    if budget:
        slow = math.sqrt(float(written["max_scale"]))
        slower, quicker = (
            np.full((PROCESSES, 1), _reference_ns(written) * scale) for scale in (slow, 1 / slow)
        )
        scaled = race(WITHIN * slow, reference_ns=slower)
        yield Clocked("a budget kept on a slower machine", {"race": scaled}, PASSES)
        missed = race(BEYOND / slow, reference_ns=quicker)
        yield Clocked("a budget missed on a quicker machine", {"race": missed}, FAILS)
        far = np.full((PROCESSES, 1), _reference_ns(written) * float(written["max_scale"]) * BEYOND)
        yield Clocked("another machine", {"race": race(WITHIN, reference_ns=far)}, OPEN)


def _queued(written: Written, arms: tuple[str, str], sure: float) -> Iterator[Clocked]:  # noqa: ARG001  every maker is called alike
    bound, rate = float(written["max_ms"]) * 1e6, float(written["rate"])

    def load(*factors: float, at: float = rate, noise: float = 1.0, busy: float = 0.0) -> Load:
        times = bound * np.resize(np.array(factors), ROUNDS)
        wrong = np.full(ROUNDS, math.inf if factors[0] < 1 else 1.0)
        system = {**dict.fromkeys(PERCENTS, wrong), written["percent"]: times}
        rounds = AtRate(system, np.full(ROUNDS, busy), (), int(written["min_arrivals"]))
        return Load(
            at={arms[1]: {at: rounds}},
            noise={rate: np.full(ROUNDS, noise)},
            reference_ns=np.full(ROUNDS, _reference_ns(written)),
            machine="canary",
            loaded_at="",
        )

    noisy, busy = float(written["max_noise"]) * BEYOND, (1 + float(written["max_busy"])) / 2
    for what, found, right in (
        ("a queue within its bound", load(WITHIN), PASSES),
        ("a queue beyond its bound", load(BEYOND), FAILS),
        ("a queue that rounds disagree on", load(WITHIN, BEYOND), NO_PASS),
        ("arrivals that were not answered", load(math.inf), FAILS),
        ("another rate", load(WITHIN, at=rate / 2), OPEN),
        ("a noisy machine", load(WITHIN, noise=noisy), OPEN),
        ("a busy machine", load(WITHIN, busy=busy), OPEN),
        ("no load", None, OPEN),
    ):
        yield Clocked(what, {"load": found}, right)


def _lived(written: Written, arms: tuple[str, str], sure: float) -> Iterator[Clocked]:  # noqa: ARG001  every maker is called alike
    """Let so many pairs of live traffic go wrong, for the three gates on it.

    Traffic without a fault is too short where one whose share is the bound would show none so
    often as the confidence does not allow.
    """
    room = 1 - float(written["floor"]) if "floor" in written else float(written["max_share"])
    each, fewest = int(written["block_pairs"]), int(written["min_pairs"])
    chance = math.log((1 - sure) / 2)
    sure_blocks = math.ceil(-SURELY * chance / min(room, 1 - room))
    pairs = max((each + 1) * max(sure_blocks, FEWEST_BLOCKS), fewest)
    short = each * math.floor(chance / math.log(1 - room))
    step = math.ceil(float(written["block_s"]) * SECOND_NS / each) + 1

    def traffic(wrong: int, pairs: int = pairs) -> Traffic:
        bad = np.zeros(pairs, dtype=bool)
        bad[np.linspace(0, pairs - 1, wrong).astype(np.int64)] = True
        at, slow = np.arange(pairs, dtype=np.int64) * step, float(written.get("max_ratio", 2))
        return Traffic(
            attempted=pairs,
            passed_over={},
            asked=np.ones(pairs, dtype=np.int64),
            failed=bad,
            failed_at=at,
            failures={},
            overlap={int(written.get("k", 1)): (~bad).astype(np.float64)},
            overlap_at={int(written.get("k", 1)): at},
            control_ns=np.full(pairs, LEVEL_NS),
            candidate_ns=np.rint(LEVEL_NS * slow * np.where(bad, BEYOND, WITHIN)).astype(np.int64),
            timed_at=at,
            since="",
            until="",
        )

    yield Clocked("traffic without a fault", {"traffic": traffic(0)}, PASSES)
    yield Clocked("traffic too short to show it", {"traffic": traffic(0, short)}, NO_PASS)
    within = math.ceil(room * pairs) - 1
    for count, how in ((within, "within"), (within + 2, "beyond")):
        yield Clocked(f"traffic just {how} its bound", {"traffic": traffic(count)}, NO_PASS)
    yield Clocked("traffic that always goes wrong", {"traffic": traffic(pairs)}, FAILS)
    yield Clocked("no traffic", {"traffic": None}, OPEN)


def _labelled(written: Written, arms: tuple[str, str], sure: float) -> Iterator[Clocked]:  # noqa: ARG001  every maker is called alike
    """Let a machine say what people say, the opposite, or nothing."""
    ids = [f"labelled {at}" for at in range(max(int(written["min_queries"]), LEAST))]
    people = Qrels({query_id: {"good": 1, "bad": 0} for query_id in ids})
    against = Qrels({query_id: {"good": 0, "bad": 1} for query_id in ids})
    few = Qrels({query_id: people.grades[query_id] for query_id in ids[:1]})
    for what, found, right in (
        ("a machine that says what people say", {written["judge"]: people}, PASSES),
        ("a machine that says the opposite", {written["judge"]: against}, OPEN),
        ("a machine that judged one query", {written["judge"]: few}, OPEN),
        ("no machine", {}, OPEN),
    ):
        yield Clocked(what, {"labels": found, "qrels": people}, right)


MAKERS: Mapping[str, Callable[[Written, tuple[str, str], float], Iterator[Clocked]]] = {
    "latency_ratio": _raced,
    "latency_ceiling": _raced,
    "judge_trusted": _labelled,
    "queueing": _queued,
    "anytime_failures": _lived,
    "anytime_overlap": _lived,
    "anytime_slow": _lived,
}
