"""``policy/shadow.toml``: every key is needed, and each becomes what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import BadPolicy
from harness.shadow.comparison import Shadowed, ShadowLog
from harness.shadow.files import read_settings
from harness.shadow.limits import Settings
from harness.shadow.log import Between
from tests.make.shadow.comparisons import drained
from tests.shadow.arms import Arm, arm
from tests.source import ROOT

FILE = ROOT / "policy" / "shadow.toml"
TEXT = FILE.read_text(encoding="utf-8")
KEYS = [line.split("=")[0].strip() for line in TEXT.splitlines() if "=" in line and line[0] != "#"]


def changed(tmp_path: Path, old: str, new: str) -> Path:
    assert old in TEXT
    path = tmp_path / "shadow.toml"
    path.write_text(TEXT.replace(old, new, 1), encoding="utf-8")
    return path


@pytest.mark.parametrize("key", KEYS)
def test_nothing_has_a_default(tmp_path: Path, key: str) -> None:
    line = next(one for one in TEXT.splitlines() if one.startswith(f"{key} "))
    with pytest.raises(BadPolicy, match=f"{key}: is missing") as raised:
        read_settings(changed(tmp_path, line, ""))
    assert raised.value.line is not None


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("rate = 1000000", "rate = 1000001", "sampling.rate"),
        ("queue = 64", "queue = -1", "limits.queue"),
        ("persistence = 0.9", "persistence = 1.0", "recording.persistence"),
        ("in_flight = 1", "in_flight = 0", "limits.in_flight"),
        ("seed = 20261122", "seeds = 1", "sampling.seeds: unknown key"),
        ("hang_ms = 3000.0", "hang_ms = 1.0", "hang_ms 1.0 must not lie below"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(BadPolicy, match=says):
        read_settings(changed(tmp_path, old, new))


def test_a_comparison_is_made_of_it(tmp_path: Path) -> None:
    given = Settings.model_validate({
        **read_settings(FILE).model_dump(),
        "sampling": {"rate": 500_000, "seed": 3},
    })
    with ShadowLog(tmp_path, given).compared(arm(), between=Between("old", "new")) as made:
        for _ in range(6):
            Shadowed(Arm(), made).search("ab", 10)
        found = drained(made)
    assert found.tally.compared == 3
    assert {one.k for one in found.observations} == {10}
