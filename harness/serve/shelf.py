"""Reports and pools in the folders that are served, as the front page lists them."""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import count, groupby
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.errors import BadFile, HarnessError
from harness.core.formats import json_file, moment_of
from harness.core.gate import StepDecision
from harness.corpus import judgements
from harness.report.decision import from_json

HTML, TEXT, JSON = "text/html", "text/plain", "application/json"
LOAD = "load.html"
PAGES = {
    "index.html": "report",
    "explore.html": "query by query",
    "trends.html": "over time",
    LOAD: "under load",
    "shadow.html": "live comparison",
}
"""Pages for people, in the order in which they are listed, and what they are called there."""
BESIDE = {
    "report.md": TEXT,
    "decision.json": JSON,
    "shadow.json": JSON,
    "scores.json": JSON,
    "junit.xml": TEXT,
}
"""Files beside a page, and as what they are sent: XML as text, so that no browser acts on it."""
LOADED = "work/perf"
"""Where a run keeps its load, whose page its report leads to; the one thing that is shown of it."""
DEPTH = 3
"""How far below a named folder is looked."""
TEXTS = ".jsonl"
"""How the name of the file beside a pool ends."""
HINT = (
    "Name a folder with reports, make one (harness run --out FOLDER, or the demo), or write a"
    " pool into it (harness pool)"
)


@dataclass(frozen=True, slots=True)
class Sheet:
    """One file that may be requested."""

    key: str
    """The folder's label and the path below it, with slashes."""
    path: Path
    changed_ns: int
    signature: str
    """Other whenever the file was replaced or changed."""

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def folder(self) -> str:
        """Key of the folder that it belongs to: the run's for the page of its load."""
        return self.key.rpartition("/")[0].removesuffix(f"/{LOADED}")

    @property
    def media_type(self) -> str:
        return BESIDE.get(self.name, HTML)

    def content(self) -> bytes | None:
        """Read the file; None where it is gone, or became a link that leads elsewhere."""
        try:
            return self.path.read_bytes() if self.path.resolve() == self.path else None
        except OSError:
            return None


@dataclass(frozen=True, slots=True)
class Shelf:
    """All files that may be requested at one moment, by key."""

    sheets: Mapping[str, Sheet]
    pools: Mapping[str, Sheet]


def folders(paths: Sequence[Path]) -> Mapping[str, Path]:
    """Label every folder by its name, with a number where two have one name; without links."""
    found: dict[str, Path] = {}
    for path in paths:
        root = path.resolve()
        if not root.is_dir():
            raise BadFile(path, "is not a folder", HINT)
        names = (root.name if at == 1 else f"{root.name}-{at}" for at in count(1))
        label = next(name for name in names if name not in found)
        found[label] = root
        held = look({label: root})
        if not held.pools and not any(sheet.name in PAGES for sheet in held.sheets.values()):
            raise BadFile(path, "holds no page and no pool", HINT)
    return found


def look(served: Mapping[str, Path]) -> Shelf:
    """Look what is there now. Links are left out, and so is all whose name begins with a dot."""
    sheets, pools = {}, {}
    for label, root in served.items():
        found = {sheet.key: sheet for sheet in _files(root, label)}
        for key, sheet in found.items():
            if sheet.name in PAGES or sheet.name in BESIDE:
                sheets[key] = sheet
            elif f"{key}{TEXTS}" in found:
                pools[key] = sheet
    return Shelf(sheets, pools)


def _files(within: Path, key: str, depth: int = DEPTH) -> Iterator[Sheet]:
    """Yield the files below a folder; what vanishes meanwhile is not there."""
    try:
        listed = sorted(os.scandir(within), key=lambda one: one.name)
    except OSError:
        return
    for one in listed:
        if one.name.startswith("."):
            continue
        if one.is_dir(follow_symlinks=False):
            if depth and one.name not in {"work", "runs"}:  # which a run keeps for itself
                yield from _files(Path(one.path), f"{key}/{one.name}", depth - 1)
        elif sheet := _sheet(Path(one.path), f"{key}/{one.name}"):
            yield sheet
    load = within / LOADED / LOAD
    if load.parent.resolve() == load.parent and (sheet := _sheet(load, f"{key}/{LOADED}/{LOAD}")):
        yield sheet


def _sheet(path: Path, key: str) -> Sheet | None:
    """Return a file; None where there is none, or a link, a pipe or a folder."""
    try:
        about = path.lstat()
    except OSError:
        return None
    if not stat.S_ISREG(about.st_mode):
        return None
    signature = f"{about.st_mtime_ns}-{about.st_size}-{about.st_ino}"
    return Sheet(key, path, about.st_mtime_ns, signature)


