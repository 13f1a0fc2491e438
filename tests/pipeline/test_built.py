"""What a run notes of its indexes, and that it leaves nothing beside its notes."""

from __future__ import annotations

from pathlib import Path

from harness.pipeline.layout import Layout
from harness.pipeline.oneshot import Built
from harness_engines import registry
from tests.make.toy import Toy


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


def test_an_index_that_a_failing_disk_left_more_in_is_built_again(
    measured: Toy, tmp_path: Path
) -> None:
    """It was taken for built, and then refused, however often the command was run again."""
    project = measured.copied(tmp_path / "project")
    arm = registry.load("fts5", project.cache)
    Built(project.layout).note(arm)
    assert Built(project.layout).has(arm)
    (project.layout.index("fts5") / ".lock").touch()
    assert not Built(project.layout).has(arm)
