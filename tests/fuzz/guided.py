"""``python -m tests.fuzz.guided --minutes 60``: change files where that reaches new lines of code.

Needs atheris, which is in no extra: ``pip install atheris``. Each reader has a process of its own
and a share of the time. What breaks a reader is kept in ``finds``, as the random fuzzer keeps it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

LONGEST_BYTES, SLOWEST_S = 4_096, 10


def guided(name: str, seconds: int) -> None:
    """Fuzz one reader in this process, which ends with it."""
    atheris = import_module("atheris")
    with atheris.instrument_imports(include=["harness", "harness_engines"]):
        from tests.fuzz.__main__ import ALIKE, keep, seeds
        from tests.fuzz.trying import fault_of
    kept: set[str] = set()

    def one(data: bytes) -> None:
        fault = fault_of(name, data)
        if fault and fault[:ALIKE] not in kept:
            kept.add(fault[:ALIKE])
            sys.stdout.write(f"{name}: {fault}: {keep(name, data)}\n")
            sys.stdout.flush()

    with tempfile.TemporaryDirectory() as folder:
        for at, data in enumerate(seeds(name)):
            (Path(folder) / str(at)).write_bytes(data)
        bounds = {"max_total_time": seconds, "timeout": SLOWEST_S, "max_len": LONGEST_BYTES}
        given = [f"-{name}={value}" for name, value in bounds.items()]
        atheris.Setup([sys.argv[0], *given, f"-artifact_prefix={folder}/", folder], one)
        atheris.Fuzz()


def main(minutes: float, names: list[str]) -> int:
    """Fuzz the readers one after the other; give how many of them broke."""
    seconds, broken = max(1, int(60 * minutes / len(names))), 0
    for name in names:
        words = [sys.executable, "-m", "tests.fuzz.guided", "--only", name, "--seconds"]
        done = subprocess.run([*words, str(seconds)], capture_output=True, text=True, check=False)
        tried = done.stderr.rpartition("Done ")[2].partition(" ")[0] or "an unknown number of"
        sys.stdout.write(f"{done.stdout}{name}: {tried} files, exit code {done.returncode}\n")
        sys.stdout.flush()
        broken += bool(done.stdout or done.returncode)
    return broken


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--only")
    parser.add_argument("--seconds", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.seconds:
        guided(given.only, given.seconds)
    from tests.fuzz.readers import READERS

    sys.exit(bool(main(given.minutes, [given.only] if given.only else list(READERS))))
