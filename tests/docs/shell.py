"""Types a command in a folder: ``harness`` and scripts in this process, all else in bash."""

from __future__ import annotations

import io
import os
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from harness.cli import main
from tests.docs.pages import COMMAND

LONGEST_S = 60
NOT_OURS = ("GITHUB_", "SEARCH_ENGINE", "SHADOW_LOG")
"""Variables by which a command would do something else, or write elsewhere."""


class Said(NamedTuple):
    """What a command gave back."""

    code: int
    text: str


@dataclass(frozen=True)
class Shell:
    """Where commands are typed."""

    folder: Path

    def type(self, line: str, keys: str = "") -> Said:
        """Run one line of a page; ``keys`` is what is typed while it runs."""
        words = shlex.split(line, comments=True)
        if " ".join(words[:2]) == COMMAND and words[2] == "harness":
            return self._here(["harness", *words[3:]], main, keys)
        if " ".join(words[:3]) == f"{COMMAND} python" and words[3].endswith(".py"):
            script = words[3]
            return self._here(words[3:], lambda: runpy.run_path(script, run_name="__main__"), keys)
        with _quiet(self.folder, words, keys) as _:
            done = subprocess.run(
                ["bash", "-c", line],
                input=keys,
                capture_output=True,
                text=True,
                timeout=LONGEST_S,
                check=False,
            )
        return Said(done.returncode, done.stdout + done.stderr)

    def harness(self, *words: str) -> None:
        """Run a command that must be done."""
        said = self.type(shlex.join([*COMMAND.split(), "harness", *words]))
        if said.code:
            raise RuntimeError(f"harness {shlex.join(words)}: {said.code}\n{said.text}")

    def _here(self, words: Sequence[str], run: object, keys: str) -> Said:
        with _quiet(self.folder, words, keys) as shown:
            try:
                run()  # type: ignore[operator]
                code = 0
            except SystemExit as left:
                code = left.code if isinstance(left.code, int) else int(left.code is not None)
        return Said(code, shown.getvalue())


@contextmanager
def _quiet(folder: Path, words: Sequence[str], keys: str) -> Iterator[io.StringIO]:
    """Be in the folder, with these words on the command line, and catch what is shown."""
    shown = io.StringIO()
    kept = {key: value for key, value in os.environ.items() if not key.startswith(NOT_OURS)}
    with ExitStack() as stack:
        stack.enter_context(chdir(folder))
        stack.enter_context(mock.patch.dict(os.environ, kept, clear=True))
        stack.enter_context(mock.patch.object(sys, "argv", list(words)))
        stack.enter_context(mock.patch.object(sys, "stdin", io.StringIO(keys)))
        stack.enter_context(redirect_stdout(shown))
        stack.enter_context(redirect_stderr(shown))
        yield shown
