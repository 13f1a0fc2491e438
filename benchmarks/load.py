"""What an open loop sees of a stall and a closed loop does not, on this machine: a Markdown table.

    python3 run.py python benchmarks/load.py --seconds 20

A service that answers in 0.1 ms of sleep, and stops for 100 ms at the beginning of every second, is
asked by one process at 200 questions a second and in a closed loop, in turn. An arrival that comes
u after the stall began waits 100 ms - u and for those before it; one in a hundred arrives before
u = 10 ms, so the p99 is 90 ms and what ten milliseconds of queue take. The same service without
stalls stands beside: what is left there is the machine's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.core.engine import Answer, Manifest, Searcher
from harness.core.records import Query
from harness.core.run import Row, Status
from harness.replay.load.arrivals import NS_PER_S, Mix, poisson
from harness.replay.load.loop import Plan
from harness.replay.load.trial import Trial, summed
from harness.replay.load.worker_pool import WorkerPool, run_pool
from harness.replay.machine import machine
from harness.replay.race import shown

RATE, SERVICE_S, STALL_S, EVERY_S, SEED = 200.0, 1e-4, 0.1, 1.0, 20_261_122
MADE = Manifest("stalling", "1", 1, "none", "none")
NS_PER_MS = 1e6
LATE_MS = 0.01 * EVERY_S * 1000
ANALYTIC_MS = STALL_S * 1000 - LATE_MS + (RATE * LATE_MS / 1000 + 1) * SERVICE_S * 1000


@dataclass(frozen=True)
class Stalling:
    """Answers with nothing, after its service time; in a stall, after its end."""

    stall_s: float
    manifest: Manifest = MADE

    def search(self, text: str, k: int) -> Answer:
        del text, k
        into = time.perf_counter() % EVERY_S
        time.sleep(max(0.0, self.stall_s - into) + SERVICE_S)
        return Answer((), MADE.fingerprint)


@dataclass(frozen=True)
class Opens:
    """Opens the service in whatever process it is."""

    stall_s: float

    @contextmanager
    def __call__(self) -> Iterator[Searcher]:
        yield Stalling(self.stall_s)


def tried(stall_s: float, seconds: float, *, closed: bool) -> Trial:
    """Run one trial."""
    queries = (Query("q", "anything"),)
    arrivals = poisson(Mix(queries, {}), RATE, seconds, (SEED,))
    plan = Plan(
        queries=queries,
        picks=tuple(arrivals.picks.tolist()),
        offsets_ns=None if closed else tuple(arrivals.offsets_ns.tolist()),
        seconds=seconds,
        k=1,
        time_limit_ns=NS_PER_S * 60,
        expected={"q": shown(Row("q", Status.ANSWERED, (), MADE.fingerprint), 1)},
        cold=0,
        warm=10,
    )
    parts = run_pool(Opens(stall_s), plan, WorkerPool(1, 1))
    return summed(plan, arrivals.classes, parts, budgets_ns=(), confidence=0.95)


def main() -> None:
    """Run the four trials and print them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, required=True)
    seconds = parser.parse_args().seconds
    say(f"{machine()}; {seconds:g} s a trial, {RATE:g} questions a second\n")
    header = ("service", "loop", "answers", "p50 ms", "p99 ms", "expected p99 ms", "lag p99 ms")
    say(f"| {' | '.join(header)} |")
    say("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for name, stall_s in (("stops 100 ms every second", STALL_S), ("never stops", 0.0)):
        for closed in (False, True):
            trial = tried(stall_s, seconds, closed=closed)
            p50, p99 = (trial.overall.percentile(percent) or 0 for percent in (50.0, 99.0))
            expected = f"{ANALYTIC_MS:.1f}" if stall_s and not closed else ""
            say(
                f"| {name} | {'closed' if closed else 'open'} | {trial.overall.count:,} |"
                f" {p50 / NS_PER_MS:.2f} | {p99 / NS_PER_MS:.2f} | {expected} |"
                f" {'' if closed else f'{trial.lag_ns / NS_PER_MS:.2f}'} |"
            )


def say(line: str) -> None:
    """Print a line of the table."""
    print(line, flush=True)  # noqa: T201  a command that prints a table


if __name__ == "__main__":
    main()
