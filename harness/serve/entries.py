"""What the front page lists: reports with their verdicts, other pages, and pools to be judged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.errors import BadFile, HarnessError
from harness.core.formats import json_file, moment_of
from harness.core.reading import Malformed
from harness.corpus import pool as pools
from harness.report.decision.decided import from_json
from harness.report.page.cards import Tone, answer, counts, tone
from harness.serve.shelf import PAGES, Sheet, Shelf

REPORT, DECISION, LIVE = "index.html", "decision.json", "shadow.json"
REMEMBERED = 256
"""Decisions that are kept read while their files stay as they are."""
COMPARED = "No policy was named: the arms are only compared."


class Step(NamedTuple):
    """One step of a migration in a line."""

    name: str
    control: str
    candidate: str
    outcome: str
    tone: Tone
    answer: str
    counts: str
    blocking: tuple[str, ...]


class Decided(NamedTuple):
    """What was decided of one data set."""

    dataset: str
    policy: str
    decided_at: str
    expires_at: str
    """Empty where the policy lets evidence live for ever."""
    expired: bool
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One folder with a page in it."""

    key: str
    signature: str
    """Other whenever one of its files changed."""
    changed_at: str
    """When its newest file was written, in UTC."""
    sheets: tuple[Sheet, ...]
    """Pages first, in their order."""
    decided: tuple[Decided, ...]
    said: str
    """What else there is to say, a headline or why no verdict can be shown; may be empty."""


class Progress(NamedTuple):
    """One pool, and how far it is judged."""

    key: str
    path: Path
    judged: int
    of: int
    problem: str
    """Why it cannot be judged; empty where it can."""


def entries(shelf: Shelf, now: datetime) -> tuple[Entry, ...]:
    """List the folders that hold a page, the newest first.

    A verdict is read from ``decision.json`` beside ``index.html`` and compared with its own
    findings. A verdict that does not fit them is not shown.
    """
    by_folder = groupby(sorted(shelf.sheets.values(), key=_place), key=lambda one: one.folder)
    found = [(key, tuple(group)) for key, group in by_folder]
    made = [_entry(key, sheets, now) for key, sheets in found if sheets[0].name in PAGES]
    return tuple(sorted(made, key=lambda one: one.changed_at, reverse=True))


def progress(shelf: Shelf) -> tuple[Progress, ...]:
    """List the pools, those with open pairs first."""
    found = [_progress(sheet) for sheet in shelf.pools.values()]
    return tuple(sorted(found, key=lambda one: (not one.problem and one.judged == one.of, one.key)))


def _place(sheet: Sheet) -> tuple[str, int, str]:
    pages = [*PAGES]
    at = pages.index(sheet.name) if sheet.name in PAGES else len(pages)
    return sheet.folder, at, sheet.name


def _entry(key: str, sheets: tuple[Sheet, ...], now: datetime) -> Entry:
    by_name = {sheet.name: sheet for sheet in sheets}
    decided: tuple[Decided, ...] = ()
    said = ""
    try:
        if REPORT in by_name and DECISION in by_name:
            decided = _decided(by_name[DECISION], now)
        elif REPORT in by_name:
            said = _headline(by_name[LIVE]) if LIVE in by_name else COMPARED
    except BadFile as exc:
        said = f"No verdict can be shown. {by_name[exc.path.name].key}: {exc.problem}."
    newest = max(sheet.changed_ns for sheet in sheets)
    return Entry(
        key=key,
        signature=" ".join(sheet.signature for sheet in sheets),
        changed_at=datetime.fromtimestamp(newest // 1_000_000_000, UTC).isoformat(),
        sheets=sheets,
        decided=decided,
        said=said,
    )


def _decided(sheet: Sheet, now: datetime) -> tuple[Decided, ...]:
    """Say what was decided, and what of it no longer counts.

    Raises:
        BadFile: the file is no decision, or says what its findings do not give.
    """
    return tuple(
        one._replace(expired=bool(one.expires_at) and _passed(sheet, one.expires_at, now))
        for one in _read(sheet.path, sheet.signature)
    )


def _passed(sheet: Sheet, expires_at: str, now: datetime) -> bool:
    try:
        return moment_of(expires_at) < now
    except Malformed as exc:
        problem = f"{expires_at!r} is not a time with its zone"
        raise BadFile(sheet.path, problem, "Run: harness report") from exc


@lru_cache(REMEMBERED)
def _read(path: Path, signature: str) -> tuple[Decided, ...]:  # noqa: ARG001  a key
    value = _json(path)
    steps: dict[str, list[Step]] = {}
    for dataset, decision in from_json(value, path):
        step = Step(
            name=decision.step,
            control=decision.control,
            candidate=decision.candidate,
            outcome=decision.outcome.value,
            tone=tone(decision),
            answer=answer(decision),
            counts=counts(decision),
            blocking=tuple(finding.gate for finding in decision.blocking),
        )
        steps.setdefault(dataset, []).append(step)
    return tuple(_dataset(one, steps.get(one["dataset"], ())) for one in value["datasets"])


def _dataset(value: dict[str, Any], steps: Iterable[Step]) -> Decided:
    """Take a data set from a decision that fits its schema."""
    policy, made = value["policy"], value["provenance"]
    return Decided(
        dataset=value["dataset"],
        policy=f"{policy['name']} {policy['version']}" if policy else "",
        decided_at=made["decided_at"],
        expires_at=made["expires_at"] or "",
        expired=False,
        steps=tuple(steps),
    )


def _headline(sheet: Sheet) -> str:
    found = _json(sheet.path)
    said = found.get("headline") if isinstance(found, dict) else None
    return said if isinstance(said, str) else ""


def _json(path: Path) -> Any:  # noqa: ANN401  whatever a file holds
    try:
        return json_file(path)
    except (OSError, ValueError, RecursionError) as exc:
        raise BadFile(path, "cannot be read as JSON", "Run: harness report") from exc


def _progress(sheet: Sheet) -> Progress:
    try:
        found = pools.read(sheet.path)
    except HarnessError as exc:
        return Progress(sheet.key, sheet.path, 0, 0, str(exc))
    return Progress(sheet.key, sheet.path, len(found.judgements), len(found.pairs), "")
