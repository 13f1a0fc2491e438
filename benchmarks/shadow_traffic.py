"""A hundred thousand real questions in shadow: how many a second, what they cost, what memory.

    python3 run.py python benchmarks/shadow_traffic.py
    python3 run.py python benchmarks/shadow_traffic.py --questions 2000 --groups 8 --paired 4

SQLite FTS5 serves and Tantivy is the candidate, in a process, over the documents of four sets in
``--shared`` (about 10,000 papers). The questions are what people wrote: the queries of eight sets,
titles of papers, subjects of letters, lines of a chat; of each the first ``--words`` words, each
text once, drawn with a seed, and all over again where there are fewer.

Every question is asked with the candidate in the control's shadow. ``--paired`` of the groups,
evenly spread, are asked of the control alone and of the control alone again too, in an order that
moves on by one each time. All ways ask the same open control as fast as it answers; in shadow a
question waits, off the clock, while the queue is full, so nothing is shed. Before the next way
everything is compared and written. A percentile is of a group, a ratio is to the control alone in
the same group, and what stands in the table is the median over the paired groups with the lowest
and the highest: no ratio says more than "alone, again" lets it. The rates are of the paired groups
too, with all that is written. Ctrl-C reports what was asked so far.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import os
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns, sleep
from typing import NamedTuple

import numpy as np
import psutil
from rich.progress import track

from engines import registry as arms
from harness.core.engine import Searcher
from harness.core.records import Document
from harness.shadow.live.comparison import Comparison
from harness.shadow.live.settings import ShadowLog
from harness.shadow.live.shadowed import Shadowed
from harness.shadow.log import streams
from harness.shadow.log.between import Between
from harness.stages.shadow.files import read_settings
from harness.stages.shadow.run import unhurried

CONTROL, CANDIDATE = "fts5", "tantivy"
SEED, K = 20_261_122, 10
BETWEEN = Between("control", "candidate")
PAPERS = ("adi", "cacm", "cranfield", "scifact")
SETS = ("adi", "cacm", "cosqa", "cranfield", "r-mailing-lists", "scifact", "ubuntu-irc", "vaswani")
ALONE, AGAIN, SHADOW = "alone", "alone, again", "in shadow"
WAYS = (ALONE, AGAIN, SHADOW)
MIB, NS = 1 << 20, 1e9
DRAIN_S, NAP_S = 600.0, 0.0002


def lines(folder: Path, stem: str) -> Iterator[dict[str, str]]:
    """Read JSON lines, packed or not."""
    plain = folder / f"{stem}.jsonl"
    packed = folder / f"{stem}.jsonl.gz"
    with plain.open("rb") if plain.exists() else gzip.open(packed) as found:
        for line in found:
            yield json.loads(line)


def documents(shared: Path, sets: Sequence[str]) -> list[Document]:
    """Take the documents of sets, their ids with the set's name before them."""
    return [
        Document(f"{name}/{found['_id']}", found.get("title") or "", found["text"])
        for name in sets
        for found in lines(shared / name, "corpus")
    ]


def questions(shared: Path, words: int, count: int) -> list[str]:
    """Take what people wrote, drawn with a seed; from the first one again when all were taken."""
    asked = [found["text"] for name in SETS for found in lines(shared / name, "queries")]
    told = (document.title or document.text for document in documents(shared, SETS))
    texts = [*asked, *told]
    cut = dict.fromkeys(" ".join(text.split()[:words]) for text in texts)
    cut.pop("", None)
    found = list(cut)
    say(f"{len(found)} different texts")
    np.random.default_rng(SEED).shuffle(found)
    return list(islice(cycle(found), count))


@contextmanager
def opened(name: str, index: Path) -> Iterator[Searcher]:
    """Open an arm's index; in a process of its own too."""
    with arms.load(name, index.parent / "cache").engine.open(index) as searcher:
        yield searcher


class Memory(NamedTuple):
    """Resident bytes."""

    server: int
    candidate: int

    @classmethod
    def now(cls) -> Memory:
        """Look at this process and at those below it."""
        own = psutil.Process(os.getpid())
        below = [child.memory_info().rss for child in own.children(recursive=True)]
        return cls(own.memory_info().rss, max(below, default=0))


class Group(NamedTuple):
    """One group of questions, asked one way."""

    times_ns: list[int]
    elapsed_ns: int
    """From the first question to the last line of the log."""


def ask(
    searcher: Searcher | Shadowed, texts: Sequence[str], comparison: Comparison, room: int
) -> Group:
    """Ask every question; a full queue is waited for off the clock of the question."""
    found = []
    begun = perf_counter_ns()
    for text in texts:
        while comparison.waiting >= room:
            sleep(NAP_S)
        start = perf_counter_ns()
        searcher.search(text, K)
        found.append(perf_counter_ns() - start)
    if not comparison.drain(DRAIN_S):
        raise SystemExit("the candidate does not come to an end")
    return Group(found, perf_counter_ns() - begun)


