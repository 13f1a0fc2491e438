"""Where the files of one data set lie."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from harness.core.errors import BadFile
from harness.core.names import checked

HOUR_S = 3600.0


def drop_older(folder: Path, hours: float) -> None:
    """Remove the files in ``folder`` that were written more than so many hours ago."""
    for part in folder.glob("*"):
        if time.time() - part.stat().st_mtime > hours * HOUR_S:
            part.unlink()


MADE_WITH, FILES = "arm.sha256", "files.json"
"""In the folder of an index: which arm it was built by, and the digests of the other files."""
NOTES = frozenset({MADE_WITH, FILES})
STATED = frozenset({"manifest.json", "ids.json", "postgres.json"})
"""Files of an index in which an engine describes itself; one that runs elsewhere has no others."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders of one data set."""

    root: Path
    """What is the same from day to day, and tracked: below ``build/``."""
    today: Path
    """What rests on a clock, and is not: below ``perf/``."""
    cache: Path
    """What is rebuilt at will: below ``.cache/``."""
    kept_log: Path | None = None
    """A copy of the log that was kept (``harness history add``); None where none can be."""
    shared_log: Path | None = None
    """Log of the data set that outlives this folder; None where its own log is the only one."""

    @property
    def experiments(self) -> Path:
        """Log of every gate and race on these data, and what each was judged on."""
        return self.today / "experiments"

    @property
    def log(self) -> Path:
        """File of that log."""
        return self.experiments / "log.jsonl"

    @property
    def log_link(self) -> Path:
        """Link from a one-shot run to the log that its data set has."""
        return self.experiments / "shared.jsonl"

    @property
    def data(self) -> Path:
        """Documents, queries and judgements, checked and in one format."""
        return self.root / "data"

    @property
    def manifests(self) -> Path:
        """Folder of the manifests of all arms."""
        return self.root / "manifests"

    @property
    def tunings(self) -> Path:
        """Folder of the tuning records of those arms that have one."""
        return self.root / "tunings"

    @property
    def runs(self) -> Path:
        """Folder of the runs of all arms, with their receipts."""
        return self.root / "runs"

    @property
    def replays(self) -> Path:
        """Folder of when the runs were made."""
        return self.today / "replayed"

    def index(self, arm: str) -> Path:
        """Folder of the arm's index: a cache that is rebuilt at will and never tracked."""
        return self.cache / "index" / _arm(arm)

    def manifest(self, arm: str) -> Path:
        """Manifest: what the arm's index is made from: what stage ``index`` hands on."""
        return self.manifests / f"{_arm(arm)}.json"

    def tuning(self, arm: str) -> Path:
        """Record of how the arm's settings were searched for; absent where its file names none."""
        return self.tunings / f"{_arm(arm)}.json"

    def run(self, arm: str) -> Path:
        """Run of the arm: what it showed."""
        return self.runs / f"{_arm(arm)}.parquet"

    def again(self, arm: str) -> Path:
        """Run of the arm when it was opened and asked a second time."""
        return self.runs / f"{_arm(arm)}.again.parquet"

    def run_receipt(self, arm: str) -> Path:
        """Receipt of the arm's two runs."""
        return self.runs / f"{_arm(arm)}.receipt.json"

    def replayed(self, arm: str) -> Path:
        """When the arm's run was made: what the run itself, equal from day to day, cannot say."""
        return self.replays / f"{_arm(arm)}.json"

    def parts(self, arm: str) -> Path:
        """Parts of a replay that is under way; gone when it is done."""
        return self.cache / "parts" / _arm(arm)

    @property
    def score_parts(self) -> Path:
        """Scores of single arms while stage ``score`` is under way; gone when it is done."""
        return self.cache / "scores"

    @property
    def per_query(self) -> Path:
        """Every measure of every arm for every query."""
        return self.root / "scores" / "per_query.parquet"

    @property
    def scores(self) -> Path:
        """Means with intervals by arm and measure."""
        return self.root / "scores" / "scores.json"

    @property
    def means_plot(self) -> Path:
        """Means alone, a row an arm and a column a measure, to be drawn by DVC."""
        return self.root / "scores" / "means.csv"

    @property
    def slices(self) -> Path:
        """Means with intervals by slice, arm and measure."""
        return self.root / "scores" / "slices.json"

    @property
    def score_receipt(self) -> Path:
        """Receipt of the scores."""
        return self.root / "scores" / "receipt.json"

    @property
    def agreement(self) -> Path:
        """Agreement of control and candidate, and of control with itself, for every query."""
        return self.root / "compare" / "agreement.parquet"

    @property
    def classes(self) -> Path:
        """How each query's two rankings differ."""
        return self.root / "compare" / "classes.parquet"

    @property
    def differences(self) -> Path:
        """Paired differences of means with intervals, by control and candidate."""
        return self.root / "compare" / "differences.json"

    @property
    def compare_receipt(self) -> Path:
        """Receipt of the comparisons."""
        return self.root / "compare" / "receipt.json"

    @property
    def times(self) -> Path:
        """The race's times. They differ from day to day and are never tracked."""
        return self.today / "times.parquet"

    @property
    def race_parts(self) -> Path:
        """Folder of the processes of a race that is under way; gone when it is done."""
        return self.cache / "race"

    @property
    def race_receipt(self) -> Path:
        """What was raced: the same from day to day, so it can be tracked."""
        return self.root / "race.json"

    @property
    def decision(self) -> Path:
        """The decision with all its evidence, times among it."""
        return self.today / "decision.json"

    @property
    def decision_receipt(self) -> Path:
        """Receipt of the decision."""
        return self.today / "receipt.json"

    @property
    def signature(self) -> Path:
        """Signature of that receipt; absent where it is unsigned."""
        return self.today / "receipt.json.sig"

    @property
    def findings(self) -> Path:
        """The decision without what rests on a clock: the same from day to day."""
        return self.root / "findings.json"

    @property
    def junit(self) -> Path:
        """The decision as a test report."""
        return self.today / "junit.xml"


def _arm(name: str) -> str:
    """Give the name of an arm; whatever it came from, no path is made of anything else."""
    return checked("an arm", name)


def left_by_run(out: Path) -> Layout:
    """Say where the evidence of a ``harness run`` into ``out`` lies.

    Raises:
        BadFile: there is none.
    """
    work = out / "work"
    found = sorted(path for path in (work / "build").glob("*") if path.is_dir())
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise BadFile(
            work / "build",
            f"holds the evidence of {names}, where one data set is meant",
            "Give the folder that was --out of one harness run",
        )
    layout = Layout(found[0], work / "perf", work / "cache")
    beyond = layout.log_link.resolve() if layout.log_link.is_symlink() else None
    return replace(layout, shared_log=beyond) if beyond and beyond.is_file() else layout
