"""Files of tests are not synced, and a file that is closed is still an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.core.files import write_text

WITHOUT = "import os; print(os.fsync.__module__)"


def test_a_test_does_not_wait_for_the_disk_but_under_all(pytestconfig: pytest.Config) -> None:
    waits = type(os.fsync).__name__ == "builtin_function_or_method"
    assert waits is bool(pytestconfig.getoption("--all"))


def test_a_file_that_is_closed_is_an_error(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        os.fsync(file)
        number = file.fileno()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fsync(number)


def test_what_is_written_is_still_there(tmp_path: Path) -> None:
    write_text(tmp_path / "file", "kept")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "kept"


def test_a_program_that_starts_anew_syncs() -> None:
    said = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "posix"
