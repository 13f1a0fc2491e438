"""A live comparison over a file of queries; a log replayed and reported."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from functools import partial
from itertools import chain, cycle, islice
from pathlib import Path
from time import sleep

import numpy as np

from harness.core.engine import Searcher
from harness.core.errors import DatasetError, EvidenceError
from harness.core.files import write_json, write_text
from harness.core.progress import progress
from harness.core.records import Query
from harness.core.scores import Estimate
from harness.corpus.prepared import Prepared
from harness.pipeline import index
from harness.pipeline.layout import Layout
from harness.pipeline.receipts import check_corpus, read_manifest
from harness.replay.drive import observe
from harness.report import html
from harness.shadow import log
from harness.shadow.comparison import ComparisonCounts, Shadowed, ShadowLog
from harness.shadow.log import Between
from harness.shadow.page import document, side_by_side, to_json
from harness.shadow.pair import clean
from harness.shadow.record import Divergence, query_key
from harness.shadow.settings import NS_PER_MS, read_bounds, read_suppressions
from harness.shadow.summary import ARMS, LogState, Summary
from harness.stats.times import order_interval
from harness_engines import registry as arms

MINUTE_S = 60.0
NAP_S = 0.0002
RUN_DRAIN_S = 600.0
"""How long an attempt may take to be written down."""


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
    depths: Mapping[Query, int] | None = None,
) -> ComparisonCounts:
    """Ask the first arm ``count`` queries, from the first one again after the last.

    Each requests ``k`` hits, or as many as ``depths`` names. The next one waits while the candidate
    has too many before it.
    """
    control, candidate = pair
    if control == candidate:
        raise EvidenceError(f"{control} would be compared with itself; name two different arms")
    if not queries:
        raise DatasetError("the query set is empty; name a file that holds some")
    # no one is served meanwhile, so the candidate may have all of each minute
    whole = {"budget_s": 2 * MINUTE_S * log.settings.limits.in_flight}
    limits, depth = log.settings.limits.model_copy(update=whole), depths or {}
    slices_of = {query_key(clean(one.text), one.params): one.slices for one in queries}
    late_ns = round(limits.late_ms * NS_PER_MS)
    with opened(layout, candidate, cache):
        opens = partial(opened, layout, candidate, cache)
    with (
        opened(layout, control, cache) as searcher,
        ShadowLog(log.folder, log.settings.model_copy(update={"limits": limits})).compared(
            opens,
            between=Between(*pair),
            slices=lambda text, params: slices_of.get(query_key(clean(text), params), ()),
        ) as comparison,
        progress("asking", count) as advance,
    ):
        shadowed = Shadowed(searcher, comparison)
        for query in islice(cycle(queries), count):
            while comparison.gate.inside >= comparison.gate.most and not comparison.gate.off:
                sleep(NAP_S)
            observe(shadowed, query, depth.get(query, k), late_ns)
            advance(1)
        if not comparison.drain(RUN_DRAIN_S):
            hint = "what waited is skipped. Run fewer queries"
            raise EvidenceError(f"{log.folder}: not all was written in {RUN_DRAIN_S:g} s; {hint}")
        comparison.check_written()
        return comparison.counts


def diverging(folder: Path) -> dict[Query, int]:
    """Return what diverged in a log, each query once with its depth, the most frequent first."""
    found: dict[str, list[Divergence]] = {}
    for one in log.read_logs(folder).divergences:
        found.setdefault(f"{query_key(one.text, one.params)}@{one.k}", []).append(one)
    most = sorted(found.items(), key=lambda item: -len(item[1]))
    latest = {name: same[-1] for name, same in most}
    return {Query(name, of.text, of.slices, params=of.params): of.k for name, of in latest.items()}


@contextmanager
def opened(layout: Layout, name: str, cache: Path) -> Iterator[Searcher]:
    """Open an arm that is the one that its manifest describes."""
    arm = arms.load(name, cache)
    check_corpus(layout, arm.name, read_manifest(layout, arm.name), Prepared.open(layout.data))
    with index.opened(layout, arm) as searcher:
        yield searcher


def log_state(folders: Sequence[Path], bounds: Path, suppressions: Path, today: date) -> LogState:
    """Return what logs say on the day ``today`` (UTC)."""
    summary, register = Summary(read_bounds(bounds)), read_suppressions(suppressions)
    summary.read(log.all_records(folders))
    named = [folder / log.FILE for folder in folders]
    between = {log.BETWEEN.read(file) for file in named if file.exists()}
    return LogState(
        summary,
        register,
        summary.traces(register, today),
        between.pop() if len(between) == 1 else Between(),
    )


PERCENTS = (50, 90, 95, 99)
PAGE, JSON = "index.html", "shadow.json"


def shadow_report(
    found: LogState,
    folders: Sequence[Path],
    out: Path,
    *,
    today: date,
    top: int,
    commands: Sequence[str],
) -> None:
    """Write ``index.html`` and ``shadow.json`` into ``out``; ``top`` queries are side by side."""
    confidence = found.summary.bounds.watch.confidence
    times: dict[str, dict[str, Estimate | None]] = {}
    for arm in ARMS:
        taken = found.summary.elapsed_ns(arm).reshape(-1, 1)
        times[arm] = {
            f"p{of}": order_interval(taken, of, confidence=confidence) if len(taken) else None
            for of in PERCENTS
        }
    diverged = chain.from_iterable(log.records(folder, Divergence) for folder in folders)
    sides = side_by_side(found.traces[:top], diverged)
    write_text(out / PAGE, html.to_page(document(found, sides, times, today, commands)))
    write_json(out / JSON, to_json(found, today=today, times=times))
