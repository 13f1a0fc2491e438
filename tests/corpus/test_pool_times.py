"""Times of grades are read whole, or the line that is none is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.core.errors import BadFile
from harness.corpus import pool_times

ROW = {"at": "2026-01-02T03:04:05+00:00", "query_id": "q", "doc_id": "d", "grade": 1}


def kept(pool: Path, *times: str) -> Path:
    lines = (json.dumps({**ROW, "at": at}) + "\n" for at in times)
    pool_times.beside(pool).write_text("".join(lines))
    return pool


def test_the_earliest_comes_first(tmp_path: Path) -> None:
    pool = kept(tmp_path / "a.pool", str(ROW["at"]), "2026-01-02T04:04:05+02:00")
    assert [given.at.isoformat() for given in pool_times.read(pool)] == [
        "2026-01-02T04:04:05+02:00",
        ROW["at"],
    ]


@pytest.mark.parametrize(
    "at", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-01-02T03:04:05", "x"]
)
def test_a_time_that_cannot_be_compared_is_named_by_its_line(tmp_path: Path, at: str) -> None:
    """Beside one with a zone, a time without one was an unforeseen failure, and so was year 0."""
    pool = kept(tmp_path / "a.pool", str(ROW["at"]), at)
    with pytest.raises(BadFile, match="not the time of a grade") as caught:
        pool_times.read(pool)
    assert caught.value.line == 2
