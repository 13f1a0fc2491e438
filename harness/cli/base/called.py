"""Commands in messages and help, as the reader can type them.

In the code a command is written ``harness NAME`` or, where only a clone can run it, ``python3
run.py NAME``. What is printed names it as this process was called; ``run.py`` says how in a
variable of the environment. In an installed environment the command is ``harness``, or its path
where the environment is not on ``PATH``.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from shutil import which

CALLED = "HARNESS_CALLED"
"""Variable that ``run.py`` sets: how a person called it, such as ``python3 run.py``."""
COMMAND = "harness"
INSTALLS = re.compile(r"(?<![\w./-])(?<!-m )(?<!run\.py )pip install(?= [\w\"-])")
IN_A_CLONE = re.compile(r"python3 run\.py (?:harness )?")
_NAMES: set[str] = set()
"""Commands of the application."""


def called() -> str:
    """Give the command line of the harness as it was called, without options."""
    by = os.environ.get(CALLED, "")
    return f"{by} {COMMAND}" if by else shlex.join(_typed())


def called_from_anywhere() -> str:
    """Give the same for another folder: paths are absolute."""
    python, _, script = os.environ.get(CALLED, "").partition(" ")
    if script:
        return f"{python} {shlex.quote(str(Path(script).resolve()))} {COMMAND}"
    program, *options = _typed()
    whole = str(Path(program).absolute()) if os.sep in program else program
    return shlex.join([whole, *options])


def _pip() -> str:
    """Give the command that installs a package where this process runs."""
    if by := os.environ.get(CALLED, ""):
        return f"{by} pip install"
    if _typed() == [COMMAND]:
        return "pip install"
    return shlex.join([sys.executable, "-m", "pip", "install"])


def _typed() -> list[str]:
    """Give the words that start this environment's harness where the reader stands."""
    own, on_path = Path(sys.executable).with_name(COMMAND), which(COMMAND)
    if on_path is not None and Path(on_path).absolute() == own:
        return [COMMAND]
    if sys.orig_argv[1:3] == ["-m", COMMAND]:
        return [sys.orig_argv[0], "-m", COMMAND]
    if Path(sys.argv[0]).name == COMMAND:
        return [sys.argv[0]]
    return [COMMAND]


def as_called(text: str) -> str:
    """Rewrite each command of the harness in a text.

    A noun is left alone: "what a ``harness run`` left".
    """
    plain = IN_A_CLONE.sub(f"{COMMAND} ", text)
    return INSTALLS.sub(
        lambda _: _pip(), _commands(frozenset(_NAMES)).sub(lambda _: called(), plain)
    )


def introduce(names: Iterable[str]) -> None:
    """Tell which words are commands: the application does so when it is put together."""
    _NAMES.update(names)


@cache
def _commands(names: frozenset[str]) -> re.Pattern[str]:
    """Match the program's name before one of ``names``; a noun is left alone."""
    either = "|".join(map(re.escape, sorted(names))) or "(?!)"
    noun = r"(?<!\ba )(?<!\ba `)(?<!\bthe )(?<!\bthe `)(?<!run\.py )(?<!-m )"
    return re.compile(rf"{noun}(?<![\w./-]){COMMAND}(?= (?:{either})\b)")
