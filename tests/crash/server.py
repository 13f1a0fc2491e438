"""A process that has loaded the harness, and forks for each command that is to be crashed.

It is run with ``interpose.c`` preloaded, reads an ``Attempt`` as a line of JSON, and answers with
its exit code: minus the signal where it was killed. The clock and the user's name stand
still, so that the same command leaves the same bytes.
"""

import ctypes
import importlib
import json
import os
import pkgutil
import sys
import tempfile
import traceback
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

NOW = datetime.now(UTC).replace(microsecond=0)
PACKAGES = (
    "harness.cli", "harness.pipeline", "harness.corpus", "harness.report",
    "harness.shadow",
)  # fmt: skip
KILL = 0


@dataclass(frozen=True)
class Attempt:
    """A command, and the call at which it is to be crashed."""

    folder: str
    """Where it is run, and below which calls are counted if nothing else is said."""
    words: list[str]
    typed: str = ""
    """What is piped in."""
    at: int = 0
    """Which call, from 1; 0 for none."""
    how: int = KILL
    """The errno that the call fails with, or ``KILL``."""
    for_good: bool = False
    """Whether later calls fail too."""
    temporary: str = ""
    """Its TMPDIR, below which calls are counted then."""
    now: str = NOW.isoformat()
    """What its clock says."""


def _prepared() -> None:
    """Import and build what commands would, each for itself: no data, and no file below a project.

    Libraries import pandas where it is there, when they are first used.
    """
    for name in PACKAGES:
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            importlib.import_module(found.name)
    importlib.import_module("pandas")
    from harness.cli import parser
    from harness.report.html import environment

    parser()
    templates = environment()
    for template in templates.list_templates():
        templates.get_template(template)


def _run(attempt: Attempt, log: int) -> int:
    from harness.cli import main

    os.chdir(attempt.folder)
    if attempt.temporary:
        os.environ["TMPDIR"], tempfile.tempdir = attempt.temporary, None
        tempfile.gettempdir()
    sys.argv = ["harness", *attempt.words]
    arm = ctypes.CDLL(None).crash_arm
    arm.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int, ctypes.c_int, ctypes.c_int]
    now = datetime.fromisoformat(attempt.now)
    with (
        mock.patch("harness.migrate.commands.now", return_value=now),
        mock.patch("harness.migrate.commands.by", return_value="operator"),
    ):
        under = attempt.temporary or attempt.folder
        arm(under.encode(), attempt.at, attempt.how, attempt.for_good, log)
        try:
            main()
        except SystemExit as left:
            return left.code if isinstance(left.code, int) else int(left.code is not None)
        except BaseException:  # noqa: BLE001  as the interpreter would
            traceback.print_exc()
            return 1
        finally:
            arm(b"", 0, 0, 0, -1)
            sys.stdout.flush()
            sys.stderr.flush()
    return 0


def _forked(attempt: Attempt, said: str) -> int:
    """Run a command; what it prints and calls goes to ``said`` with .out, .err and .log."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    Path(f"{said}.in").write_text(attempt.typed, encoding="utf-8")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    os.dup2(os.open(f"{said}.in", os.O_RDONLY), 0)
    for stream, end in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{said}.{end}", flags), stream)
    log = os.open(f"{said}.log", flags | os.O_APPEND)
    os._exit(_run(attempt, log))


def _serve(said: str) -> None:
    _prepared()
    for line in sys.stdin:
        sys.stdout.write(f"{_forked(Attempt(**json.loads(line)), said)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    _serve(sys.argv[1])
