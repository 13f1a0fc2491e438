"""What a run notes of its indexes, and that it leaves nothing beside its notes."""

from __future__ import annotations

from pathlib import Path

from harness.stages.built import Built
from harness.stages.layout import Layout


def test_a_run_that_is_done_leaves_nothing_of_one_that_was_killed(tmp_path: Path) -> None:
    """It writes no note where all indexes were there, so no writer had swept."""
    layout = Layout(tmp_path / "build", tmp_path / "perf", tmp_path / "cache")
    Built(layout).forget()
    assert not layout.cache.exists()
    left = layout.cache / ".0123456789abcdef.partial"
    left.mkdir(parents=True)
    (left / ".lock").touch()
    (layout.cache / "built.json").write_text("{}")
    Built(layout).forget()
    assert [*layout.cache.iterdir()] == []
