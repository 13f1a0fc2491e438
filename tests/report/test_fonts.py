"""``harness.report.fonts``: pages are drawn quietly where the user has no home that takes files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.report import fonts
from tests.source import ROOT

HOMES = ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")
DRAWS = """
import os, sys
from harness.cli import main
sys.argv = ["harness", "--help"]
try:
    main()
finally:
    import harness.report.svg
    print(os.environ.get("MPLCONFIGDIR", ""))
"""


def settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **env: str) -> str:
    """Give the folder that is chosen where these variables are set."""
    for name in (*HOMES, fonts.FONTS):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TMPDIR": str(tmp_path), **env}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tempfile.tempdir", None)
    fonts.settle()
    return os.environ.get(fonts.FONTS, "")


@pytest.mark.parametrize("variable", HOMES)
def test_without_a_home_what_is_known_of_fonts_is_kept_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    kept = settled(tmp_path, monkeypatch, **{"HOME": str(tmp_path), variable: "/dev/null"})
    assert kept == str(tmp_path / f"harness-{os.getuid()}" / "matplotlib")


def test_a_home_and_a_choice_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settled(tmp_path, monkeypatch, HOME=str(tmp_path / "new")) == ""
    chosen = {"HOME": "/dev/null", fonts.FONTS: str(tmp_path / "mine")}
    assert settled(tmp_path, monkeypatch, **chosen) == str(tmp_path / "mine")


def test_a_command_settles_it_before_it_draws(tmp_path: Path) -> None:
    """It was a warning of seven lines in each command, and a second of looking for fonts."""
    kept = {name: value for name, value in os.environ.items() if name != fonts.FONTS}
    said = subprocess.run(
        [sys.executable, "-c", DRAWS],
        cwd=ROOT, env={**kept, "TMPDIR": str(tmp_path), "HOME": "/dev/null"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.stdout.splitlines()[-1].endswith("/matplotlib")
    assert "Matplotlib" not in said.stderr
