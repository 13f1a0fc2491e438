"""Logs of live comparisons: one over the toy's arms, and one that another process writes.

The first has one divergence that was fixed.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from time import perf_counter_ns, sleep

from harness.agreement import Class
from harness.corpus.prepared import Prepared
from harness.shadow import log
from harness.shadow.log import LogWriter
from harness.shadow.pair import Attempt, Generation, ServedQuery, asked
from harness.shadow.recorder import judged
from harness_engines import registry as arms
from tests.make.toy import CANDIDATE, CONTROL, Toy

K = 10
MENDED = "bolo bera"
"""Both arms show the same for it; the log says that the candidate lost it all."""
PAUSE_S = 0.05
START = 1_780_000_000 * 10**9


def write(toy: Toy, folder: Path, start_ns: int = START) -> None:
    """Ask both arms every query of the toy twice, a second apart."""
    queries = Prepared.open(toy.layout.data).queries()
    slices = {query.text: query.slices for query in queries}
    with ExitStack() as stack:
        control, candidate = (
            stack.enter_context(arms.load(name, toy.cache).engine.open(toy.layout.index(name)))
            for name in (CONTROL, CANDIDATE)
        )
        ours, theirs = Generation(control), Generation(candidate)
        log = stack.enter_context(LogWriter(folder, rotate_bytes=20_000, sync_ns=10**12))
        pairs = []
        for number, text in enumerate([*slices, *slices, MENDED], start=1):
            start = perf_counter_ns()
            answer = control.search(text, K)
            served = ServedQuery(text, K, {}, answer, "", perf_counter_ns() - start, ours())
            side = asked(candidate, theirs, (text, K, {}), 10**10)
            side = replace(side, hits=()) if text == MENDED else side
            at = start_ns + number * 10**9
            pairs.append(Attempt(number, number, at, served, ours, side, ours()))
        found = judged(
            pairs, writer=log.writer, persistence=0.9, slices=lambda text, _: slices.get(text, ())
        )
        assert found.observations[-1].outcome is Class.SHADOW_EMPTY
        log.append(found.observations, found.divergences, found.degradations)


def written(folder: Path, attempts: int, *, within_s: float) -> log.LogContents:
    """Wait until the log has all attempts.

    Raises:
        AssertionError: they are not there in time.
    """
    for _ in range(round(within_s / PAUSE_S)):
        found = log.read_logs(folder)
        if len(found.observations) == attempts:
            return found
        sleep(PAUSE_S)
    raise AssertionError(f"{len(found.observations)} of {attempts} attempts were written")
