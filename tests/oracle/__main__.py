"""Proof of moves: ``python -m tests.oracle record | settle | replay | faults``.

``record`` keeps what functions gave in the kept commit; ``replay`` asks today's. ``settle`` leaves
out what ``--code`` answers otherwise by a decision, before a move that changes nothing.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import tests
from tests.oracle import cassettes_replay as replaying
from tests.oracle.cassettes import write
from tests.source import ROOT

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("ORACLE_CACHE", Path.home() / ".cache" / "search-harness-oracle"))
COMMIT = os.environ.get("ORACLE_COMMIT", (HERE / "kept_commit.txt").read_text("utf-8").strip())
HOME = CACHE / COMMIT[:12]
TREE = HOME / "tree"
ROOMS = tomllib.loads((HERE / "rooms.toml").read_text("utf-8"))
APART = re.compile(
    r"tests/crash|killed|/test_(locks|flocks|journal|strays|scratch|owned|leftovers)|core/serving"
    r"|shadow/proxy/|shadow/servers/|shadow/live/(process|worker|shadowed)|test_live|test_at_once|/live/|synced|test_durable|on_the_disk"
)
"""Tests of crashes, locks, races and servers: a recorded call cannot show what they look at."""


def lay_out() -> None:
    """Check the kept commit out, beside ``shared`` where that is here."""
    if not TREE.exists():
        HOME.mkdir(parents=True, exist_ok=True)
        command = ["git", "worktree", "add", "--detach", "--force", str(TREE), COMMIT]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        if (shared := ROOT.parent / "shared").exists():
            (HOME / "shared").symlink_to(shared.resolve())


def record(rooms: Sequence[str]) -> int:
    """Run the tests of each room in the kept commit with the recorder, and settle what it kept."""
    lay_out()
    for room in rooms:
        raw, began, what = HOME / f"{room}.raw", time.monotonic(), ROOMS[room]
        if (HOME / f"{room}.cases").exists():
            print(f"{room}: recorded already")
            continue
        if not raw.exists():
            env = _env(TREE, TREE / "engines", HERE) | {
                "ORACLE_PACKAGES": " ".join(what["packages"])
            }
            command = [*PYTHON, "pytest", "-p", "cassettes", "-p", "no:cacheprovider", "-q"]
            tests = [one for one in what["tests"] if (TREE / one).exists()]
            with (HOME / f"{room}.log").open("w") as log:
                env |= {"ORACLE_TO": str(raw)}
                command += tests
                subprocess.run(command, cwd=TREE, env=env, check=False, stdout=log, stderr=log)
        if not raw.exists():
            sys.exit(f"{room}: nothing was recorded; see {HOME / room}.log")
        command = [*PYTHON, "tests.oracle", "settle", "--room", room, "--code", str(TREE)]
        subprocess.run(command, cwd=ROOT, env=_env(ROOT), check=True)
        print(f"{room}: {time.monotonic() - began:.0f} s", flush=True)
    return 0


PYTHON = (sys.executable, "-m")


def _env(*path: Path) -> dict[str, str]:
    one = {"OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": str(len(path))}
    return {**os.environ, **one, "PYTHONPATH": os.pathsep.join(map(str, path))}


def settle(room: str, code: Path) -> bool:
    """Leave out what this code answers otherwise."""
    path, ran = HOME / f"{room}.cases", HOME / f"{room}.ran"
    if path.exists():
        recording, runs = replaying.load(path), replaying.load(ran)
        counts = replaying.accept(recording, runs, replaying.Names.read())
    else:
        raw, stayed = replaying.load(HOME / f"{room}.raw"), replaying.Names({}, {}, {})
        recording, runs, counts = replaying.settle(raw, code, stayed)
    write(ran, runs)
    write(path, recording)
    print(f"{room}: {told(counts)}")
    return False


def replay(room: str, _: Path) -> bool:
    """Replay a room; return whether something differs."""
    counts = replaying.replay(room, replaying.load(HOME / f"{room}.cases"), replaying.Names.read())
    print(f"{room}: {told(counts)}")
    return bool(counts["differences"] or counts["not found"])


def told(counts: Mapping[str, int]) -> str:
    """Show counts in a line."""
    return ", ".join(f"{number} {what}" for what, number in counts.items())


def each_alone(rooms: Sequence[str], what: str, code: Path) -> int:
    """Settle or replay each room on some code in a process of its own."""
    sys.path[:0] = [str(code), str(code / "engines")]
    os.chdir(code)
    tests.__path__[:] = [str(code / "tests")]  # what tests made is made by those beside the code
    replaying.folder()
    status = 0
    for room in rooms:
        if not any((HOME / f"{room}.{kind}").exists() for kind in ("cases", "raw")):
            print(f"{room}: not recorded. Run python -m tests.oracle record --room {room}.")
            status = 1
        elif pid := os.fork():
            status |= bool(os.waitpid(pid, 0)[1])
        else:
            replaying.guard()
            differs = (settle if what == "settle" else replay)(room, code)
            sys.stdout.flush()
            os._exit(differs)
    return status


def room_of(file: str) -> str:
    """Name the room whose packages hold a file; the longest name of a package wins."""
    file = file.removeprefix("engines/")
    module = file.removesuffix(".py").replace("/", ".")
    packages = [(len(one), one, room) for room, what in ROOMS.items() for one in what["packages"]]
    fits = [room for _, one, room in sorted(packages) if f"{module}.".startswith(f"{one}.")]
    return fits[-1] if fits else "other"


def faults(rooms: Sequence[str], sample: int, only: Sequence[str], *, goldens: bool) -> int:
    """Print by room how many of the planted faults cassettes, or else quick goldens, notice."""
    from tests.mutants.listed import mutants
    from tests.mutants.plant import find
    from tests.oracle import cassettes_faults as planting

    wanted = [one for one in mutants() if one.id in (only or [one.id])]
    files = {one.id: find(one) for one in wanted}
    every = [one for one in wanted if room_of(files[one.id]) in rooms]
    every = random.Random(1).sample(every, sample) if 0 < sample < len(every) else every
    fates = dict[str, planting.Fate]()
    with tempfile.TemporaryDirectory() as folder:
        if not (pid := os.fork()):  # what goldens are played in has imported nothing of ours
            asking = bench()
            fates = planting.tried(asking.ask, every, Path(folder), asking.is_steady)
            write(Path(folder) / "fates", fates)
            os._exit(0)
        os.waitpid(pid, 0)
        fates = replaying.load(Path(folder) / "fates")
        if goldens and (left := [one for one in every if not fates[one.id].difference]):
            ask = partial(planting.ask_goldens, planting.goldens_ran(HOME))
            fates |= planting.tried(ask, left, Path(folder), lambda *_: True)
    for one in every:
        fate = fates[one.id]
        kind = fate_of(one, files, fates)
        why = one.survives or " ".join(one.tests) if kind == "apart" else fate
        print(f"{kind} {files[one.id]} {one.id} {why}")
    table: dict[str, Counter[str]] = {}
    for one in every:
        table.setdefault(room_of(files[one.id]), Counter())[fate_of(one, files, fates)] += 1
    table["all"] = sum(table.values(), Counter())
    print("room        noticed cassettes   goldens    missed     apart")
    for room, row in sorted(table.items()):
        noticed = row["cassettes"] + row["goldens"]
        share = noticed / max(noticed + row["missed"], 1)
        counts = (row[one] for one in ("cassettes", "goldens", "missed", "apart"))
        print(f"{room:10} {share:8.1%} {' '.join(f'{one:9}' for one in counts)}")
    return 0


def bench() -> Any:
    """Read all cases that are recorded."""
    from tests.oracle import cassettes_faults as planting

    recorded = [room for room in ROOMS if (HOME / f"{room}.cases").exists()]
    read = ({one: replaying.load(HOME / f"{one}.{kind}") for one in recorded} for kind in KINDS)
    return planting.Bench(*read)


KINDS = ("cases", "ran")


def fate_of(one: Any, files: Mapping[str, str], fates: Mapping[str, Any]) -> str:
    """Name what noticed a fault; ``apart`` are crashes, locks and races that nothing noticed."""
    if said := fates[one.id].difference:
        return "goldens" if said.startswith("golden ") else "cassettes"
    apart = one.survives or any(APART.search(place) for place in (*one.tests, files[one.id]))
    return "apart" if apart else "missed"


def main() -> int:
    """Do what is asked for."""
    words = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    words.add_argument("what", choices=["record", "settle", "replay", "faults"])
    words.add_argument("--room", action="append", choices=[*ROOMS, "other"], help="all if none")
    words.add_argument("--code", type=Path, default=ROOT, help="the clone to replay on")
    words.add_argument("--sample", type=int, default=0, help="so many faults, drawn at random")
    words.add_argument("--fault", action="append", help="one of the list, by its id")
    words.add_argument("--cassettes", action="store_true", help="no goldens, which take longer")
    given = words.parse_args()
    rooms = given.room or list(ROOMS)
    if given.what == "record":
        return record(rooms)
    if given.what == "faults":
        asked = given.room or [*ROOMS, "other"], given.sample, given.fault or []
        return faults(*asked, goldens=not given.cassettes)
    return each_alone(rooms, given.what, given.code.resolve())


if __name__ == "__main__":
    sys.exit(main())
