"""A live comparison over a file of queries; a log replayed and reported."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from time import perf_counter_ns, sleep
from typing import NamedTuple

import numpy as np

from harness.core.engine import Searcher
from harness.core.errors import DatasetError, EvidenceError
from harness.core.files import write_json, write_text
from harness.core.progress import progress
from harness.core.records import Query
from harness.core.scores import Estimate
from harness.corpus.prepared import Prepared
from harness.pipeline.index import check_index
from harness.pipeline.layout import Layout
from harness.pipeline.receipts import check_corpus, check_same, read_manifest
from harness.replay.drive import observe
from harness.report import html
from harness.report.rounding import estimate_for_json
from harness.shadow import log
from harness.shadow.comparison import ComparisonCounts, Shadowed, ShadowLog
from harness.shadow.divergences import Again, Now, Suppressions, SuppressionStatus, again, questions
from harness.shadow.log import Between, Follower
from harness.shadow.page import document, side_by_side
from harness.shadow.pair import clean
from harness.shadow.record import Divergence, query_key
from harness.shadow.settings import NS_PER_MS, NS_PER_S, read_bounds, read_suppressions
from harness.shadow.summary import ARMS, LogState, Summary
from harness.shadow.words import to_json
from harness.stats.times import order_interval
from harness_engines import registry as arms

MINUTE_S = 60.0
NAP_S = 0.0002
RUN_DRAIN_S = 600.0
"""How long an attempt may take to be written down."""


class Ran(NamedTuple):
    """What was run, and what it cost."""

    counts: ComparisonCounts
    elapsed_ns: int
    """From the first query to the last one written down."""
    control_ns: np.ndarray
    """Of each query, shape (queries,): with what the caller's path of the shadow adds."""
    written: bool

    @property
    def per_second(self) -> float:
        """Queries a second, with the candidate's answers and the log."""
        return len(self.control_ns) * NS_PER_S / self.elapsed_ns


def mixed(queries: Sequence[Query], seed: int) -> tuple[Query, ...]:
    """Shuffle a set's queries: one kind after the other is not like traffic."""
    order = np.random.default_rng(seed).permutation(len(queries))
    return tuple(queries[at] for at in order.tolist())


def shadow_run(
    layout: Layout,
    pair: tuple[str, str],
    cache: Path,
    log: ShadowLog,
    queries: Sequence[Query],
    *,
    count: int,
    k: int,
    per_second: float = 0.0,
) -> Ran:
    """Ask the first arm ``count`` queries, from the first one again after the last."""
    control, candidate = pair
    if control == candidate:
        raise EvidenceError(f"{control} would be compared with itself; name two different arms")
    if not queries:
        raise DatasetError("the query set is empty; name a file that holds some")
    settings = log.settings
    slices_of = {query_key(clean(one.text), one.params): one.slices for one in queries}
    if not per_second:  # no one is served meanwhile, so the candidate may have all of each minute
        whole = {"budget_s": 2 * MINUTE_S * settings.limits.in_flight}
        limits = settings.limits.model_copy(update=whole)
        settings = settings.model_copy(update={"limits": limits})
    late_ns = round(settings.limits.late_ms * NS_PER_MS)
    with opened(layout, candidate, cache):
        opens = partial(opened, layout, candidate, cache)
    with (
        opened(layout, control, cache) as searcher,
        ShadowLog(log.folder, settings).compared(
            opens,
            between=Between(*pair),
            slices=lambda text, params: slices_of.get(query_key(clean(text), params), ()),
        ) as comparison,
        progress("asking", count) as advance,
    ):
        shadowed = Shadowed(searcher, comparison)
        times = np.zeros(count, dtype=np.int64)
        start = perf_counter_ns()
        for at, query in enumerate(islice(cycle(queries), count)):
            if per_second:
                due_ns = start + round(at * NS_PER_S / per_second)
                sleep(max(due_ns - perf_counter_ns(), 0) / NS_PER_S)
            else:
                while comparison.gate.inside >= settings.limits.room and not comparison.gate.off:
                    sleep(NAP_S)
            times[at] = observe(shadowed, query, k, late_ns).elapsed_ns
            advance(1)
        written = comparison.drain(RUN_DRAIN_S)
        comparison.check_written()
        return Ran(comparison.counts, perf_counter_ns() - start, times, written)


