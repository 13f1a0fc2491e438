"""Files that no program of ours wrote are no part of a folder."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from harness.core.folders import is_stray


@pytest.mark.parametrize(
    "name",
    [
        ".DS_Store", "deep/er/.DS_Store", "._run.py", ".run.py.swp", ".run.py.swo", "run.py~",
        ".#run.py", "#run.py#", ".ipynb_checkpoints/x.py", "__pycache__/x.pyc", "Thumbs.db",
    ],
)  # fmt: skip
def test_what_desktops_and_editors_leave_is_no_part_of_a_folder(name: str) -> None:
    assert is_stray(PurePath(name))


@pytest.mark.parametrize(
    "name",
    ["run.py", "index.db-journal", "index.db-wal", ".lock", "a/.gitignore", "x.swp.py", "DS_Store"],
)
def test_what_may_be_of_an_engine_or_of_ours_is(name: str) -> None:
    assert not is_stray(PurePath(name))
