"""How often the statistics are wrong where the truth is known: the tables of docs/statistics.md.

    python3 run.py python benchmarks/simulations.py all
    python3 run.py python benchmarks/simulations.py coverage --trials 4000

Every number is a share of seeded trials; the suite runs the same functions with fewer of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.simulated_clicks import Traffic, called
from benchmarks.simulated_differences import (
    cases,
    losing,
    real,
)
from benchmarks.simulated_judges import judged, widths
from benchmarks.simulated_plans import kept
from benchmarks.simulated_power import delivered
from benchmarks.simulated_races import covered, of_one_intent, verdicts
from benchmarks.simulated_samples import MARGIN, coverage
from benchmarks.simulated_times import clinging, stationary
from benchmarks.simulated_traffic import (
    BOUND,
    COURSES,
    DAYS,
    passed,
)
from benchmarks.simulated_traffic_means import traffic_means

FAR = 0.05
"""How far the true mean lies from the bound where a pilot promises a number of queries."""
SCORES = Path("build/python-docs/scores/per_query.parquet")
PAIRS = (("fts5", "tantivy"), ("tantivy", "hybrid"))


def show_coverage(trials: int) -> Iterator[str]:
    """One line for each kind of difference and number of queries."""
    yield "| differences | queries | coverage | above | below | coverage of plain BCa |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    every = (*cases(), *(real(SCORES, pair) for pair in PAIRS if SCORES.exists()))
    for case in every:
        for queries in (50, 200):
            shares = coverage(case, queries, trials)
            yield f"| {case.name} | {queries} | " + " | ".join(f"{s:.2%}" for s in shares) + " |"


def show_power(trials: int) -> Iterator[str]:
    """One line for each kind of difference and size of pilot."""
    yield "| differences | pilot | open pilots | promised | kept | from mean and spread | kept |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for case in (losing(MARGIN), *cases()):
        for pilot in (50, 100, 200):
            found = delivered(case, pilot=pilot, bound=case.mean - FAR, trials=max(20, trials // 5))
            if found:
                promised = f"{found.queries:,} | {found.settled:.0%}"
                as_seen = f"{found.as_seen_queries:,} | {found.as_seen:.0%}"
                yield f"| {case.name} | {pilot} | {found.open} | {promised} | {as_seen} |"


def show_plans(trials: int) -> Iterator[str]:
    """One line for each kind of difference and size of pilot."""
    yield "| differences | pilot | planned | passes there | pilots whose plan does |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for case in (losing(MARGIN), *cases()[:3]):
        for pilot in (30, 100, 1_000):
            size = max(2, trials // 40)
            bound = case.mean - FAR
            found = kept(case, pilot=pilot, bound=bound, pilots=size, samples=4 * size)
            shares = f"{found.passed:.0%} | {found.enough:.0%}"
            yield f"| {case.name} | {pilot} | {found.queries:,} | {shares} |"


def show_traffic(trials: int) -> Iterator[str]:
    """One line for each course of traffic whose mean is the bound, and for good ones."""
    yield "| traffic | pairs that fail | passes on any day | fails on any day |"
    yield "| --- | ---: | ---: | ---: |"
    for name, course in COURSES.items():
        found = passed(course, DAYS, trials, bound=BOUND)
        yield f"| {name} | {course.share:.2%} | {found.ever:.2%} | {found.failed:.2%} |"


def show_series(trials: int) -> Iterator[str]:
    """One line for each percentile and coefficient."""
    yield "| percentile | AR(1) | times | coverage | series with an interval |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for percent in (50.0, 95.0):
        for phi in (0.0, 0.3, 0.6, 0.8):
            for times in (1_000, 4_000):
                held, given = clinging(percent, phi, times, trials)
                yield f"| p{percent:g} | {phi} | {times:,} | {held:.2%} | {given:.2%} |"


def show_short(trials: int) -> Iterator[str]:
    """One line for each coefficient and short series: where the method ends."""
    yield "| percentile | AR(1) | times | coverage | series with an interval |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for phi in (0.0, 0.6, 0.8, 0.9):
        for times in (400, 1_000):
            held, given = clinging(95.0, phi, times, trials)
            yield f"| p95 | {phi} | {times:,} | {held:.2%} | {given:.2%} |"


def show_blocks(trials: int) -> Iterator[str]:
    """One line for each percentile and coefficient: the way that was not taken."""
    yield "| percentile | AR(1) | times | coverage of the stationary bootstrap |"
    yield "| --- | ---: | ---: | ---: |"
    for percent in (50.0, 95.0):
        for phi in (0.3, 0.6, 0.8):
            held = stationary(percent, phi, 1_000, trials // 4)
            yield f"| p{percent:g} | {phi} | 1,000 | {held:.2%} |"


def show_races(trials: int) -> Iterator[str]:
    """One line for each percentile, number of processes and spread between them."""
    yield (
        "| percentile | queries | processes | apart | "
        + " | ".join(f"{kind} below | above" for kind in ("ratio", "one arm"))
        + " |"
    )
    yield "| --- |" + " ---: |" * 7
    for percent, queries in ((50.0, 150), (95.0, 150), (99.0, 400)):
        for processes in (3, 4):
            for apart in (0.0, 0.03, 0.1):
                shares = [
                    share
                    for kind in ("ratio", "percentile")
                    for share in covered(
                        kind, percent, queries=queries, processes=processes, apart=apart,
                        trials=trials,
                    )
                ]  # fmt: skip
                found = " | ".join(f"{share:.2%}" for share in shares)
                yield f"| p{percent:g} | {queries} | {processes} | {apart} | {found} |"


def show_alike(trials: int) -> Iterator[str]:
    """One line for each percentile and size of cluster: races over texts that are alike."""
    yield "| percentile | texts | alike | below, all timed | below, one of each timed |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for percent in (50.0, 95.0):
        for each in (4, 8):
            every, one = (
                of_one_intent(each, percent, one_each=one_each, texts=400, trials=trials)
                for one_each in (False, True)
            )
            yield f"| p{percent:g} | 400 | {each} | {every:.2%} | {one:.2%} |"


def show_logs(trials: int) -> Iterator[str]:
    """One line for each size of a sample of a log."""
    yield "| values | sampled queries | coverage | width | plain mean minus that of the traffic |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    cases = {"nDCG@10": None, "10 % moved": 0.1, "3 % moved": 0.03}
    for name, moved in cases.items():
        for size in (24, 60, 150, 400):
            found = traffic_means(size, trials, moved=moved)
            numbers = f"{found.traffic:.2%} | {found.width:.3f} | {found.plain_bias:+.3f}"
            yield f"| {name} | {size} | {numbers} |"


def show_judges(trials: int) -> Iterator[str]:
    """One line for each number of queries that people judge."""
    yield "| people judge | people alone promote | with the machine |"
    yield "| ---: | ---: | ---: |"
    for people in (30, 50, 100, 200):
        found = judged(people, trials)
        yield f"| {people} | {found.people:.1%} | {found.machine:.1%} |"
    yield ""
    yield "| people judge | of queries | the machine errs in | people alone | corrected machine |"
    yield "| ---: | ---: | ---: | ---: | ---: |"
    for people, queries in ((30, 1_000), (100, 1_000), (200, 1_000), (200, 5_000), (1_000, 5_000)):
        for errs in (0.05, 0.15):
            alone, both = widths(people, queries, errs)
            yield f"| {people:,} | {queries:,} | {errs:.0%} | {alone:.3f} | {both:.3f} |"


def show_clicks(trials: int) -> Iterator[str]:
    """One line for each kind of traffic and number of users."""
    yield "| sessions of a user | lead | users | called preferred | at any look |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for name, traffic in (
        ("one", Traffic(1, 0.0)),
        ("five that agree", Traffic(5, 1.0)),
        ("five on their own", Traffic(5, 0.0)),
        ("five that agree", Traffic(5, 1.0, lead=0.2)),
    ):
        for users in (30, 75, 200, 1_000):
            last, ever = called(traffic, users, trials)
            yield f"| {name} | {traffic.lead:g} | {users:,} | {last:.1%} | {ever:.1%} |"


SHOWN: dict[str, Callable[[int], Iterator[str]]] = {
    "coverage": show_coverage,
    "power": show_power,
    "plans": show_plans,
    "traffic": show_traffic,
    "series": show_series,
    "short": show_short,
    "blocks": show_blocks,
    "races": show_races,
    "latency": verdicts,
    "alike": show_alike,
    "judges": show_judges,
    "clicks": show_clicks,
    "logs": show_logs,
}


def main() -> None:
    """Print the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", choices=[*SHOWN, "all"])
    parser.add_argument("--trials", type=int, default=2_000)
    asked = parser.parse_args()
    for name, show in SHOWN.items():
        if asked.which in (name, "all"):
            for line in show(asked.trials):
                print(line, flush=True)  # noqa: T201  the output
            print()  # noqa: T201


if __name__ == "__main__":
    main()
