"""Damage to files, a disk that is full, a process that is killed, secrets that leak."""

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from textwrap import dedent

import pyarrow as pa

import harness
from harness.corpus.runs import table_of


def overwrite(path: Path, content: bytes | bytearray) -> None:
    """Replace a file's content; whoever has the old file open keeps it whole."""
    path.unlink()
    path.write_bytes(content)


def flip(path: Path, at: int = -1) -> None:
    """Alter one byte."""
    raw = bytearray(path.read_bytes())
    raw[at] ^= 0xFF
    overwrite(path, raw)


def cut(path: Path, by: int = 7) -> None:
    """Take the last bytes away."""
    overwrite(path, path.read_bytes()[:-by])


def run_sql(path: Path, *statements: str) -> None:
    """Do something to a database behind its owner's back."""
    with closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            db.execute(statement)


@contextmanager
def little_room(most: int) -> Iterator[None]:
    """Make no file of this process have more than ``most`` bytes."""
    before, compiled = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # Python leaves a file that was cut off for a module
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = compiled


HEAD = "import os, signal, sys, time\nfrom pathlib import Path\n"


def started(code: str, *, cwd: Path | None = None) -> subprocess.Popen[str]:
    """Start ``code`` with what it needs to find the harness."""
    env = {**os.environ, "PYTHONPATH": str(Path(harness.__path__[0]).parent)}
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + dedent(code)],
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def killed(code: str) -> str:
    """Run ``code`` that kills itself, and give what it printed before."""
    process = started(code)
    said, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL
    return said


PLANTED = "planted-7f3a9c51e8"
NAMES = (
    "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "HF_TOKEN", "OPENAI_API_KEY", "DATABASE_URL",
    "HTTPS_PROXY", "PIP_INDEX_URL", "SSH_AUTH_SOCK", "NETRC", "USER", "HOSTNAME",
)  # fmt: skip


def holding(root: Path) -> list[str]:
    """Name the files that hold what was planted, also where a table packs it."""
    found = []
    for path in sorted(one for one in root.rglob("*") if one.is_file()):
        packed = path.suffix == ".parquet"
        text = str(table_of(path, pa.schema([])).to_pylist()) if packed else ""
        if PLANTED.encode() in path.read_bytes() or PLANTED in text:
            found.append(path.relative_to(root).as_posix())
    return found
