"""``scratch``: private temporary folders, and none left behind for good."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.core.durable.scratch import place, scratch
from harness.core.errors import HarnessError
from tests.source import ROOT

KILLED = """
import os, signal
from harness.core.durable.scratch import scratch
with scratch() as folder:
    (folder / "letter").write_text("private")
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def _beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_a_folder_is_empty_private_and_removed() -> None:
    with scratch() as one, scratch() as other:
        assert one != other
        assert not [*one.iterdir(), *other.iterdir()]
        assert not place().stat().st_mode & 0o077
        (one / "file").write_text("kept while the block runs")
    assert not [*place().iterdir()]


def test_what_a_killed_process_left_goes_and_what_a_living_one_uses_stays(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = Path(done.stdout.strip())
    assert (left / "letter").read_text() == "private"
    with scratch() as living:
        assert not left.parent.exists()
        with scratch():
            assert living.exists()


def test_a_folder_that_others_may_read_is_refused(tmp_path: Path) -> None:
    taken = tmp_path / f"harness-{os.getuid()}"
    taken.mkdir(mode=0o755)
    with pytest.raises(HarnessError, match="is not a folder that only you can read"):
        place()
    taken.rmdir()
    taken.symlink_to(tmp_path)
    with pytest.raises(HarnessError, match="Remove it, or set TMPDIR"):
        place()
