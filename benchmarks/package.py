"""Whether the package works where no clone is: built, installed in empty environments, and used.

    python3 run.py python benchmarks/package.py python3.11 PATH/python3.13

It needs a package index. Source archive and wheel are built as ``python -m build`` builds them. For
each Python, the core is installed with the newest versions and with the oldest direct ones, and the
newest once from the source archive. In an empty folder each installation must do what ``STEPS``
says. A table tells the outcome, the packages beside our own, their size installed and as pip
downloads them, and the seconds that pip takes from a warm cache, by the clock and of a processor.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
DISTRIBUTION = "search-harness"
MAX_CORE = 45
MB = 1e6
TYPED = """\
from harness import load_run
from harness.core.run import Run

def read(path: str) -> Run:
    return load_run(path)
"""
USE = ("run", "--dataset", "mine/data", "--arms", "fts5", "--engine", "mine/engine.py:search")


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment with the package, and an empty folder to work in."""

    python: Path
    folder: Path

    def run(self, *words: str | Path, at: str = ".") -> tuple[int, str]:
        """Run a command without this project on any path."""
        env = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "LANG": "C.UTF-8"}
        done = subprocess.run(  # noqa: S603  our own commands
            [str(word) for word in words],
            cwd=self.folder / at, env=env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def harness(self, *words: str, at: str = ".") -> tuple[int, str]:
        """Run the installed command by its path."""
        return self.run(self.python.with_name("harness"), *words, at=at)


def printed_next_step(at: Installed) -> bool:
    """Make a project and type what is printed."""
    _, said = at.harness("init", "mine")
    step = re.search(r"^Next: (.*)$", said, re.MULTILINE)
    return step is not None and at.run("bash", "-c", step[1])[0] == 0


def broken_engine(at: Installed) -> bool:
    """Break the engine; ``ci.sh`` finds the environment as ``.venv`` and ends in 1."""
    shutil.copytree(at.folder / "mine" / "out", at.folder / "mine" / "before")
    engine = at.folder / "mine" / "engine.py"
    engine.write_text(engine.read_text().replace(".lower()", ""))
    (at.folder / ".venv").symlink_to(at.python.parents[1])
    return at.run("./ci.sh", at="mine")[0] == 1


def in_a_repository(at: Installed) -> bool:
    """Add a project to a repository that has a file."""
    at.run("git", "init", "-q", "repository")
    (at.folder / "repository" / "README.md").write_text("# Ours\n")
    code, _ = at.harness("init", ".", "--github", "a/b@v1", at="repository")
    return code == 0 and (at.folder / "repository/.github/workflows/search.yml").is_file()


def absent_extra(at: Installed) -> bool:
    """Ask for an engine of an extra."""
    code, said = at.harness("run", "--dataset", "mine/data", "--arms", "tantivy", "--out", "no")
    return code == 2 and f"{DISTRIBUTION}[engines]" in said  # noqa: PLR2004


def typed(at: Installed) -> bool:
    """Check a user's file against the installed types."""
    (at.folder / "own.py").write_text(TYPED)
    mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", at.python, "own.py"]
    return at.run(*mypy)[0] == 0


STEPS: dict[str, Callable[[Installed], bool]] = {
    "help": lambda at: at.harness("--help")[0] == 0,
    "doctor": lambda at: at.harness("doctor")[0] == 0,
    "init, green": printed_next_step,
    "run": lambda at: at.harness(*USE, "--control", "fts5", "--out", "out")[0] == 0,
    "red": broken_engine,
    "init .": in_a_repository,
    "extra": absent_extra,
    "mypy": typed,
}
"""What is tried, in this order; each says whether it ended as it must."""


def uv(*words: str | Path) -> str:
    """Run uv, which is part of the environment of this project."""
    command = [str(Path(sys.executable).with_name("uv")), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        sys.exit(f"{shlex.join(command)}\n{done.stderr}")
    return done.stdout


def install(python: str, package: Path, to: Path, *, oldest: bool) -> Installed:
    """Make an environment with the core, and an empty folder beside it."""
    uv("venv", "-q", "--python", python, to / "env")
    at = to / "env" / "bin" / "python"
    more: list[str | Path] = []
    if oldest:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        (to / "core.in").write_text("\n".join(project["dependencies"]))
        uv("pip", "compile", "-q", "--resolution", "lowest-direct", "--only-binary", ":all:",
           "--python", at, to / "core.in", "-o", to / "core.txt")  # fmt: skip
        more = ["-r", to / "core.txt"]
    uv("pip", "install", "-q", "--python", at, *more, package)
    (to / "empty").mkdir()
    return Installed(at, to / "empty")


def fetched(python: Path, package: Path, to: Path) -> tuple[float, float, float]:
    """Download the core, and install it from a warm cache: MB, seconds, seconds of a processor."""
    alone = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONPATH": ""}
    for words in (
        (python, "-m", "venv", to / "pip"),
        (to / "pip/bin/pip", "download", "-q", "-d", to / "wheels", package),
    ):
        subprocess.run(words, env=alone, check=True)  # noqa: S603  our own commands
    began, before = time.monotonic(), os.times()
    install = (to / "pip/bin/pip", "install", "-q", "--no-compile", package)
    subprocess.run(install, env=alone, check=True)  # noqa: S603  our own commands
    wall, after = time.monotonic() - began, os.times()
    of_pip = after.children_user + after.children_system
    worked = of_pip - before.children_user - before.children_system
    return size(to / "wheels") - package.stat().st_size / MB, wall, worked


def size(folder: Path) -> float:
    """Add up the files of an environment, in MB."""
    files = (Path(at, name) for at, _, names in os.walk(folder) for name in names)
    return sum(file.lstat().st_size for file in files) / MB


def _row(cells: list[str]) -> None:
    sys.stdout.write(f"| {' | '.join(cells)} |\n")
    sys.stdout.flush()


def main() -> int:
    """Print a table; exit 1 where a step failed or the core is too large."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pythons", nargs="*", default=[sys.executable], help="Pythons to try")
    given = parser.parse_args()
    good = True
    _row(["Python", "from", "packages", "MB", "download MB", "pip s", "cpu s", *STEPS])
    _row(["---"] * (7 + len(STEPS)))
    with TemporaryDirectory() as place:
        folder = Path(place)
        uv("build", "-q", "-o", folder, ROOT)
        (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
        ways = {"wheel, newest": (wheel, False), "wheel, oldest": (wheel, True),
                "archive, newest": (archive, False)}  # fmt: skip
        tried = [(python, way) for python in given.pythons for way in ways]
        for number, (python, way) in enumerate(tried):
            (folder / str(number)).mkdir()
            package, oldest = ways[way]
            at = install(python, package, folder / str(number), oldest=oldest)
            version = at.run(at.python, "-c", "import platform; print(platform.python_version())")
            megabytes = size(at.python.parents[1])
            listed = uv("pip", "list", "-q", "--format", "freeze", "--python", at.python)
            count = len(listed.splitlines()) - 1
            done = [step(at) for step in STEPS.values()]
            good = good and all(done) and count <= MAX_CORE
            cells = [version[1].strip(), way, str(count), f"{megabytes:.0f}"]
            there = folder / str(number)
            pip = fetched(at.python, package, there) if way == "wheel, newest" else ()
            cells += [f"{value:.1f}" for value in pip] or [""] * 3
            _row([*cells, *("yes" if one else "NO" for one in done)])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
