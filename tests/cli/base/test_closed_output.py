"""An engine that closes the output does not choose the exit code, through boundary."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.cli.exit_codes import FAILED, ended


def test_a_closed_output_is_a_failure_and_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "out").open("w", encoding="utf-8") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
    assert ended(lambda: None) == FAILED


def test_an_output_that_is_none_is_a_failure_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", 5)
    assert ended(lambda: None) == 2
    sys.stdout.flush()
