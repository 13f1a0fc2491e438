"""A shadow log read, replayed, reported and taken in as evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path
from typing import NamedTuple

from harness.agreement import Class
from harness.core.engine import Searcher
from harness.core.errors import EvidenceError, InvalidArm
from harness.core.files import write_json, write_text
from harness.core.progress import progress
from harness.core.run import Row, Status
from harness.core.scores import Estimate
from harness.corpus.prepared import Prepared
from harness.pipeline.index import check_index
from harness.pipeline.layout import Layout
from harness.pipeline.receipts import check_corpus, check_same, read_manifest
from harness.report.rounding import estimate_for_json
from harness.shadow import log
from harness.shadow.alarms import ARMS
from harness.shadow.divergences import (
    Again,
    Judged,
    Now,
    Question,
    Standing,
    Suppressions,
    again,
    questions,
)
from harness.shadow.files import read_bounds, read_suppressions
from harness.shadow.log import Follower, records
from harness.shadow.page import to_page
from harness.shadow.record import Divergence, query_key
from harness.shadow.summary import Summary
from harness.shadow.words import Shadowed, to_json
from harness.stats.times import order_interval
from harness_engines import registry as arms


class Look:
    """Looks at logs again and again; each time only what is new is read.

    The register is read each time, so that what is accepted meanwhile counts.
    """

    def __init__(self, folders: Sequence[Path], bounds: Path, suppressions: Path) -> None:
        self._summary = Summary(read_bounds(bounds))
        self._suppressions = suppressions
        self._follower = Follower(folders)
        self._between = log.read_engines(folders)

    def now(self, today: date) -> Shadowed:
        """Return how things stand on the day ``today`` (UTC)."""
        suppressions: Suppressions = read_suppressions(self._suppressions)
        self._summary.read(self._follower)
        traces = self._summary.diverging.traces()
        judged = Judged.of(traces, suppressions, today=today)
        return Shadowed(self._summary, judged, suppressions, self._between)


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
) -> list[tuple[Again, Standing | None]]:
    """Ask both arms each query that diverged, at most ``limit`` of them.

    Returns with each what the suppression list says of how it ends now; None where it is fixed.
    """
    if control == candidate:
        raise EvidenceError(f"{control} was compared with itself; name two different arms")
    asked = questions(log.read_logs(folders[0], *folders[1:]).divergences)[:limit]
    with ExitStack() as stack:
        ours, theirs = (
            stack.enter_context(opened(layout, name, cache)) for name in (control, candidate)
        )
        advance = stack.enter_context(progress("asking again", len(asked)))
        limit_ns = round(time_limit_s * 1e9)
        found = []
        for one in again(asked, ours, theirs, time_limit_ns=limit_ns):
            found.append((one, _standing(one, suppressions, today)))
            advance(1)
    _check_answering(control, [one.control for one, _ in found], asked)
    _check_answering(candidate, [one.candidate for one, _ in found], asked)
    return found


def _check_answering(name: str, rows: Sequence[Row], asked: Sequence[Question]) -> None:
    """Refuse an engine that answers nothing: that is a failure of it, and says nothing of hits."""
    answered = any(row.status is Status.ANSWERED for row in rows)
    if not answered and any(one.latest.outcome is not Class.ERROR for one in asked):
        error = next((row.error for row in rows if row.error), "none")
        raise InvalidArm(
            f"{name}: not one of {len(rows)} queries was answered; the first error is: {error}"
        )


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


def _standing(one: Again, suppressions: Suppressions, today: date) -> Standing | None:
    if one.now is Now.FIXED:
        return None
    latest = one.question.latest
    key = query_key(latest.text, latest.params)
    return suppressions.standing(one.outcome, latest.slices, key, today=today)


PERCENTS = (50, 90, 95, 99)


class Written(NamedTuple):
    """Where the files are, and what they say."""

    page: Path
    json: Path
    found: Shadowed


def shadow_report(
    folders: Sequence[Path],
    out: Path,
    *,
    bounds: Path,
    suppressions: Path,
    today: date,
    top: int,
    commands: Sequence[str],
) -> Written:
    """Write ``index.html`` and ``shadow.json`` into ``out``; ``top`` queries are side by side."""
    found = Look(folders, bounds, suppressions).now(today)
    wanted = {(trace.writer, trace.number) for trace, _ in found.judged.standing[:top]}
    written = Written(out / "index.html", out / "shadow.json", found)
    times = _percentiles(found.summary)
    page = to_page(found, _those(folders, wanted), times, today=today, top=top, commands=commands)
    said = {
        arm: {name: estimate_for_json(value) for name, value in row.items()}
        for arm, row in times.items()
    }
    write_text(written.page, page)
    write_json(written.json, to_json(found, today=today, percentiles=said))
    return written


def _those(
    folders: Sequence[Path], wanted: set[tuple[str, int]]
) -> Mapping[tuple[str, int], Divergence]:
    """Read the divergences that are shown; the others are not kept in memory."""
    return {
        (one.writer, one.number): one
        for folder in folders
        for one in records(folder, Divergence)
        if (one.writer, one.number) in wanted
    }


def _percentiles(summary: Summary) -> Mapping[str, Mapping[str, Estimate | None]]:
    confidence = summary.bounds.watch.confidence
    found: dict[str, dict[str, Estimate | None]] = {}
    for arm in ARMS:
        times = summary.elapsed_ns(arm)
        found[arm] = {
            f"p{percent}": order_interval(times.reshape(-1, 1), percent, confidence=confidence)
            if len(times)
            else None
            for percent in PERCENTS
        }
    return found
