"""Reading a shadow log: how often each alarm is raised where nothing is wrong, and how fast.

python3 run.py python benchmarks/shadow_reading.py [--runs 200]

Each run is a stream of pairs of one arm with itself, drawn with its own seed: it finds nothing for
3 % of the queries, shows a document twice in 0.05 % of its answers, and its first scores are a
draw from one distribution. An alarm counts as raised if it was, at any time. Then one share is
moved beyond its bound, and the attempts until the alarm are counted.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import process_time

from harness.agreement.classes import Class
from harness.core.run import Status
from harness.shadow.log.record import Observation, Seen
from harness.shadow.watch.alarms import Alarm
from harness.shadow.watch.summary import Summary
from harness.stages.shadow.files import read_bounds

BOUNDS = Path(__file__).resolve().parents[1] / "policy" / "watch.toml"
SLICES = ("identifier", "keyword", "natural-language")
QUERIES = 400
NOTHING_EVERY = 33
TWICE, TWICE_PLANTED, LOST, RESTLESS = 0.0005, 0.01, 0.03, 0.03
Change = Callable[[random.Random, Seen], Seen]


def side(rng: random.Random, query: int) -> Seen:
    """Draw what one arm does with one of the queries."""
    hits = 0 if query % NOTHING_EVERY == 0 else 10
    top = rng.gammavariate(9, 1) if hits else None
    twice = int(rng.random() < TWICE)
    took = int(1e6 * rng.lognormvariate(0, 0.5))
    return Seen(
        Status.ANSWERED, took, hits, twice, top and min(top / 30, 1), top, str(query), "e", "g"
    )


def attempt(rng: random.Random, number: int, change: Change | None) -> Observation:
    """Draw one pair; ``change`` spoils the candidate."""
    query = rng.randrange(QUERIES)
    control = side(rng, query)
    candidate = side(rng, query)
    candidate = change(rng, candidate) if change else candidate
    lost = control.hits != candidate.hits
    outcome = Class.SHADOW_EMPTY if lost else Class.EXACT if control.hits else Class.BOTH_EMPTY
    overlap = None if outcome is Class.BOTH_EMPTY else float(not lost)
    return Observation(
        number=number,
        writer="w",
        at=number * 10**9,
        served=number,
        query=f"{query:032x}",
        slices=(rng.choice(SLICES),),
        outcome=outcome,
        reason="",
        k=10,
        control=control,
        candidate=candidate,
        jaccard=overlap,
        rbo=overlap,
    )


def raised(seed: int, attempts: int, change: Change | None = None) -> tuple[Alarm, ...]:
    """Give the alarms that one stream raised at any time."""
    rng, summary = random.Random(seed), Summary(read_bounds(BOUNDS))
    for number in range(1, attempts + 1):
        summary.see(attempt(rng, number, change))
    return tuple(one for one in summary.alarms if one.since is not None)


def lost(rng: random.Random, seen: Seen) -> Seen:
    """Lose all hits of 3 % of the answers."""
    return replace(seen, hits=0, top=None, top_raw=None) if rng.random() < LOST else seen


def doubled(rng: random.Random, seen: Seen) -> Seen:
    """Show a document twice in 1 % of the answers."""
    return replace(seen, duplicates=int(rng.random() < TWICE_PLANTED))


def restless(rng: random.Random, seen: Seen) -> Seen:
    """Answer 3 % of the queries in a way of its own."""
    return replace(seen, answer=seen.answer + "x" * (rng.random() < RESTLESS))


PLANTED: dict[str, Change] = {"empty": lost, "duplicates": doubled, "churn": restless}


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--attempts", type=int, default=2000)
    asked = parser.parse_args()
    start = process_time()
    counts: Counter[str] = Counter()
    for seed in range(asked.runs):
        counts.update({f"{one.name} {one.arm}".strip() for one in raised(seed, asked.attempts)})
    each = (process_time() - start) / (asked.runs * asked.attempts)
    print(f"A/A: {asked.runs} runs of {asked.attempts} attempts")  # noqa: T201  the output
    for name in (f"{n} {a}".strip() for n, a in names()):
        print(f"  {name}: raised in {counts[name]} runs")  # noqa: T201  the output
    print(f"one attempt: {1e3 * each:.2f} ms of the processor, drawing it included")  # noqa: T201  the output
    for name, change in PLANTED.items():
        found = [
            next((one.since for one in raised(seed, 4000, change)
                  if (one.name, one.arm) == (name, "candidate")), None)
            for seed in range(5)
        ]  # fmt: skip
        seen = [one for one in found if one is not None]
        said = f"after {median(seen):.0f} attempts (median)" if seen else "never"
        print(f"  {name} planted: seen in {len(seen)} of {len(found)} runs, {said}")  # noqa: T201  the output


def names() -> list[tuple[str, str]]:
    """Name every alarm and its arm."""
    return [(one.name, one.arm) for one in Summary(read_bounds(BOUNDS)).alarms]


if __name__ == "__main__":
    main()