def cell(times: dict[str, list[Group]], way: str, part: int) -> str:
    """Ratio to the control alone: median, lowest and highest over the groups."""
    ratios = [
        float(np.percentile(own.times_ns, part) / np.percentile(alone.times_ns, part))
        for own, alone in zip(times[way], times[ALONE], strict=False)
    ]
    return f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


def rate(groups: Sequence[Group]) -> float:
    """Questions a second, from the first one to the last line of the log."""
    asked = sum(len(group.times_ns) for group in groups)
    return asked / (sum(group.elapsed_ns for group in groups) / NS)


def report(times: dict[str, list[Group]], log: Path, memory: Sequence[Memory]) -> None:
    """Print what was measured."""
    size = sum(path.stat().st_size for path in log.iterdir())
    read = streams.read(log)
    tally = read.tally
    alone = np.concatenate([group.times_ns for group in times[ALONE]]) / 1e6
    server = [now.server / MIB for now in memory]
    candidate = [now.candidate / MIB for now in memory]
    bare, per_second = rate(times[ALONE]), rate(times[SHADOW])
    rows = [f"| {way} | {cell(times, way, 50)} | {cell(times, way, 99)} |" for way in WAYS[1:]]
    middle, slow = np.percentile(alone, (50, 99))
    adds_up = f"{tally.compared} + {tally.errored} + {tally.skipped} + {tally.shed}"
    half = len(memory) // 2
    say("| way | p50 | p99 |", "| --- | --- | --- |", *rows, "")
    say(f"control alone: p50 {middle:.2f} ms, p99 {slow:.2f} ms, {bare:.1f} a second")
    say(f"in shadow: {per_second:.1f} a second, {per_second / bare:.3f} of the control alone")
    say(f"attempted {tally.attempted} = compared + errored + skipped + shed = {adds_up}")
    say(f"missing {read.missing}, diverged {len(read.divergences)}")
    say(f"log: {size / MIB:.1f} MiB, {size / max(tally.attempted, 1):.0f} bytes an attempt")
    for name, held in (("server", server), ("candidate", candidate)):
        say(f"memory of the {name}: {held[0]:.0f}, {held[half]:.0f}, {held[-1]:.0f} MiB"
            " after the first group, half way, at the end")  # fmt: skip


def say(*lines: str) -> None:
    """Print."""
    print(*lines, sep="\n", flush=True)  # noqa: T201  the output


def main() -> None:
    """Print the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", type=Path, default=Path("../shared/datasets"))
    parser.add_argument("--questions", type=int, default=100_000)
    parser.add_argument("--groups", type=int, default=40)
    parser.add_argument("--paired", type=int, default=10)
    parser.add_argument("--words", type=int, default=5)
    parser.add_argument("--settings", type=Path, default=Path("policy/shadow.toml"))
    given = parser.parse_args()
    settings = unhurried(read_settings(given.settings))
    room = settings.limits.in_flight + settings.limits.queue
    with TemporaryDirectory() as folder:
        root = Path(folder)
        texts = questions(given.shared, given.words, given.questions)
        held = documents(given.shared, PAPERS)
        for name in (CONTROL, CANDIDATE):
            (root / name).mkdir()
            arms.load(name, root / "cache").engine.build(held, root / name)
        del held
        gc.collect()
        log = ShadowLog(root / "log", settings)
        opens = partial(opened, CANDIDATE, root / CANDIDATE)
        size = -(-len(texts) // given.groups)
        times: dict[str, list[Group]] = {way: [] for way in WAYS}
        beside: list[Group] = []
        memory = []
        with (
            opened(CONTROL, root / CONTROL) as control,
            log.compared(opens, between=BETWEEN, process=True) as comparison,
        ):
            shadowed = Shadowed(control, comparison)
            every = max(1, given.groups // given.paired)
            with suppress(KeyboardInterrupt):
                for number in track(range(given.groups), "asking", transient=True):
                    part = texts[number * size : (number + 1) * size]
                    turn = number // every
                    ways = WAYS if number % every == 0 else (SHADOW,)
                    for at in range(len(ways)):
                        way = ways[(turn + at) % len(ways)]
                        searcher = shadowed if way == SHADOW else control
                        group = ask(searcher, part, comparison, room)
                        kept = times[way] if len(ways) > 1 else beside
                        kept.append(group)
                    memory.append(Memory.now())
        say(f"{rate([*times[SHADOW], *beside]):.1f} a second over all groups in shadow")
        report(times, log.folder, memory)


if __name__ == "__main__":
    main()
