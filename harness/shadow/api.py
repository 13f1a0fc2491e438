"""The log of a live comparison, read whole, for a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from harness.agreement import ComparisonTally
from harness.api.comparison import Shown
from harness.core.errors import EvidenceError
from harness.core.run import Status
from harness.core.scores import Estimate
from harness.report.doc import Block, Text
from harness.shadow import page as shadow_page
from harness.shadow import words as shadow_words
from harness.shadow.divergences import Suppressions
from harness.shadow.log import Follower
from harness.shadow.page import Both, side_by_side
from harness.shadow.record import Divergence, Observation, SideObservation
from harness.shadow.settings import read_bounds, read_suppressions
from harness.shadow.summary import Alarm, AlarmBounds, LogState, Summary

if TYPE_CHECKING:
    import pandas as pd

    from harness.api.drawing import Drawing


LISTED = 10
"""Diverging queries in the table that a log shows of itself; ``worst`` gives more."""
QUERY = 80


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sides(Shown):
    """Diverging queries with both rankings, the worst first."""

    queries: tuple[Both, ...]

    def __repr__(self) -> str:
        said = (f"{one.text}, {one.trace.register}, {one.about}" for one in self.queries)
        return "\n".join(said) or "nothing"

    def blocks(self) -> Iterable[Block]:
        """Return both rankings of each query."""
        shown = [one.shown() for one in self.queries]
        return shown or [Text("Nothing diverged.")]


class Kept(Summary):
    """A summary that also keeps every attempt."""

    def __init__(self, bounds: AlarmBounds) -> None:
        super().__init__(bounds)
        self.observations: list[Observation] = []
        self.divergences: dict[tuple[str, int], Divergence] = {}

    def see(self, seen: Observation) -> None:
        """Add one attempt."""
        super().see(seen)
        self.observations.append(seen)

    def tell(self, divergence: Divergence) -> None:
        """Add a diverging pair."""
        super().tell(divergence)
        self.divergences[divergence.writer, divergence.number] = divergence


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Watched(Shown):
    """The state of a log when it was read; its table starts with the denominators."""

    kept: Kept
    found: LogState
    """The diverging queries, checked against the suppression list of accepted ones."""

    @property
    def tally(self) -> ComparisonTally:
        """Request accounting: attempted = compared + errored + skipped + shed."""
        return self.kept.tally

    @property
    def missing(self) -> int:
        """Numbered attempts that are missing from the log; they are in no denominator."""
        return self.kept.missing

    @property
    def estimates(self) -> Mapping[str, Estimate | None]:
        """Current estimates by name; None before the first pair.

        ``overlap``, ``failures``, ``slow`` and ``ratio`` (median of candidate / control time), each
        with a confidence sequence, valid at every look.
        """
        return {name: track.now for name, track in self.kept.tracks.items()}

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """Current state of every alarm."""
        return self.kept.alarms

    @property
    def raised(self) -> tuple[Alarm, ...]:
        """Alarms that are raised now."""
        return self.found.raised

    @property
    def early(self) -> bool:
        """Whether nothing was compared yet, or an alarm has too few attempts."""
        return self.found.early

    def worst(self, count: int) -> Sides:
        """Return the first ``count`` diverging queries, those not accepted first."""
        return Sides(side_by_side(self.found.traces[:count], self.kept.divergences))

    def frame(self) -> pd.DataFrame:
        """Return a pandas frame with a row for each attempt, by time, unrounded.

        ``at`` is in UTC; times are in nanoseconds, and missing where an arm ran no query;
        ``jaccard`` and ``rbo`` are NaN where the two were not compared.
        """
        import pandas as pd

        frame = pd.DataFrame(
            [_row(one) for one in self.kept.observations],
            columns=[*ATTEMPT, "jaccard", "rbo", *TIMES],
        )
        kinds = {"number": "int64", "jaccard": "float64", "rbo": "float64"}
        kinds |= dict.fromkeys(TIMES, "Int64")
        return frame.astype(kinds).assign(at=pd.to_datetime(frame["at"], utc=True))

    def __repr__(self) -> str:
        of = self.tally
        return (
            f"{shadow_words.headline(self.found)}\n"
            f"attempted {of.attempted:,} = compared {of.compared:,}"
            f" + errored {of.errored:,} + skipped {of.skipped:,} + shed {of.shed:,};"
            f" lost beside: {self.missing:,}"
        )

    def blocks(self) -> Iterable[Block]:
        """Return the headline, and the tables that are not empty."""
        return shadow_words.overview(self.found, LISTED, text=QUERY, narrow=False)


ATTEMPT = ("number", "writer", "at", "query", "slices", "outcome", "reason")
TIMES = ("control_ns", "candidate_ns")


def _row(seen: Observation) -> tuple[object, ...]:
    about = seen.number, seen.writer, seen.at, seen.query, ", ".join(seen.slices)
    ended = seen.outcome.value, seen.reason, seen.jaccard, seen.rbo
    return (*about, *ended, _time(seen.control), _time(seen.candidate))


def _time(side: SideObservation | None) -> int | None:
    return side.elapsed_ns if side and side.status is not Status.NOT_ASKED else None


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
    ``harness shadow watch``.

    Raises:
        BadFile: a folder has no log, or a line is not a record.
        BadPolicy: the bounds or the suppression list are missing or invalid.
        EvidenceError: two folders have the same log.
    """
    kept = Kept(read_bounds(Path(bounds)))
    suppressions = read_suppressions(Path(accepted)) if accepted else Suppressions()
    kept.read(Follower([Path(one) for one in (folder, *more)]))
    day = today or datetime.now(UTC).date()
    return Watched(kept, LogState(kept, suppressions, kept.traces(suppressions, day)))


def draw_sequences(log: Watched) -> Drawing:
    """Draw each estimate of a live comparison with its interval, over the pairs seen.

    Raises:
        EvidenceError: the log has no pair yet.
    """
    shown = shadow_page.drawn({name: track.points for name, track in log.kept.tracks.items()})
    if not shown:
        raise EvidenceError("nothing was compared yet, so there is nothing to draw")
    from harness.api.drawing import Drawing

    paint = partial(shadow_page.paint, shown)
    return Drawing(shadow_page.SIZE, paint, shadow_page.say(shown))
