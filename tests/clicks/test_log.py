"""The log of lists and clicks."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.clicks.credit import FILE, Click, ClickLog, ShownList, read
from harness.core.errors import BadFile

ARMS = ("fts5", "tantivy")
AT = datetime(2026, 1, 2, tzinfo=UTC)


def shown(name: str, user: str = "s") -> ShownList:
    return ShownList(name, AT, "red “shoes”\n", ARMS, ("a", "b"), (1, 0), user=user)


def written(folder: Path, *records: ShownList | Click) -> Path:
    log = ClickLog(folder)
    for record in records:
        log.add(record)
    log.close()
    return folder


def test_what_is_added_is_read_back(tmp_path: Path) -> None:
    written(tmp_path, shown("1"), Click("1", "a"), Click("1", "a"))
    written(tmp_path, shown("2"), Click("1", "b"), Click("2", "z"), Click("3", "a"))
    found = read(tmp_path)
    assert found.shown == (shown("1"), shown("2"))
    assert found.clicked == {"1": {"a", "b"}}
    assert found.strays == 2
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"id": "2", "docu', r"clicks\.jsonl:2: not a record of clicks .* Remove the line"),
        ('{"id": 1}', r"clicks\.jsonl:2: .*Remove the line"),
        (
            '{"id": "2", "at": "2026-01-02T00:00:00", "query": "", "arms": [], "documents": []}',
            r"clicks\.jsonl:2: .*timezone",
        ),
        ("[]", r"clicks\.jsonl:2: .*Remove the line"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str, says: str) -> None:
    written(tmp_path, shown("1"))
    with (tmp_path / FILE).open("a") as out:
        out.write(line + "\n")
    with pytest.raises(BadFile, match=says):
        read(tmp_path)


def test_lists_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"clicks\.jsonl: missing file"):
        read(tmp_path)
    written(tmp_path, shown("1"), shown("1"))
    with pytest.raises(BadFile, match=r"clicks\.jsonl:2: the list 1 comes twice"):
        read(tmp_path)
    (tmp_path / FILE).unlink()
    written(tmp_path, ShownList("1", AT, "q", ARMS, ("a", "b"), (0, 2)))
    with pytest.raises(BadFile, match=r"clicks\.jsonl:1: its teams are not those"):
        read(tmp_path)