class LogWatch:
    """Looks at logs again and again; each time only what is new is read."""

    def __init__(self, folders: Sequence[Path], bounds: Path, suppressions: Path) -> None:
        self._summary = Summary(read_bounds(bounds))
        self._suppressions = suppressions
        self._follower = Follower(folders)
        self._between = log.read_engines(folders)

    def now(self, today: date) -> LogState:
        """Return how things stand on the day ``today`` (UTC)."""
        suppressions = read_suppressions(self._suppressions)
        self._summary.read(self._follower)
        traces = self._summary.traces(suppressions, today)
        return LogState(self._summary, suppressions, traces, self._between)


def shadow_replay(
    folders: Sequence[Path],
    layout: Layout,
    control: str,
    candidate: str,
    cache: Path,
    *,
    suppressions: Suppressions,
    today: date,
    time_limit_s: float,
    limit: int | None = None,
) -> list[tuple[Again, SuppressionStatus | None]]:
    """Ask both arms each query that diverged, at most ``limit`` of them.

    What still diverges comes with what the suppression list says of it on the day ``today``.
    """
    if control == candidate:
        raise EvidenceError(f"{control} was compared with itself; name two different arms")
    asked = questions(log.read_logs(folders[0], *folders[1:]).divergences)[:limit]
    found: list[tuple[Again, SuppressionStatus | None]] = []
    with (
        opened(layout, control, cache) as ours,
        opened(layout, candidate, cache) as theirs,
        progress("asking again", len(asked)) as advance,
    ):
        for one in again(asked, ours, theirs, time_limit_ns=round(time_limit_s * NS_PER_S)):
            latest = one.question.latest
            key = query_key(latest.text, latest.params)
            said = suppressions.standing(one.outcome, latest.slices, key, today=today)
            found.append((one, None if one.now is Now.FIXED else said))
            advance(1)
    return found


@contextmanager
def opened(layout: Layout, name: str, cache: Path) -> Iterator[Searcher]:
    """Open an arm that is the one that its manifest describes."""
    arm = arms.load(name, cache)
    wanted = read_manifest(layout, arm.name)
    check_index(layout, arm)
    check_corpus(layout, arm.name, wanted, Prepared.open(layout.data))
    with arm.open(layout.index(arm.name)) as searcher:
        check_same(layout, arm.name, wanted, searcher.manifest)
        yield searcher


PERCENTS = (50, 90, 95, 99)
PAGE, JSON = "index.html", "shadow.json"


def shadow_report(
    folders: Sequence[Path],
    out: Path,
    *,
    bounds: Path,
    suppressions: Path,
    today: date,
    top: int,
    commands: Sequence[str],
) -> LogState:
    """Write ``index.html`` and ``shadow.json`` into ``out``; ``top`` queries are side by side."""
    found = LogWatch(folders, bounds, suppressions).now(today)
    shown = found.traces[:top]
    wanted = {(trace.writer, trace.number) for trace in shown}
    kept = {
        (one.writer, one.number): one
        for folder in folders
        for one in log.records(folder, Divergence)
        if (one.writer, one.number) in wanted
    }
    confidence = found.summary.bounds.watch.confidence
    times: dict[str, dict[str, Estimate | None]] = {}
    for arm in ARMS:
        taken = found.summary.elapsed_ns(arm).reshape(-1, 1)
        times[arm] = {
            f"p{of}": order_interval(taken, of, confidence=confidence) if len(taken) else None
            for of in PERCENTS
        }
    said = {
        arm: {name: estimate_for_json(value) for name, value in row.items()}
        for arm, row in times.items()
    }
    page = document(found, side_by_side(shown, kept), times, today, commands)
    write_text(out / PAGE, html.to_page(page))
    write_json(out / JSON, to_json(found, today=today, percentiles=said))
    return found
