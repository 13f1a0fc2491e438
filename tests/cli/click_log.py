"""A log of mixed lists of one query, and clicks that the candidate gets."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from harness.clicks.credit import Click, ClickLog, ShownList

ARMS = ("fts5", "tantivy")
AT = datetime(2026, 1, 2, tzinfo=UTC)


def write(folder: Path, query: str, lists: int = 40, user: str = "u{}") -> None:
    """Write the log; every second list is turned around, and each candidate's document clicked."""
    folder.mkdir()
    log = ClickLog(folder)
    for at in range(lists):
        documents = ("d00", "d01") if at % 2 else ("d01", "d00")
        teams = (at % 2, 1 - at % 2)
        log.add(ShownList(f"l{at}", AT, query, ARMS, documents, teams, user=user.format(at)))
        log.add(Click(f"l{at}", "d00"))
    log.close()
