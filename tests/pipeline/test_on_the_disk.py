"""Whatever is acknowledged is on the disk by then: the file, and its name in the folder.

The crash tests see this of the commands that a run tries; here each writer is seen by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.agreement import Class
from harness.corpus import judgements
from harness.corpus.judgements import Label, Pair, Pool
from harness.migrate import ledger
from harness.migrate import moves as migrate
from harness.report import trends
from harness.shadow.divergences import Accepted
from harness.shadow.settings import accept
from tests.make.decisions import POLICY, day
from tests.report.test_trends import entry

PAIR = Pair(query_id="q", doc_id="d", query="", title="", snippet="", narrows=0.1, scale=(0, 1))


def begun(folder: Path) -> None:
    migrate.begin(folder, POLICY, "fts5", now=day(1, 8), by="me")


def accepted(folder: Path) -> None:
    one = Accepted.of("why", "Ada", date(2031, 6, 1), kind=Class.TIE_ORDER)
    accept(folder / "accepted.toml", one, today=date(2031, 5, 1))


def judged(folder: Path) -> None:
    judgements.write_grades(folder / "pool.qrels", Pool((PAIR,), (1,)))


def labelled(folder: Path) -> None:
    one = Label(query_id="q", doc_id="d", grade=1, kind="person", by="me")
    judgements.write_labels(folder / "labels.jsonl", [one])


def switched(folder: Path) -> None:
    ledger.write(folder, "fts5", why="a test")


def decided(folder: Path) -> None:
    trends.add(folder / "toy.jsonl", entry(1))


WRITERS: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "a migration": (begun, ("ledger.json", "switch.env")),
    "a switch": (switched, ("switch.env",)),
    "a pool": (judged, ("pool.qrels",)),
    "labels": (labelled, ("labels.jsonl",)),
    "a history": (decided, ("toy.jsonl",)),
    "accepted divergences": (accepted, ("accepted.toml",)),
}


class Waits(NamedTuple):
    """What was waited for, in order: names of files and folders."""

    names: list[str]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    found, wait = Waits([]), os.fsync

    def fsync(opened: int) -> None:
        found.names.append(Path(f"/proc/self/fd/{opened}").readlink().name)
        wait(opened)

    monkeypatch.setattr(os, "fsync", fsync)
    return found


@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_acknowledged_is_on_the_disk(tmp_path: Path, waits: Waits, writer: str) -> None:
    write, files = WRITERS[writer]
    write(tmp_path)
    for file in files:
        assert (tmp_path / file).is_file()
        at = waits.names.index(file)
        assert tmp_path.name in waits.names[at + 1 :]
