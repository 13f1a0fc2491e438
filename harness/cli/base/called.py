"""Commands in messages and help, as the reader can type them.

In the code a command is written ``harness NAME`` or, where only a clone can run it, ``python3
run.py NAME``. What is printed names it as this process was called: ``run.py`` says how in a
variable of the environment; in an installed environment the command is ``harness``.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

CALLED = "HARNESS_CALLED"
"""Variable that ``run.py`` sets: how a person called it, such as ``python3 run.py``."""
COMMAND = "harness"
IN_A_CLONE = re.compile(r"python3 run\.py (?:harness )?")


def called() -> str:
    """Give the command line of the harness as it was called, without options."""
    by = os.environ.get(CALLED, "")
    return f"{by} {COMMAND}" if by else COMMAND


def called_from_anywhere() -> str:
    """Give the same for another folder: the path of ``run.py`` is absolute."""
    python, _, script = os.environ.get(CALLED, "").partition(" ")
    return f"{python} {Path(script).resolve()} {COMMAND}" if script else COMMAND


def as_called(text: str) -> str:
    """Rewrite each command of the harness in a text.

    A noun is left alone: "what a ``harness run`` left".
    """
    plain = IN_A_CLONE.sub(f"{COMMAND} ", text)
    return _commands().sub(lambda _: called(), plain)


@cache
def _commands() -> re.Pattern[str]:
    from harness.cli import application

    app = application()
    names = [one.name or getattr(one.callback, "__name__", "") for one in app.registered_commands]
    names += [group.name or "" for group in app.registered_groups]
    either = "|".join(sorted(re.escape(name.replace("_", "-")) for name in names if name))
    noun = r"(?<!\ba )(?<!\ba `)(?<!\bthe )(?<!\bthe `)(?<!run\.py )"
    return re.compile(rf"{noun}(?<![\w./-]){COMMAND}(?= (?:{either})\b)")
