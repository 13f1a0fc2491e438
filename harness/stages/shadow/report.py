"""Write the page and the JSON of a shadow log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

from harness.core.files import write_json, write_text
from harness.core.scores import Estimate
from harness.report.rounding import estimate_for_json
from harness.report.shadow.json_file import to_json
from harness.report.shadow.page import to_page
from harness.report.shadow.words import Shadowed
from harness.shadow.log.record import Divergence
from harness.shadow.log.streams import records
from harness.shadow.watch.alarms import ARMS
from harness.shadow.watch.summary import Summary
from harness.stages.shadow.look import Look
from harness.stats.times.quantiles import order_interval

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
    """Write ``index.html`` and ``shadow.json`` into ``out``; ``top`` queries are side by side.

    Raises:
        BadPolicy: the file of bounds or the suppression list is missing or wrong.
        BadFile: a folder holds no log, or a line of it is not a record.
    """
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
