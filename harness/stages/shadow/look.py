"""Read a log as far as it is written, and compare it with the suppression list."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

from harness.report.shadow.words import Shadowed
from harness.shadow.log import between
from harness.shadow.watch.diverging import Judged
from harness.shadow.watch.follow import Follower
from harness.shadow.watch.summary import Summary
from harness.shadow.watch.suppressions import Suppressions
from harness.stages.shadow.files import read_bounds, read_suppressions


class Look:
    """Looks at logs again and again; each time only what is new is read.

    The register is read each time, so that what is accepted meanwhile counts.

    Raises:
        BadPolicy: the file of bounds is missing or wrong.
        BadFile: a folder holds no log.
    """

    def __init__(self, folders: Sequence[Path], bounds: Path, suppressions: Path) -> None:
        self._summary = Summary(read_bounds(bounds))
        self._suppressions = suppressions
        self._follower = Follower(folders)
        self._between = between.read(folders)

    def now(self, today: date) -> Shadowed:
        """Give how things stand on the day ``today`` (UTC).

        Raises:
            BadPolicy: the suppression list is wrong.
            BadFile: a line of the log is not a record.
        """
        suppressions: Suppressions = read_suppressions(self._suppressions)
        self._follower.feed(self._summary)
        traces = self._summary.diverging.traces()
        judged = Judged.of(traces, suppressions, today=today)
        return Shadowed(self._summary, judged, suppressions, self._between)
