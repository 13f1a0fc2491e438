"""The command line, called as a person does, in this process."""

import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.cli import main
from harness.cli.exit_codes import ENDING
from tests.make.toy import Toy


class Said(NamedTuple):
    """What a command gave back."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line that says what is wrong; there may be no other, and no traceback."""
        lines = [line for line in self.err.splitlines() if not line.endswith("...")]
        assert self.code == 2, self
        assert len(lines) == 1, self.err
        assert lines[0].startswith("error: "), self.err
        return lines[0].removeprefix("error: ")


Harness = Callable[..., Said]


@pytest.fixture(autouse=True, scope="module")
def quick(read_once: None, none_drawn: None) -> None:
    """Read a model once for all commands, and write empty pictures on pages."""


@pytest.fixture(autouse=True)
def signals_given_back() -> Iterator[None]:
    """Undo the deafness of a program that was interrupted, and is about to end."""
    before = {one: signal.getsignal(one) for one in ENDING}
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


@pytest.fixture
def harness(
    project: Toy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Harness:
    """Call ``harness`` inside the folder of the project."""

    def call(*words: str | Path) -> Said:
        monkeypatch.chdir(project.root)
        monkeypatch.setattr(sys, "argv", ["harness", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        shown = capsys.readouterr()
        return Said(int(left.value.code or 0), shown.out, shown.err)

    return call


def seen(folder: Path) -> Mapping[str, bytes]:
    """Read every file below a folder; a folder is empty."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
    }
