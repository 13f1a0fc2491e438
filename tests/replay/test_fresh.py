"""Work in a process of its own: how far it is, how it fails, and how it dies."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.core.errors import EvidenceError, HarnessError, InvalidArm
from harness.replay.machine import Advance, in_fresh_process

pytestmark = pytest.mark.usefixtures("anew")


@dataclass(frozen=True)
class Noting:
    """Leaves the number of its process, and does what it is told to."""

    to: Path
    ends: str = "well"

    def __call__(self, advance: Advance) -> None:
        advance(2)
        self.to.write_text(f"{os.getpid()} {os.getppid()}")
        advance(3)
        if self.ends == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.ends == "ours":
            raise EvidenceError("nothing was measured; measure it")
        if self.ends == "theirs":
            raise ZeroDivisionError("of an engine")


@pytest.mark.slow
def test_it_is_another_process_and_tells_how_far_it_is(tmp_path: Path) -> None:
    done: list[int] = []
    in_fresh_process(Noting(tmp_path / "note"), done.append)
    own, parent = map(int, (tmp_path / "note").read_text().split())
    assert own != os.getpid() == parent
    assert done == [2, 3]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ends", "error", "said"),
    [
        ("killed", InvalidArm, "its process died with exit code -9 before it was done"),
        ("ours", HarnessError, "nothing was measured; measure it"),
        ("theirs", InvalidArm, "ZeroDivisionError: of an engine"),
    ],
)
def test_what_goes_wrong_there_is_told_here(
    tmp_path: Path, ends: str, error: type[HarnessError], said: str
) -> None:
    with pytest.raises(error, match=said):
        in_fresh_process(Noting(tmp_path / "note", ends), lambda _: None)
