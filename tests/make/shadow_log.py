"""A live comparison with limits that tests can wait for, and its log."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter_ns, sleep

from harness.agreement import Class
from harness.core.run import Status
from harness.corpus.prepared import Prepared
from harness.shadow import log
from harness.shadow.comparison import Export, LiveComparison
from harness.shadow.log import LogContents, LogWriter
from harness.shadow.pair import (
    Attempt,
    Question,
    ServedQuery,
    Slices,
    asked,
    generation_of,
    judged,
    told,
)
from harness.shadow.record import LoggedAnswer
from harness.shadow.settings import MILLION, ComparisonSettings, Limits, Sampling
from harness.shadow.worker import Open, ProcessWorker, WorkerLost
from harness_engines import registry as arms
from tests.make.toy import CANDIDATE, CONTROL, Toy

MS = 1_000_000
SECOND = 1_000 * MS
LIMITS = Limits(
    in_flight=1, queue=1_000, budget_s=60.0, late_ms=20_000.0, hang_ms=20_000.0, memory_mib=256,
)  # fmt: skip


def changed(limits: Limits, **values: float) -> Limits:
    """Change some of the limits."""
    return Limits.model_validate({**limits.model_dump(), **values})


HASTY = changed(LIMITS, late_ms=200.0, hang_ms=300.0)
"""Limits for a candidate that hangs."""


class Here(ProcessWorker):
    """A candidate that is asked where it is: nothing of it is contained but an exception."""

    def __init__(self, opens: Open) -> None:  # no process is started
        try:
            self._opened = opens()
            self._searcher = self._opened.__enter__()
        except Exception as exc:
            raise WorkerLost(f"it did not open: {told(exc)}") from exc

    def ask(self, question: Question, *, late_ns: int, hang_ns: int) -> LoggedAnswer:
        """Ask; an exit loses the candidate."""
        del hang_ns
        try:
            return asked(self._searcher, question, late_ns)
        except SystemExit as exc:
            raise WorkerLost(told(exc), Status.FAILED) from exc

    def close(self) -> None:
        """Release it."""
        self._opened.__exit__(None, None, None)


def here(opens: Open) -> Callable[[], ProcessWorker]:
    """Start the candidate where it is asked."""
    return partial(Here, opens)


def in_process(opens: Open) -> Callable[[], ProcessWorker]:
    """Start the candidate in a process."""
    return partial(ProcessWorker, opens, LIMITS)


def comparison(
    folder: Path,
    start: Callable[[], ProcessWorker],
    *,
    rate: int = MILLION,
    slices: Slices | None = None,
    limits: Limits = LIMITS,
    export: Export | None = None,
) -> LiveComparison:
    """Compare every query, unless told otherwise."""
    sampling = Sampling(rate=rate, seed=1)
    settings = ComparisonSettings(sampling=sampling, limits=limits)
    return LiveComparison(folder, start, settings, slices, export)


def drained(made: LiveComparison) -> LogContents:
    """Wait for all to be written, and read it."""
    assert made.drain(60)
    return log.read_logs(made.folder)


K = 10
MENDED = "bolo bera"
"""Both arms show the same for it; the log says that the candidate lost it all."""
PAUSE_S = 0.05
BEGAN = 1_780_000_000 * 10**9


def write(toy: Toy, folder: Path, start_ns: int = BEGAN) -> None:
    """Ask both arms every query of the toy twice, a second apart."""
    queries = Prepared.open(toy.layout.data).queries()
    slices = {query.text: query.slices for query in queries}
    with ExitStack() as stack:
        control, candidate = (
            stack.enter_context(arms.load(name, toy.cache).engine.open(toy.layout.index(name)))
            for name in (CONTROL, CANDIDATE)
        )
        ours = partial(generation_of, control)
        log = stack.enter_context(LogWriter(folder))
        pairs = []
        for number, text in enumerate([*slices, *slices, MENDED], start=1):
            start = perf_counter_ns()
            answer = control.search(text, K)
            served = ServedQuery(text, K, {}, answer, "", perf_counter_ns() - start, ours())
            side = asked(candidate, (text, K, {}), 10**10)
            side = replace(side, hits=()) if text == MENDED else side
            at = start_ns + number * 10**9
            pairs.append(Attempt(number, number, at, served, ours, side, ours()))
        found = judged(pairs, writer=log.writer, slices=lambda text, _: slices.get(text, ()))
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