REPORT, DECISION, LIVE = "index.html", "decision.json", "shadow.json"
REMEMBERED = 256
"""Decisions that are kept read while their files stay as they are."""
COMPARED = "No policy was named: the arms are only compared."


class DatasetOutcome(NamedTuple):
    """What was decided of one data set."""

    dataset: str
    policy: str
    decided_at: str
    expires_at: str
    """Empty where the policy lets evidence live for ever."""
    expired: bool
    steps: tuple[StepDecision, ...]


@dataclass(frozen=True, slots=True)
class PageFolder:
    """One folder with a page in it."""

    key: str
    signature: str
    """Other whenever one of its files changed."""
    changed_at: str
    """When its newest file was written, in UTC."""
    sheets: tuple[Sheet, ...]
    """Pages first, in their order."""
    decided: tuple[DatasetOutcome, ...]
    said: str
    """What else there is to say, a headline or why no verdict can be shown; may be empty."""


class Progress(NamedTuple):
    """One pool, and how far it is judged."""

    key: str
    judged: int
    of: int
    problem: str
    """Why it cannot be judged; empty where it can."""


def entries(shelf: Shelf, now: datetime) -> tuple[PageFolder, ...]:
    """List the folders that hold a page, the newest first.

    A verdict is read from ``decision.json`` beside ``index.html`` and compared with its own
    findings. A verdict that does not fit them is not shown.
    """
    order = {name: at for at, name in enumerate(PAGES)}

    def place(sheet: Sheet) -> tuple[str, int, str]:
        return sheet.folder, order.get(sheet.name, len(order)), sheet.name

    by_folder = groupby(sorted(shelf.sheets.values(), key=place), key=lambda one: one.folder)
    found = [(key, tuple(group)) for key, group in by_folder]
    made = [_entry(key, sheets, now) for key, sheets in found if sheets[0].name in PAGES]
    return tuple(sorted(made, key=lambda one: one.changed_at, reverse=True))


def progress(shelf: Shelf) -> tuple[Progress, ...]:
    """List the pools, those with open pairs first."""
    found = []
    for sheet in shelf.pools.values():
        try:
            pool = judgements.read_pool(sheet.path)
            found.append(Progress(sheet.key, len(pool.judgements), len(pool.pairs), ""))
        except HarnessError as exc:
            found.append(Progress(sheet.key, 0, 0, str(exc)))
    return tuple(sorted(found, key=lambda one: (not one.problem and one.judged == one.of, one.key)))


def _entry(key: str, sheets: tuple[Sheet, ...], now: datetime) -> PageFolder:
    by_name = {sheet.name: sheet for sheet in sheets}
    decided: tuple[DatasetOutcome, ...] = ()
    said = ""
    try:
        if REPORT in by_name and DECISION in by_name:
            decided = tuple(
                one._replace(expired=bool(one.expires_at) and moment_of(one.expires_at) < now)
                for one in _read(by_name[DECISION].path, by_name[DECISION].signature)
            )
        elif REPORT in by_name:
            live = _json(by_name[LIVE].path) if LIVE in by_name else {"headline": COMPARED}
            said = str(live.get("headline", "")) if isinstance(live, dict) else ""
    except BadFile as exc:
        said = f"No verdict can be shown. {by_name[exc.path.name].key}: {exc.problem}."
    newest = max(sheet.changed_ns for sheet in sheets)
    return PageFolder(
        key=key,
        signature=" ".join(sheet.signature for sheet in sheets),
        changed_at=datetime.fromtimestamp(newest // 1_000_000_000, UTC).isoformat(),
        sheets=sheets,
        decided=decided,
        said=said,
    )


@lru_cache(REMEMBERED)
def _read(path: Path, signature: str) -> tuple[DatasetOutcome, ...]:  # noqa: ARG001  a key
    value = _json(path)
    steps: dict[str, list[StepDecision]] = {}
    for dataset, decision in from_json(value, path):
        steps.setdefault(dataset, []).append(decision)
    return tuple(
        DatasetOutcome(
            dataset=one["dataset"],
            policy=f"{of['name']} {of['version']}" if (of := one["policy"]) else "",
            decided_at=one["provenance"]["decided_at"],
            expires_at=one["provenance"]["expires_at"] or "",
            expired=False,
            steps=tuple(steps.get(one["dataset"], ())),
        )
        for one in value["datasets"]
    )


def _json(path: Path) -> Any:  # noqa: ANN401  whatever a file holds
    try:
        return json_file(path)
    except (OSError, ValueError, RecursionError) as exc:
        raise BadFile(path, "cannot be read as JSON", "Run: harness report") from exc
