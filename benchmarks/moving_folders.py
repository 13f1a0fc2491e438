"""Whether a served folder ever answers wrongly while its files change.

    python3 run.py python benchmarks/moving_folders.py --minutes 10

Servers of notes, code and documents follow one folder of Markdown files, by the arms without a
model. A writer makes, rewrites, renames and removes files. After each change it asks every server
for the new word of the file and for the old one. Meanwhile a reader of each server lists all files.
What lay unchanged through a call must be in its answer once, and nothing that was removed before
it. All speak MCP over HTTP through the SDK's client. Exits 1 where an answer was wrong.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from queue import Queue
from random import Random
from subprocess import PIPE, Popen
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import unquote

from benchmarks.moving_mail import Tally
from harness_engines.stacks.remote import McpConnection, connected

SHARED = "review"
"""A word of every file."""
FEWEST, MOST = 10, 40
"""Files, between which making and removing keep the folder; an answer of notes shows 50."""
CHANGES = ("make", "rewrite", "rename", "remove")


class Served(NamedTuple):
    """How a stack is served and asked."""

    arm: str
    tool: str
    asks: Callable[[str], Mapping[str, object]]
    shows: Callable[[Mapping[str, Any]], list[str]]
    """Names of the files that an answer shows, as often as it shows them."""


def _note(item: Mapping[str, Any]) -> str:
    return unquote(str(item["sourceRef"]).removeprefix("doc:").partition("#")[0])


STACKS: Mapping[str, Served] = {
    "notes": Served(
        "writing-stems",
        "rag_retrieve",
        lambda text: {"queryText": text, "limit": 50},
        lambda said: [_note(one) for one in said["items"]],
    ),
    "code": Served(
        "code-words",
        "search_code",
        lambda text: {"query": text, "top": 1000},
        lambda said: [one["path"] for one in said["hits"]],
    ),
    "docs": Served(
        "documents-bm25",
        "search_collection",
        lambda text: {"query": text, "top_k": 100},
        lambda said: [one["source"]["document_id"] for one in said["results"]],
    ),
}


@dataclass
class Folder:
    """What is known of the files: the word of each that is there, and when it changed last."""

    root: Path
    lock: Lock = field(default_factory=Lock)
    clock: Iterator[int] = field(default_factory=count)
    words: dict[str, str] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)

    def begin(self, *names: str) -> None:
        """Note that files are about to change."""
        with self.lock:
            self.changed |= dict.fromkeys(names, next(self.clock))

    def end(self, there: Mapping[str, str], *gone: str) -> None:
        """Note which files are there now with which word, and which are gone."""
        with self.lock:
            now = next(self.clock)
            for name in gone:
                del self.words[name]
                self.removed[name] = now
            self.words |= there
            self.changed |= dict.fromkeys([*there, *gone], now)

    def put(self, name: str, word: str) -> None:
        """Write a file whole, as an editor does."""
        beside = self.root / f".{name}"
        beside.write_text(f"# {SHARED} {word}\n\nagain {SHARED}\n", "utf-8")
        beside.replace(self.root / name)


@dataclass(frozen=True)
class Asker:
    """Asks one server."""

    to: McpConnection
    stack: str
    tally: Tally

    def files(self, text: str) -> list[str]:
        served = STACKS[self.stack]
        self.tally.calls[served.tool] += 1
        return served.shows(self.to.call(served.tool, served.asks(text)))


def write(every: list[Asker], folder: Folder, rng: Random, until: float) -> None:
    """Change files one by one, and look after each change whether every server knows of it."""
    for number in count():
        if number >= len(CHANGES) and monotonic() > until:
            return
        how = CHANGES[number] if number < len(CHANGES) else rng.choice(CHANGES)
        how = "make" if len(folder.words) < FEWEST else how
        how = "remove" if len(folder.words) > MOST else how
        word, name = f"marker{number:06}", f"file {number:06}.md"
        one = rng.choice([*folder.words])
        old = folder.words[one]
        if how == "make":
            one, old = name, "marker"
            folder.begin(name)
            folder.put(name, word)
            folder.end({name: word})
        elif how == "rewrite":
            folder.begin(one)
            folder.put(one, word)
            folder.end({one: word})
        elif how == "rename":
            folder.begin(one, name)
            (folder.root / one).rename(folder.root / name)
            folder.end({name: old}, one)
            one, word, old = name, old, "marker"
        else:
            folder.begin(one)
            (folder.root / one).unlink()
            folder.end({}, one)
        for ask in every:
            said = f"{ask.stack}: {how} of {one}"
            if how != "remove":
                ask.tally.check({*ask.files(word)} == {one}, f"{said} is not found by {word}")
            if old != "marker":
                ask.tally.check(ask.files(old) == [], f"{said} is found by {old}")


def read(ask: Asker, folder: Folder, until: float) -> None:
    """List all files again and again, at least once."""
    for number in count():
        if number and monotonic() > until:
            return
        with folder.lock:
            begun, before, there = next(folder.clock), dict(folder.changed), {*folder.words}
        seen = ask.files(SHARED)
        with folder.lock:
            lived = {one for one in there if folder.changed.get(one) == before.get(one)}
            dead = {one for one, at in folder.removed.items() if at < begun}
        ask.tally.check(len(seen) == len({*seen}), f"{ask.stack}: twice {seen}")
        ask.tally.check(lived <= {*seen}, f"{ask.stack}: lost {sorted(lived - {*seen})}")
        ask.tally.check(not dead & {*seen}, f"{ask.stack}: removed {sorted(dead & {*seen})}")


@contextmanager
def serving(project: Path, stack: str) -> Iterator[str]:
    """Start the server of a stack, give its address, and stop it."""
    options = ["serve", "mine", "--arm", STACKS[stack].arm, "--http", "0"]
    words = [sys.executable, "-m", "harness", stack, *options]
    with Popen(words, cwd=project, stderr=PIPE, text=True) as process:  # noqa: S603  our own words
        lines: Queue[str] = Queue()

        def pass_on() -> None:
            for line in process.stderr or ():
                lines.put(line)

        Thread(target=pass_on, daemon=True).start()
        try:
            said = lines.get(timeout=120)
            while "http://" not in said:
                said = lines.get(timeout=120)
            yield said.split()[-1]
        finally:
            process.kill()


def moved(minutes: float, seed: int) -> Tally:
    """Serve, write and read for so long."""
    tally = Tally()
    with TemporaryDirectory() as made, ExitStack() as open_now:
        project = Path(made)
        (project / "params.yaml").write_text("datasets: []\n", "utf-8")
        folder = Folder(project / "mine")
        folder.root.mkdir()
        for at in range(FEWEST):
            folder.put(f"first {at:02}.md", f"first{at:02}")
            folder.end({f"first {at:02}.md": f"first{at:02}"})
        urls = {stack: open_now.enter_context(serving(project, stack)) for stack in STACKS}
        until = monotonic() + 60 * minutes

        def asker(stack: str) -> Asker:
            to = open_now.enter_context(connected([], urls[stack], 300))
            tally.learn(to)
            return Asker(to, stack, tally)

        readers, every = [asker(stack) for stack in STACKS], [asker(stack) for stack in STACKS]
        with ThreadPoolExecutor() as pool:
            jobs = [pool.submit(write, every, folder, Random(seed), until)]
            jobs += [pool.submit(read, one, folder, until) for one in readers]
            for done in jobs:
                done.result()
    return tally


def main() -> int:
    """Run for some minutes and say what was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    return moved(given.minutes, given.seed).told()


if __name__ == "__main__":
    sys.exit(main())
