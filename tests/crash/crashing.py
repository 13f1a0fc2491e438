"""Crash a command at a call, and see what is left of it: the client of ``server``."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from tests.crash.server import Attempt

HERE = Path(__file__).parent


class Ended(NamedTuple):
    """What a command came to."""

    code: int
    """Minus the signal where it was killed."""
    out: str
    err: str
    calls: tuple[str, ...]
    """Names and paths of what was counted."""


@dataclass(frozen=True)
class Crashing:
    """A server, and a folder in which each command finds the same project."""

    server: subprocess.Popen[str]
    said: Path
    root: Path
    """Where commands are run."""

    def attempt(self, found: Attempt) -> Ended:
        assert self.server.stdin
        assert self.server.stdout
        self.server.stdin.write(json.dumps(asdict(found)) + "\n")
        self.server.stdin.flush()
        code = int(self.server.stdout.readline())
        out, err, log = (
            self.said.with_name(f"{self.said.name}.{end}").read_text()
            for end in ("out", "err", "log")
        )
        return Ended(code, out, err, tuple(log.splitlines()))

    def put_back(self, template: Path) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(template, self.root)


@contextmanager
def serving(folder: Path) -> Iterator[Crashing]:
    """Compile what is preloaded, and start the server; ``folder`` is empty."""
    library, said = folder / "interpose.so", folder / "said"
    compiler = shutil.which("cc") or "cc"
    source = str(HERE / "interpose.c")
    build = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), source, "-ldl"]
    subprocess.run(build, check=True)
    env = {**os.environ, "LD_PRELOAD": str(library), "OPENBLAS_NUM_THREADS": "1"}
    server = subprocess.Popen(
        [sys.executable, HERE / "server.py", said],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Crashing(server, said, folder / "project")
    finally:
        server.communicate(timeout=60)


def everything(root: Path, *, left_out: Sequence[str] = ()) -> dict[str, str]:
    """Digest of each file, but for those below ``left_out`` and what is left over."""
    found = {path.relative_to(root): path for path in sorted(root.rglob("*")) if path.is_file()}
    return {
        name.as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in found.items()
        if not (name.as_posix().startswith(tuple(left_out)) or any(map(_hidden, name.parts)))
    }


def left_over(root: Path) -> list[str]:
    """Name what only a change that is under way may have beside it."""
    found = (path.relative_to(root) for path in root.rglob(".*") if _hidden(path.name))
    return sorted(path.as_posix() for path in found)


def _hidden(name: str) -> bool:
    return name.startswith(".") and name.endswith((".partial", ".lock", ".journal"))


def synced(calls: Sequence[str], path: Path) -> bool:
    """Tell whether the last replacement of ``path`` is on the disk, by the order of calls.

    A file, or the last file of a folder, is waited for after it was written and before it gets its
    name, and the folder around it after that.
    """
    renamed = max(at for at, call in enumerate(calls) if call == f"rename {path}")
    waited = [at for at, call in enumerate(calls) if call.startswith("fsync ")]
    own = [at for at in waited if calls[at].endswith(f"/{path.name}") and at < renamed]
    wrote = [at for at, call in enumerate(calls) if call.startswith("write ")]
    late = [at for at in wrote if own and own[-1] < at < renamed and calls[at].endswith(path.name)]
    folder = [at for at in waited if calls[at] == f"fsync {path.parent}" and at > renamed]
    return bool(own and folder and not late)
