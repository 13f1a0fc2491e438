"""Count which planted faults their tests notice: ``python -m tests.mutants``.

What was tried at a commit is kept in ``.cache``, so that a run that was stopped goes on.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.listed import Bench, Fate, Mutant, find, mutants
from tests.source import ROOT


def room_of(mutant: Mutant) -> str:
    """Name the folder of the product that a fault is planted in."""
    return find(mutant).removeprefix("engines/").split("/")[1].removesuffix(".py")


def count(asked: list[str], jobs: int) -> int:
    """Try each fault of the rooms, print those unnoticed and the table; return their number."""
    command = ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    kept = ROOT / ".cache" / f"mutants-{commit.strip()[:12]}.jsonl"
    kept.parent.mkdir(exist_ok=True)
    lines = kept.read_text("utf-8").splitlines() if kept.exists() else []
    fates: dict[str, str] = dict(map(json.loads, lines))
    rooms = {one: room for one in mutants() if (room := room_of(one)) in asked or not asked}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        benches = SimpleQueue[Bench]()
        for number in range(jobs):
            benches.put(Bench.of(Path(folder) / str(number) / "project"))

        def tried(mutant: Mutant) -> Fate:
            bench = benches.get()
            try:
                return bench.fate(mutant)[0]
            finally:
                benches.put(bench)

        running = {pool.submit(tried, one): one for one in rooms if one.id not in fates}
        for done in as_completed(running):
            fates[running[done].id] = done.result()
            with kept.open("a", encoding="utf-8") as file:
                print(json.dumps((running[done].id, done.result())), file=file)
    unseen = [one for one in rooms if fates[one.id] != Fate.KILLED]
    planted, missed = Counter(rooms.values()), Counter(rooms[one] for one in unseen)
    for one in unseen:
        print(f"{one.id}: {fates[one.id]}. {one.survives or one.why}")
    print(f"{'room':14}{'planted':>8}{'noticed':>8}")
    for room, number in [*sorted(planted.items()), ("all", planted.total())]:
        lost = missed.total() if room == "all" else missed[room]
        print(f"{room:14}{number:8}{number - lost:8}")
    return sum(not one.survives for one in unseen)


if __name__ == "__main__":
    words = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    words.add_argument("--room", action="append", default=[], help="a folder; all if none")
    words.add_argument("--jobs", type=int, default=1, help="so many faults at a time")
    given = words.parse_args()
    sys.exit(min(count(given.room, given.jobs), 1))
