"""An engine that closes the output does not choose the exit code, through boundary."""

from __future__ import annotations

import io
import sys

import pytest

from harness.cli.base.boundary import FAILED, ended


def test_a_closed_output_is_a_failure_and_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.TextIOWrapper(io.BytesIO())
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    assert ended(lambda: None) == FAILED
