"""``scratch``: private temporary folders, and none left behind for good."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.core.files import REMEDY, place, scratch, write_text, written_in
from tests.make.room import little_room
from tests.source import ROOT

KILLED = """
import os, signal
from harness.core.files import scratch
with scratch() as folder:
    (folder / "letter").write_text("private")
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


STRANGER = 65534
"""Number of a user who owns nothing."""


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


def test_a_folder_that_a_mask_closed_to_its_user_is_opened_again() -> None:
    """After one command under such a mask every later one was refused until it was removed."""
    before = os.umask(0o777)
    try:
        assert place().stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)


def test_what_a_mask_closes_leaves_nothing(tmp_path: Path) -> None:
    """Hidden folders stayed in the project for good, one for each try."""
    tmp_path.chmod(0o777)
    child = os.fork()
    if not child:
        os.chdir(tmp_path)
        if not os.getuid():
            os.setuid(STRANGER)
        os.umask(0o777)
        with suppress(PermissionError), written_in(Path()):
            os._exit(1)
        os._exit(len([*Path().iterdir()]))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_where_no_folder_takes_temporary_files_the_message_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr("harness.core.files.gettempdir", none)
    with pytest.raises(HarnessError, match=r"\['/tmp'\]\). Free some .* or set TMPDIR"):
        place()


def test_a_disk_without_room_for_temporary_files_is_named_by_their_folder(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="temporary files cannot be written there") as said:
        write_much()
    assert str(said.value).startswith(f"{tmp_path}/harness-{os.getuid()}: ")
    assert str(said.value).endswith(REMEDY)
    assert not [*place().iterdir()]


def write_much() -> None:
    with little_room(1_000), scratch() as folder:
        (folder / "file").write_bytes(bytes(2_000))


def test_what_is_refused_elsewhere_keeps_its_name(tmp_path: Path) -> None:
    def write() -> None:
        with little_room(1_000), scratch():
            write_text(tmp_path / "lasting", "x" * 2_000)

    with pytest.raises(OSError, match="too large") as said:
        write()
    assert said.value.filename == str(tmp_path / "lasting")
