"""What holds for processes of tests: forked, waiting for no disk, folders made once for all.

``--all`` starts Python anew, waits for the disk, and so sees that all of it says the same.
"""

import atexit
import fcntl
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import context, reduction
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import pytest

import harness
from harness.core.store import Artifact

T = TypeVar("T")
PYTHON = (sys.executable, "-m", "harness")
"""What the words of a command begin with."""
DEAF: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
"""What a program may be started deaf to, and what else it does: it inherits that as if started."""
WORKER = "popen-gw"
"""How the folder of a process begins that pytest-xdist started; it lies in that of the run."""
IMPORTED = (
    "harness_engines.stacks.agent_mail.arm", "harness_engines.stacks.agent_mail.mcp_tools.server",
    "harness_engines.stacks.text.fts5", "harness_engines.stacks.text.tantivy",
    "harness.serve.commands", "harness.shadow.worker", "harness.shadow.http",
    "harness.load.results", "harness.pipeline.mail", "harness.pipeline.prepare",
    "harness.pipeline.race", "harness.pipeline.replay", "harness.shadow.mcp",
)  # fmt: skip
"""What forked processes do, and the engines that most of them open."""
KNOWN = vars(context)["_concrete_contexts"]
ANEW = KNOWN["spawn"]


def fork() -> None:
    """Make ``spawn`` mean a fork of a server that has imported our modules, and no more."""
    KNOWN["spawn"] = KNOWN["forkserver"]
    multiprocessing.set_forkserver_preload(list(IMPORTED))


@contextmanager
def anew() -> Iterator[None]:
    """Start Python anew after all, for tests that look at the processes themselves."""
    with patch.dict(KNOWN, spawn=ANEW):
        yield


def no_waiting() -> None:
    """Make ``os.fsync`` look only whether the file is open, in this process and its forks.

    That a file is synced, and before what, is seen by tests that watch it (``tests/crash``).
    """

    def looked_at(fd: Any) -> None:  # noqa: ANN401  a number, or what has one
        os.fstat(fd if isinstance(fd, int) else fd.fileno())

    os.fsync = looked_at


HANDING_ON = Artifact.write
"""As the product has it; for tests of just that."""


def read_back() -> None:
    """Make what was written be read from its file, as another process reads it.

    A process that goes from stage to stage hands values on (``harness.core.store``). A test that
    writes and reads would then try neither half.
    """

    def forgetting(self: Artifact[T], path: Path, value: T, *, durable: bool = False) -> None:
        HANDING_ON(self, path, value, durable=durable)
        self._known.clear()

    Artifact.write = forgetting  # type: ignore[method-assign]


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return the folder ``name`` that all processes of this run share, made by ``make``.

    Nothing is there yet when ``make`` gets the path. Who asks while another makes it waits. What
    failed half way is made again by who asks next.
    """
    base = factory.getbasetemp()
    shared = base.parent if base.name.startswith(WORKER) else base
    folder, done = shared / "once" / name, shared / "once" / f"{name}.done"
    folder.parent.mkdir(exist_ok=True)
    with (folder.parent / f"{name}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            make(folder)
            done.touch()
    return folder


READ, WRITE = "<", "="
"""Before a path: what is read, or written with a text, between two commands."""
TYPED = """if True:
    import json, sys
    from contextlib import redirect_stderr, redirect_stdout
    from io import StringIO
    from pathlib import Path
    from harness.cli import main

    for first, *words in json.load(sys.stdin):
        said, code, sys.argv = StringIO(), 0, ["harness", first, *words]
        if first == "=":
            Path(words[0]).write_text(words[1])
        elif first == "<":
            said.write(Path(words[0]).read_text())
        else:
            with redirect_stdout(said), redirect_stderr(said):
                try:
                    main()
                except SystemExit as left:
                    code = left.code
        print(json.dumps([code, said.getvalue()]))
"""


def python(*words: str, at: Path, path: Sequence[Path], typed: str = "") -> str:
    """Start Python anew with these folders on its path; return what it printed."""
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "COLUMNS": "200"},
        cwd=at,
        input=typed,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def harness_of(
    path: Sequence[Path], *lines: Sequence[str | Path], at: Path
) -> list[tuple[int, str]]:
    """Type commands one after the other in one process, with the code that lies on ``path``.

    Return the exit code of each and what it said. To start Python anew takes a second each time.
    """
    told = json.dumps([[*map(str, line)] for line in lines])
    found = python("-c", TYPED, at=at, path=path, typed=told).splitlines()
    return [(code, said) for code, said in map(json.loads, found)]


class Handed:
    """A file descriptor that a process is given."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _taken, (reduction.DupFd(self.number),)


def _taken(given: Any) -> int:  # noqa: ANN401  of multiprocessing's own
    return int(given.detach())


class Program(subprocess.Popen[str]):
    """A command of the harness in a process of its own, forked where ``fork`` was called.

    In all else it is ``subprocess.Popen``: pipes, folder, environment, signals, exit code.
    """

    def __init__(self, words: Sequence[str | Path], **given: Any) -> None:  # noqa: ANN401  as Popen's
        assert tuple(words[:3]) == PYTHON, words
        super().__init__([*map(str, words)], text=True, **given)

    def _execute_child(self, *given: Any) -> None:  # noqa: ANN401  the standard library's own
        self.forked: Any = None
        if KNOWN["spawn"] is ANEW:
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
    from harness.cli import main

    sys.argv = [str(Path(harness.__path__[0]) / "__main__.py"), *words]
    for one, handler in DEAF.items():
        signal.signal(one, signal.SIG_IGN if one in deaf else handler)
    try:
        main()
    finally:
        vars(threading)["_shutdown"]()
        vars(atexit)["_run_exitfuncs"]()
