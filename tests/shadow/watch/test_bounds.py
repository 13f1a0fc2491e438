"""The file of bounds: every key is needed, and no other is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import BadPolicy
from harness.shadow.alarms import Alarms, Bounds
from harness.shadow.files import read_bounds
from tests.make.shadow.attempts import WATCH

TEXT = WATCH.read_text(encoding="utf-8")
KEYS = [line.split("=")[0].strip() for line in TEXT.splitlines() if "=" in line and line[0] != "#"]


def line_of(text: str, start: str) -> int:
    return next(n for n, line in enumerate(text.splitlines(), 1) if line.startswith(start))


@pytest.mark.parametrize("at", range(len(KEYS)))
def test_nothing_has_a_default(tmp_path: Path, at: int) -> None:
    rows = [n for n, line in enumerate(TEXT.splitlines()) if line.startswith(tuple(KEYS))]
    lines = TEXT.splitlines()
    del lines[rows[at]]
    path = tmp_path / "watch.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(BadPolicy, match=f"{KEYS[at]}: is missing. Write {KEYS[at]} = ") as raised:
        read_bounds(path)
    assert raised.value.line is not None


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("slow_ratio = 2.0", "slow_ratio = 0.5", "watch.slow_ratio"),
        ("confidence = 0.95", "confidence = 95", "watch.confidence"),
        ("max_distance = 0.20", 'max_distance = "a fifth"', "alarm.scores.max_distance"),
        ("window = 500", "window = 3", "window"),
        ("remember = 100000", "remembers = 1", "alarm.churn.remembers: unknown key"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    path = tmp_path / "watch.toml"
    path.write_text(TEXT.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(BadPolicy, match=says) as raised:
        read_bounds(path)
    assert raised.value.line == line_of(path.read_text(), new.split("=", maxsplit=1)[0])


def test_every_alarm_has_a_table() -> None:
    found = read_bounds(WATCH)
    assert isinstance(found, Bounds)
    assert list(Alarms.model_fields) == ["empty", "duplicates", "churn", "scores", "mix"]
