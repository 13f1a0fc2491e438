"""Proof of moves: ``python -m tests.oracle record | replay | faults``.

``record`` keeps what functions gave in the kept commit; ``replay`` asks today's; ``faults`` counts
the planted faults that differ so, and by ``tests.oracle.golden``.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import tests
from tests.oracle import cassettes_replay as replaying
from tests.oracle.cassettes import write
from tests.source import ROOT

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("ORACLE_CACHE", Path.home() / ".cache" / "search-harness-oracle"))
COMMIT = (HERE / "kept_commit.txt").read_text("utf-8").strip()
HOME = CACHE / COMMIT[:12]
TREE = HOME / "tree"
ROOMS = tomllib.loads((HERE / "rooms.toml").read_text("utf-8"))


def record(room: str) -> bool:
    """Run the tests of a room in the kept commit with the recorder, and settle what it kept."""
    raw, began, what = HOME / f"{room}.raw", time.monotonic(), ROOMS[room]
    if (HOME / f"{room}.cases").exists():
        print(f"{room}: recorded already")
        return False
    if not TREE.exists():
        HOME.mkdir(parents=True, exist_ok=True)
        command = ["git", "worktree", "add", "--detach", "--force", str(TREE), COMMIT]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        if (shared := ROOT.parent / "shared").exists():
            (HOME / "shared").symlink_to(shared.resolve())
    if not raw.exists():
        env = _env(TREE, TREE / "engines", HERE) | {"ORACLE_TO": str(raw)}
        env |= {"ORACLE_PACKAGES": " ".join(what["packages"])}
        command = [*PYTHON, "pytest", "-n0", "-p", "cassettes", "-p", "no:cacheprovider", "-q"]
        command += [one for one in what["tests"] if (TREE / one).exists()]
        with (HOME / f"{room}.log").open("w") as log:
            subprocess.run(command, cwd=TREE, env=env, check=False, stdout=log, stderr=log)
    if not raw.exists():
        sys.exit(f"{room}: nothing was recorded; see {HOME / room}.log")
    command = [*PYTHON, "tests.oracle", "settle", "--room", room]
    subprocess.run(command, cwd=ROOT, env=_env(ROOT), check=True)
    print(f"{room}: {time.monotonic() - began:.0f} s", flush=True)
    return False


PYTHON = (sys.executable, "-m")


def _env(*path: Path) -> dict[str, str]:
    one = {"OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": str(len(path))}
    return {**os.environ, **one, "PYTHONPATH": os.pathsep.join(map(str, path))}


def settle(room: str) -> bool:
    """Leave out what the kept commit itself answers otherwise; part of ``record``."""
    recording, runs, counts = replaying.settle(replaying.load(HOME / f"{room}.raw"), TREE)
    write(HOME / f"{room}.ran", runs)
    write(HOME / f"{room}.cases", recording)
    print(f"{room}: {told(counts)}")
    return False


def replay(room: str) -> bool:
    """Replay a room; return whether something differs."""
    if not (cases := HOME / f"{room}.cases").exists():
        print(f"{room}: not recorded. Run python -m tests.oracle record --room {room}.")
        return True
    counts = replaying.replay(room, replaying.load(cases), replaying.names())
    print(f"{room}: {told(counts)}")
    return bool(counts["differences"] or counts["not found"])


def told(counts: Counter[str]) -> str:
    """Show counts in a line."""
    return ", ".join(f"{number} {what}" for what, number in counts.items())


def each_alone(rooms: Sequence[str], what: str) -> int:
    """Settle each room on the kept commit, or replay it on today's, in a process of its own."""
    code, do = (TREE, settle) if what == "settle" else (ROOT, replay)
    sys.path[:0] = [str(code), str(code / "engines")]
    os.chdir(code)
    tests.__path__[:] = [str(code / "tests")]  # what tests made is made by those beside the code
    replaying.folder()
    status = 0
    for room in rooms:
        if not (pid := os.fork()):
            replaying.guard()
            differs = do(room)
            sys.stdout.flush()
            os._exit(differs)
        status |= bool(os.waitpid(pid, 0)[1])
    return status


def room_of(file: str) -> str:
    """Name the room whose packages hold a file; the longest name of a package wins."""
    module = file.removeprefix("engines/").removesuffix(".py").replace("/", ".")
    packages = [(len(one), one, room) for room, what in ROOMS.items() for one in what["packages"]]
    fits = [room for _, one, room in sorted(packages) if f"{module}.".startswith(f"{one}.")]
    return fits[-1] if fits else "other"


def faults(rooms: Sequence[str], sample: int, *, goldens: bool) -> int:
    """Print by room how many of the planted faults cassettes, or else quick goldens, notice."""
    from tests.mutants.listed import Mutant, mutants
    from tests.mutants.plant import find
    from tests.oracle import cassettes_faults as planting

    rooms_of = {one: room_of(find(one)) for one in mutants()}
    table = {room: Counter[str]() for room in rooms}
    every = list[Mutant]()
    for room in rooms:
        here = [one for one, its in rooms_of.items() if its == room]
        every += random.Random(1).sample(here, sample) if 0 < sample < len(here) else here
    for one, fate in planting.tried(every, HOME, [*ROOMS], goldens=goldens):
        print(f"{fate.kind} {rooms_of[one]} {one.id} {fate.said}", flush=True)
        table[rooms_of[one]][fate.kind] += 1
    table["all"] = sum(table.values(), Counter())
    print("room        noticed cassettes   goldens    missed     apart")
    for room, row in table.items():
        noticed = row["cassettes"] + row["goldens"]
        share = noticed / max(noticed + row["missed"], 1)
        counts = (row[one] for one in ("cassettes", "goldens", "missed", "apart"))
        print(f"{room:10} {share:8.1%} {' '.join(f'{one:9}' for one in counts)}")
    return 0


def main() -> int:
    """Do what is asked for."""
    words = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    words.add_argument("what", choices=["record", "replay", "faults", "settle"])
    words.add_argument("--room", action="append", choices=[*ROOMS, "other"], help="all if none")
    words.add_argument("--sample", type=int, default=0, help="so many faults of a room, drawn")
    words.add_argument("--cassettes", action="store_true", help="no goldens, which take longer")
    given = words.parse_args()
    rooms = given.room or list(ROOMS)
    if given.what == "record":
        return max(map(record, rooms))
    if given.what == "faults":
        asked = given.room or [*ROOMS, "other"]
        return faults(asked, given.sample, goldens=not given.cassettes)
    return each_alone(rooms, given.what)


if __name__ == "__main__":
    sys.exit(main())
