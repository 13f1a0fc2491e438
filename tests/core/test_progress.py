"""A bar for people, and a line now and then for a log."""

from __future__ import annotations

import pytest

from harness.core import progress as module
from harness.core.progress import progress


def test_a_pipe_sees_nothing_of_short_work(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_a_pipe_sees_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 20.0, 35.0, 50.0, 400.0, 401.0])
    monkeypatch.setattr(module, "monotonic", lambda: next(clock))
    with progress("embedding", 2_000) as advance:
        for steps in (100, 100, 200, 100, 1_500):
            advance(steps)
    assert capsys.readouterr().err.splitlines() == [
        "embedding: 200 of 2,000 (10%), about 5 min left",
        "embedding: 500 of 2,000 (25%), about 20 min left",
    ]
