"""The files of one data set: where each lies, what it holds, and what makes it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, overload

from harness.core.engine import MANIFEST
from harness.core.errors import BadFile
from harness.core.names import checked
from harness.core.store import Artifact, Json
from harness.corpus.prepared import REPEAT
from harness.corpus.runs import ARM_SCORES, CLASSES, MEANS, PAIR_SCORES, RUN, SLICE_MEANS

MADE_WITH, FILES = "arm.sha256", "files.json"
"""In the folder of an index: which arm it was built by, and the digests of the other files."""
NOTES = frozenset({MADE_WITH, FILES})
STATED = frozenset({"manifest.json", "ids.json", "postgres.json"})
"""Files of an index in which an engine describes itself; one that runs elsewhere has no others."""


def drop_older(folder: Path, hours: float) -> None:
    """Remove the files in ``folder`` that were written more than so many hours ago."""
    for part in folder.glob("*"):
        if time.time() - part.stat().st_mtime > hours * 3600.0:
            part.unlink()


T = TypeVar("T")
ROOT, TODAY, CACHE = "root", "today", "cache"


@dataclass(frozen=True)
class Declared(Generic[T]):
    """A file or folder: its path (``{arm}``) in root, today or cache, its kind and maker."""

    path: str
    about: str
    made_by: str
    kind: Artifact[T] | None = None
    place: str = ROOT

    def at(self, layout: Layout, arm: str = "") -> Path:
        """Return the path; whatever the name of an arm came from, no path leads out."""
        folder: Path = getattr(layout, self.place)
        return folder / self.path.format(arm=checked("an arm", arm) if arm else "")


class File(Declared[T]):
    """One for the data set; of a layout, its path."""

    @overload
    def __get__(self, layout: None, owner: type) -> Self: ...
    @overload
    def __get__(self, layout: Layout, owner: type) -> Path: ...
    def __get__(self, layout: Layout | None, owner: type) -> Self | Path:
        return self if layout is None else self.at(layout)


class OfArm(Declared[T]):
    """One for each arm; of a layout, what gives the path by the name of the arm."""

    @overload
    def __get__(self, layout: None, owner: type) -> Self: ...
    @overload
    def __get__(self, layout: Layout, owner: type) -> Callable[[str], Path]: ...
    def __get__(self, layout: Layout | None, owner: type) -> Self | Callable[[str], Path]:
        return self if layout is None else lambda arm: self.at(layout, checked("an arm", arm))


Plain, PlainOfArm = File[Any], OfArm[Any]


@dataclass(frozen=True, slots=True)
class ReplayDate:
    """Timestamp of a run, kept outside the run file so that runs are reproducible."""

    at: str
    run: str
    index: str | None = None
    """Digest of the index's files, as they were counted before it was queried."""


RACE_RECEIPT: Artifact[dict[str, Any]] = Json("a receipt of a race", dict[str, Any])
REPLAYED: Artifact[ReplayDate] = Json("the date of a replay", ReplayDate, keep=8)


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders of one data set, and the files that the stages leave in them."""

    root: Path
    """Below ``build/``."""
    today: Path
    """Below ``perf/``."""
    cache: Path
    """Below ``.cache/``."""
    kept_log: Path | None = None
    """A copy of the log that was kept (``harness history add``); None where none can be."""
    shared_log: Path | None = None
    """Log of the data set that outlives this folder; None where its own log is the only one."""

    data = Plain("data", "documents, queries and judgements, in one format", "stage prepare")
    index = PlainOfArm("index/{arm}", "the arm's index", "stage index", place=CACHE)
    manifests = Plain("manifests", "manifests of all arms", "stage index")
    manifest = OfArm("manifests/{arm}.json", "what the index is made from", "stage index", MANIFEST)
    tunings = Plain("tunings", "tuning records of the arms that have one", "stage index")
    tuning = PlainOfArm("tunings/{arm}.json", "how its settings were searched for", "stage index")
    parts = PlainOfArm("parts/{arm}", "a replay that is under way", "stage replay", place=CACHE)
    runs = Plain("runs", "runs of all arms, with their receipts", "stage replay")
    run = OfArm("runs/{arm}.parquet", "what the arm showed", "stage replay", RUN)
    again = OfArm("runs/{arm}.again.parquet", "its second replay", "stage replay", RUN)
    run_receipt = PlainOfArm("runs/{arm}.receipt.json", "receipt of both runs", "stage replay")
    replays = Plain("replayed", "when the runs were made", "stage replay", place=TODAY)
    replayed = OfArm("replayed/{arm}.json", "when a run was made", "stage replay", REPLAYED, TODAY)
    score_parts = Plain("scores", "scores that are under way", "stage score", place=CACHE)
    per_query = File("scores/per_query.parquet", "measures by query", "stage score", ARM_SCORES)
    scores = File("scores/scores.json", "means with intervals", "stage score", MEANS)
    slices = File("scores/slices.json", "means by slice", "stage score", SLICE_MEANS)
    score_receipt = Plain("scores/receipt.json", "receipt of the scores", "stage score")
    agreement = File("compare/agreement.parquet", "agreements", "stage compare", PAIR_SCORES)
    classes = File("compare/classes.parquet", "how two rankings differ", "stage compare", CLASSES)
    differences = File("compare/differences.json", "paired differences", "stage compare", MEANS)
    compare_receipt = Plain("compare/receipt.json", "receipt of comparisons", "stage compare")
    race_parts = Plain("race", "a race that is under way", "race", place=CACHE)
    times = Plain("times.parquet", "the race's times", "race", place=TODAY)
    race_receipt = File("race.json", "what was raced", "race", RACE_RECEIPT)
    findings = Plain("findings.json", "the decision without times", "gate")
    decision = Plain("decision.json", "the decision with its evidence", "gate", place=TODAY)
    junit = Plain("junit.xml", "the decision as a test report", "gate", place=TODAY)
    decision_receipt = Plain("receipt.json", "receipt of the decision", "gate", place=TODAY)
    experiments = Plain("experiments", "all gates and races on these data", "gate", place=TODAY)
    log = Plain("experiments/log.jsonl", "log of these experiments", "gate", place=TODAY)
    log_link = Plain("experiments/shared.jsonl", "link to a shared log", "run", place=TODAY)

    def read(self, what: Declared[T], arm: str = "") -> T:
        """Return what a file holds; a process reads it once."""
        return _kind(what).read(what.at(self, arm), self.remedy(what, arm))

    def write(self, what: Declared[T], value: T, arm: str = "") -> None:
        """Write a file as a whole; who reads it in this process is given the value."""
        _kind(what).write(what.at(self, arm), value)

    def remedy(self, what: Declared[Any], arm: str = "") -> str:
        """Name the command that makes a file anew."""
        if self.root.parent.parent.name == "work":
            return REPEAT
        of_arm = f" --arm {arm}" if arm else ""
        return f"Run: harness {what.made_by} --dataset {self.root.name}{of_arm}"


def _kind(what: Declared[T]) -> Artifact[T]:
    if what.kind is None:
        raise TypeError(f"{what.path} does not hold a single value")
    return what.kind


def left_by_run(out: Path) -> Layout:
    """Return where the evidence of a ``harness run`` into ``out`` lies."""
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
