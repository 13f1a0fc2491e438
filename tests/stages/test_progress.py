"""A bar for people: nothing for machines."""

from __future__ import annotations

import pytest

from harness.stages.progress import progress


def test_a_pipe_sees_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("asking", 3) as advance:
        advance(1)
        advance(2)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_sees_how_far_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress("asking fts5", 3) as advance:
        advance(3)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "asking fts5" in shown.err
    assert "3/3" in shown.err
