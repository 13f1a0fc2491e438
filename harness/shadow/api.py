"""The log of a live comparison, read whole, for a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from harness.agreement import ComparisonTally
from harness.api.comparison import Shown
from harness.core.scores import Estimate
from harness.report.doc import Block, Section, Text, to_markdown
from harness.shadow.divergences import Suppressions
from harness.shadow.log import all_records
from harness.shadow.page import headline, overview, side_by_side
from harness.shadow.record import AnyRecord, Divergence, Observation
from harness.shadow.settings import read_bounds, read_suppressions
from harness.shadow.summary import Alarm, LogState, Summary

if TYPE_CHECKING:
    import pandas as pd


COLUMNS = (
    "number", "writer", "at", "query", "slices", "outcome", "reason", "jaccard", "rbo",
    "control_ns", "candidate_ns",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sides(Shown):
    """Diverging queries with both rankings, the worst first."""

    queries: tuple[Section, ...]

    def __repr__(self) -> str:
        return "\n".join(map(to_markdown, self.queries)) or "nothing"

    def blocks(self) -> Iterable[Block]:
        """Return both rankings of each query."""
        return self.queries or [Text("Nothing diverged.")]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Watched(Shown):
    """The state of a log when it was read; its table starts with the denominators."""

    found: LogState
    """The diverging queries, checked against the suppression list of accepted ones."""
    records: tuple[AnyRecord, ...]

    @property
    def tally(self) -> ComparisonTally:
        """Request accounting: attempted = compared + errored + skipped + shed."""
        return self.found.summary.tally

    @property
    def missing(self) -> int:
        """Numbered attempts that are missing from the log; they are in no denominator."""
        return self.found.summary.missing

    @property
    def estimates(self) -> Mapping[str, Estimate | None]:
        """Current estimates by name; None before the first pair.

        ``overlap``, ``failures``, ``slow`` and ``ratio`` (median of candidate / control time), each
        with a confidence sequence, valid at every look.
        """
        return self.found.summary.estimates

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """Current state of every alarm."""
        return self.found.summary.alarms

    def worst(self, count: int) -> Sides:
        """Return the first ``count`` diverging queries, those not accepted first."""
        diverged = (one for one in self.records if isinstance(one, Divergence))
        return Sides(side_by_side(self.found.traces[:count], diverged))

    def frame(self) -> pd.DataFrame:
        """Return a pandas frame with a row for each attempt, by time, unrounded.

        ``at`` is in UTC; times are in nanoseconds, and missing where an arm ran no query;
        ``jaccard`` and ``rbo`` are NaN where the two were not compared.
        """
        import pandas as pd

        rows = [
            (one.number, one.writer, one.at, one.query, ", ".join(one.slices), one.outcome.value,
             one.reason, one.jaccard, one.rbo, *(side.elapsed_ns if side else None
                                                 for side in (one.control, one.candidate)))
            for one in self.records
            if isinstance(one, Observation)
        ]  # fmt: skip
        kinds = {"number": "int64", "jaccard": "float64", "rbo": "float64"}
        kinds |= dict.fromkeys(COLUMNS[-2:], "Int64")
        frame = pd.DataFrame(rows, columns=[*COLUMNS])
        return frame.astype(kinds).assign(at=pd.to_datetime(frame["at"], utc=True))

    def __repr__(self) -> str:
        of = self.tally
        return (
            f"{headline(self.found)}\n"
            f"attempted {of.attempted:,} = compared {of.compared:,}"
            f" + errored {of.errored:,} + skipped {of.skipped:,} + shed {of.shed:,};"
            f" lost beside: {self.missing:,}"
        )

    def blocks(self) -> Iterable[Block]:
        """Return the headline, and the tables that are not empty."""
        return overview(self.found, 10)


def load_shadow_log(
    folder: str | Path,
    *more: str | Path,
    bounds: str | Path,
    accepted: str | Path | None = None,
    today: date | None = None,
) -> Watched:
    """Read the log of a live comparison, or several of different processes as one.

    ``bounds`` is a file like policy/watch.toml. ``accepted`` is a register like
    policy/accepted.toml; without it nothing is accepted. Entries are valid until their day,
    compared with ``today`` (UTC, by default now). Every attempt is kept in memory, unlike in
    ``harness shadow report``.

    Raises:
        BadFile: a folder has no log, or a line is not a record.
        BadPolicy: the bounds or the suppression list are missing or invalid.
        EvidenceError: two folders have the same log.
    """
    summary = Summary(read_bounds(Path(bounds)))
    suppressions = read_suppressions(Path(accepted)) if accepted else Suppressions()
    records = tuple(all_records([Path(one) for one in (folder, *more)]))
    summary.read(records)
    traces = summary.traces(suppressions, today or datetime.now(UTC).date())
    return Watched(LogState(summary, suppressions, traces), records)
