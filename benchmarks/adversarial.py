"""Gates and policies where an adversary hides the losses: the tables of docs/statistics.md.

    python3 run.py python benchmarks/adversarial.py all
    python3 run.py python benchmarks/adversarial.py gates --trials 2000

Every number is a share of seeded trials; the suite runs the same functions with fewer of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from benchmarks import simulated_sizes as sizes
from benchmarks.adversaries import ALIKE, UNLIKE
from benchmarks.simulated_bounds import MOST, WAYS, most_overstated, needed, worst, wrong
from benchmarks.simulated_gates import GATES, QUERIES, Wrong, at_bound, power
from benchmarks.simulated_slices import losing, sliced
from harness.stats.bounded import SHORT

ALLOWED = 0.035
"""The level, 2.5 %, and one in a hundred for what the trials leave open."""
LEVELS = (0.25, 0.05, 0.025, 0.005, 0.0025, 0.0005, 5e-7)
FEW = 20


def show_bounds(trials: int) -> Iterator[str]:
    """One line for each bound: queries that pass an equal candidate, and its worst families."""
    yield "| bound | 2 % move | 10 % | 30 % | 60 % | false PASS, 75 | 200 | 1,000 | family |"
    yield "| --- |" + " ---: |" * 7 + " --- |"
    for way in WAYS:
        counts = (needed(way, moved, trials // 5) for moved in (0.02, 0.1, 0.3, 0.6))
        each = [f"over {MOST:,}" if count is None else f"{count:,}" for count in counts]
        rates = [wrong(way, queries, trials) for queries in (75, 200, 1_000)]
        each += [f"{rate:.1%}" for rate, _ in rates]
        yield f"| {way} | {' | '.join(each)} | {max(rates)[1]} |"


def show_worst(trials: int) -> Iterator[str]:
    """One line for each number of queries and of kinds of values: the worst that was found."""
    yield "| queries | kinds of values | tries | false low end, worst | values (chances) |"
    yield "| ---: | ---: | ---: | ---: | --- |"
    for queries, kinds in ((10, 3), (20, 3), (50, 3), (100, 3), (10, 4), (20, 4)):
        found = worst(queries, kinds, trials)
        pairs = zip(found.kinds, found.chances, strict=True)
        values = ", ".join(f"{value:.3f} ({chance:.3f})" for value, chance in pairs)
        yield f"| {queries} | {kinds} | {trials:,} | {found.chance:.3%} | {values} |"


def show_short(trials: int) -> Iterator[str]:
    """One line for each level: the exact one of the worst sample found."""
    yield "| level | samples | exact level, worst | over r* | values (queries) |"
    yield "| ---: | ---: | ---: | ---: | --- |"
    for level in LEVELS:
        times, kinds, counts = most_overstated(level, trials)
        pairs = zip(kinds, counts, strict=True)
        values = ", ".join(f"{value:.3f} ({count:,})" for value, count in pairs if count)
        yield f"| {level:g} | {trials:,} | {times * level:.3g} | {times * SHORT:.3f} | {values} |"


def show_sizes(trials: int) -> Iterator[str]:
    """One line for each number of queries and size of its clusters, at a true mean of -0.02."""
    yield "| queries | paraphrases of each | false PASS, each alone | clustered |"
    yield "| ---: | ---: | ---: | ---: |"
    for queries in sizes.QUERIES:
        for each in sizes.EACH:
            alone, known = (
                sizes.grouped(queries, each, trials, known=known) for known in (False, True)
            )
            yield f"| {queries} | {each} | {alone:.2%} | {known:.2%} |"
    yield ""
    yield (
        "| queries | a large cluster has | false PASS, `largest_cluster` of 0 | of that share"
        " | half of them lose | room left, 0 | that share |"
    )
    yield "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for queries in sizes.QUERIES:
        for share in sizes.SHARES:
            found = (
                sizes.sized(queries, share, trials, largest=0.0),
                sizes.sized(queries, share, trials, largest=share),
                sizes.sized(queries, share, trials, largest=share, losing=0.5),
            )
            rooms = (sizes.room(queries, largest) for largest in (0.0, share))
            cells = [*(f"{one:.2%}" for one in found), *(f"{one:.3f}" for one in rooms)]
            yield f"| {queries} | {share:.1%} | {' | '.join(cells)} |"


def show_gates(trials: int) -> Iterator[str]:
    """One line for each gate and number of queries: the worst of all families."""
    yield (
        "| gate | bound | queries | false PASS, worst | at most | family"
        " | false FAIL, worst | at most | PASS, alike | PASS, unlike |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: |"
    highest = 0.0
    for asked in GATES:
        for queries in QUERIES:
            found = list(at_bound(asked, queries, trials))
            passed = max(found, key=lambda one: one.passed.value)
            failed = max(found, key=lambda one: one.failed.value)
            highest = max(highest, *(_highest(one) for one in found))
            few = max(FEW, trials // 10)
            right = (power(asked, queries, few, moved) for moved in (ALIKE, UNLIKE))
            shares = " | ".join("" if one is None else f"{one:.1%}" for one in right)
            yield (
                f"| `{asked.rule}` | {asked.limit:g} | {queries} | {passed.passed.value:.2%} |"
                f" {passed.passed.high:.2%} | {passed.family} | {failed.failed.value:.2%} |"
                f" {failed.failed.high:.2%} | {shares} |"
            )
    yield ""
    yield f"Highest upper end of all: {highest:.2%}; allowed {ALLOWED:.1%}."


def _highest(one: Wrong) -> float:
    return max(one.passed.high, one.failed.high)


def show_slices(trials: int) -> Iterator[str]:
    """One line for each number of slices and their size; then slices that lose much."""
    yield "| slices | queries of each | margin | false PASS | false FAIL | PASS, none harmed |"
    yield "| ---: | ---: | ---: | ---: | ---: | ---: |"
    for slices, queries, margin in (
        (4, 40, 0.1), (4, 100, 0.05), (4, 400, 0.05), (19, 20, 0.2), (19, 40, 0.1), (19, 100, 0.1),
        (19, 400, 0.05),
    ):  # fmt: skip
        shares = " | ".join(f"{one:.2%}" for one in sliced(slices, queries, margin, trials // 2))
        yield f"| {slices} | {queries} | {margin} | {shares} |"
    yield ""
    yield "| queries that lose everything | queries of the slice | margin | PASS |"
    yield "| ---: | ---: | ---: | ---: |"
    for share, queries, margin in (
        (1.0, 4, 0.05), (0.2, 20, 0.05), (0.3, 20, 0.05), (0.4, 20, 0.05), (0.3, 20, 0.2),
    ):  # fmt: skip
        rate = losing(share, queries, margin, trials)
        yield f"| {share:.0%} | {queries} | {margin} | {rate:.2%} |"


SHOWN: dict[str, Callable[[int], Iterator[str]]] = {
    "bounds": show_bounds,
    "worst": show_worst,
    "short": show_short,
    "sizes": show_sizes,
    "gates": show_gates,
    "slices": show_slices,
}


def main() -> None:
    """Print the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", choices=[*SHOWN, "all"])
    parser.add_argument("--trials", type=int, default=10_000)
    asked = parser.parse_args()
    for name, show in SHOWN.items():
        if asked.which in (name, "all"):
            for line in show(asked.trials):
                print(line, flush=True)  # noqa: T201  the output
            print()  # noqa: T201


if __name__ == "__main__":
    main()
