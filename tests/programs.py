"""The command line in a process of its own, forked from one that has imported it already.

In all else it is ``subprocess.Popen``: pipes, folder, environment, signals, exit code. To import
what a server needs takes a second of a processor; ``--all`` starts Python anew.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing import reduction
from pathlib import Path
from typing import Any

import harness
from tests import forked

PYTHON = (sys.executable, "-m", "harness")
"""What the words of a command begin with."""
DEAF: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
"""What a program may be started deaf to, and what else it does: it inherits that as if started."""


class Handed:
    """A file descriptor that a process is given."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _taken, (reduction.DupFd(self.number),)


def _taken(given: Any) -> int:  # noqa: ANN401  of multiprocessing's own
    return int(given.detach())


class Program(subprocess.Popen[str]):
    """A command of the harness that runs."""

    def __init__(self, words: Sequence[str | Path], **given: Any) -> None:  # noqa: ANN401  as Popen's
        assert tuple(words[:3]) == PYTHON, words
        super().__init__([*map(str, words)], text=True, **given)

    def _execute_child(self, *given: Any) -> None:  # noqa: ANN401  the standard library's own
        self.forked: Any = None
        if not forked.forks():
            super()._execute_child(*given)  # type: ignore[misc]  # no part of what is told of it
            return
        words, folder, env, pipes = given[0], given[5], given[6], given[10:16]
        read, _, _, written, _, said = pipes
        ends = [Handed(end) if end >= 0 else None for end in (read, written, said)]
        self.forked = multiprocessing.get_context("forkserver").Process(
            target=_run,
            args=(
                words[3:],
                os.fspath(folder or Path.cwd()),
                dict(os.environ if env is None else env),
                ends,
                [one for one in DEAF if signal.getsignal(one) is signal.SIG_IGN],
            ),
        )
        self.forked.start()
        self.pid = self.forked.pid
        vars(self)["_child_created"] = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Kill what a test that failed has left, where else it would be waited for without end."""
        if kind is not None:
            self.kill()
        super().__exit__(kind, *rest)  # type: ignore[arg-type]  # as Popen's

    def _internal_poll(self, *given: Any, **more: Any) -> int | None:  # noqa: ANN401  as above
        if self.forked is None:
            return super()._internal_poll(*given, **more)  # type: ignore[misc,no-any-return]
        ended: int | None = self.forked.exitcode
        vars(self)["returncode"] = ended
        return ended

    def _wait(self, timeout: float | None) -> int:
        if self.forked is None:
            return super()._wait(timeout)  # type: ignore[misc,no-any-return]
        self.forked.join(timeout)
        if self._internal_poll() is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return self.returncode


def _run(
    words: Sequence[str],
    folder: str,
    env: Mapping[str, str],
    ends: Sequence[int | None],
    deaf: Sequence[int],
) -> None:
    """Be what ``python -m harness`` is: these words, this folder, and nothing of this process."""
    for at, end in enumerate(ends):
        if end is not None:
            os.dup2(end, at)
            os.close(end)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    sys.argv = [str(Path(harness.__path__[0]) / "__main__.py"), *words]
    for one, handler in DEAF.items():
        signal.signal(one, signal.SIG_IGN if one in deaf else handler)
    from harness.cli import main

    try:
        main()
    finally:
        vars(threading)["_shutdown"]()
        vars(atexit)["_run_exitfuncs"]()
