"""``harness.report``: pages are drawn, and quietly, where the user has no home that takes files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.source import ROOT

DRAWS = "import os, harness.report.svg; print(os.environ.get('MPLCONFIGDIR', ''))"


def drawn(tmp_path: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Import what draws, in a process of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    kept.pop("MPLCONFIGDIR", None)
    return subprocess.run(
        [sys.executable, "-c", DRAWS],
        cwd=ROOT, env={**kept, "TMPDIR": str(tmp_path), **env},
        capture_output=True, text=True, check=True,
    )  # fmt: skip


@pytest.mark.parametrize("variable", ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"])
def test_without_a_home_what_is_known_of_fonts_is_kept_elsewhere(
    tmp_path: Path, variable: str
) -> None:
    """It was a warning of seven lines in each command, and a second of looking for fonts."""
    said = drawn(tmp_path, **{"HOME": str(tmp_path), variable: "/dev/null"})
    assert said.stdout.strip() == str(tmp_path / f"harness-{os.getuid()}" / "matplotlib")
    assert "Matplotlib" not in said.stderr


def test_a_home_and_a_choice_are_left_alone(tmp_path: Path) -> None:
    assert drawn(tmp_path, HOME=str(tmp_path / "new")).stdout.strip() == ""
    chosen = str(tmp_path / "mine")
    assert drawn(tmp_path, HOME="/dev/null", MPLCONFIGDIR=chosen).stdout.strip() == chosen
