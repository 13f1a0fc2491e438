#!/usr/bin/env python3
"""Make the project's environment once, then run a command inside it.

    python3 run.py demo             the main job: reports/index.html and a decision
    python3 run.py test             every check: ruff, mypy and the tests
    python3 run.py ANY COMMAND ...  for example: python3 run.py harness gate --help

The environment is ``.venv``, installed from ``requirements.lock`` with its hashes checked, and
stamped; while the stamp fits, nothing is installed and no network is needed.
"""

import contextlib
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
LOCK = ROOT / "requirements.lock"
STAMP = VENV / "stamp"
SHORT = {
    "demo": ["harness", "demo"],
    "test": ["python", "-m", "pytest", "-nlogical", "--dist=loadfile", "--no-loadscope-reorder"],
}


def stamp() -> str:
    """Digest of everything that the environment is made from."""
    made_from = [sys.version, str(ROOT), LOCK.read_text(), (ROOT / "pyproject.toml").read_text()]
    return hashlib.sha256("\0".join(made_from).encode()).hexdigest()


def pip(*args: str) -> int:
    """Run pip for the environment; the running Python's pip where the environment has none."""
    to = [str(PYTHON), "-m", "pip"]
    if subprocess.run([*to, "--version"], capture_output=True, check=False).returncode:
        to = [sys.executable, "-m", "pip", "--python", str(PYTHON)]
    return subprocess.run([*to, "--disable-pip-version-check", "-q", *args], check=False).returncode


def stop(said: str) -> NoReturn:
    """End without a verdict: 1 would be read as one (docs/reference.md, exit codes)."""
    print(f"run.py: {said}", file=sys.stderr)
    sys.exit(2)


def create() -> None:
    """Make an empty environment, also where Python came without ``venv``'s own pip."""
    if PYTHON.exists():
        return
    plain = [sys.executable, "-m", "venv", str(VENV)]
    if subprocess.run(plain, capture_output=True, check=False).returncode == 0:
        return
    if subprocess.run([*plain, "--clear", "--without-pip"], check=False).returncode:
        stop("no virtual environment can be made here; try: apt install python3-venv")
    has_pip = subprocess.run([sys.executable, "-m", "pip", "-V"], capture_output=True, check=False)
    if has_pip.returncode:
        stop("this Python has no pip; try: apt install python3-venv (or python3-pip)")


def index_of_pip() -> str | None:
    """Name the package index that pip is set to; uv does not read pip's settings."""
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"],
        capture_output=True,
        text=True,
        check=False,
    )
    return os.environ.get("PIP_INDEX_URL") or asked.stdout.strip() or None


def install() -> None:
    """Install the lock: uv where it can be had (quick), else pip."""
    uv_pin = re.search(r"^uv==(?:.*\\\n)+.*$", LOCK.read_text(), re.MULTILINE)
    only_uv = VENV / "uv.lock"
    only_uv.write_text(uv_pin.group() + "\n" if uv_pin else "")
    checked = ["install", "--require-hashes", "--no-deps", "-r"]
    env = dict(os.environ)
    if index := index_of_pip():
        env.setdefault("UV_DEFAULT_INDEX", index)
    uv_ready = uv_pin is not None and pip(*checked, str(only_uv)) == 0
    uv = [str(BIN / "uv"), "pip", *checked, str(LOCK), "--python", str(PYTHON), "--quiet"]
    by_uv = uv_ready and subprocess.run(uv, env=env, check=False).returncode == 0
    if not by_uv and pip(*checked, str(LOCK)):
        stop("the packages in requirements.lock could not be installed (see above)")
    if pip("install", "--no-deps", "--no-build-isolation", "--no-index", "-e", str(ROOT)):
        stop("the project itself could not be installed (see above)")


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Let one process at a time make the environment."""
    VENV.mkdir(exist_ok=True)
    with (VENV / "making").open("w") as held:
        if os.name != "nt":
            import fcntl

            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def prepare() -> None:
    """Bring the environment up to date with the lock."""
    wanted = stamp()
    if STAMP.exists() and STAMP.read_text() == wanted:
        return
    with alone():
        if STAMP.exists() and STAMP.read_text() == wanted:
            return
        print("run.py: making .venv (once; about a minute) ...", file=sys.stderr, flush=True)
        create()
        install()
        STAMP.write_text(wanted)


def main() -> int:
    """Run the command that was asked for."""
    if sys.version_info < (3, 11):  # noqa: UP036  a person may start us with any Python
        stop(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}")
    if len(sys.argv) == 1:
        print(__doc__)
        return 2
    try:
        prepare()
    except OSError as exc:
        stop(f"the environment cannot be made ({exc})")
    first, *rest = sys.argv[1:]
    command = [*SHORT.get(first, [first]), *rest]
    env = dict(os.environ)
    env["PATH"] = str(BIN) + os.pathsep + env.get("PATH", "")
    env["VIRTUAL_ENV"] = str(VENV)
    env["DVC_NO_ANALYTICS"] = "1"
    env["HARNESS_CALLED"] = f"python3 {sys.argv[0]}"  # hints name commands as they can be typed
    env.setdefault("OPENBLAS_NUM_THREADS", "1")  # one query is little: threads wait for each other
    env.pop("PYTHONHOME", None)
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # each of many processes would compile it all anew
    if first in SHORT:
        os.chdir(ROOT)
    try:
        os.execvpe(command[0], command, env)  # noqa: S606  so that signals are for the command
    except FileNotFoundError:
        print(f"run.py: no command {first!r} in the environment or on PATH", file=sys.stderr)
    except OSError as exc:
        print(f"run.py: {first!r} cannot be run ({exc.strerror})", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
