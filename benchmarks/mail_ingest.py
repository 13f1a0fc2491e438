"""Messages written while they are searched, and what that costs the searches: a Markdown table.

    python3 run.py python benchmarks/mail_ingest.py --messages 100000 --rate 1000

One index is searched alone, then while a second thread writes at a fixed rate in batches of one
transaction each. Searches follow the journal, so an answer has every message that was written
before it was asked for. "Behind" is how late the last batch was written; where it grows, the rate
is more than the machine bears. The ratio compares times of the same queries, in the same process.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from time import perf_counter, sleep
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.made import base
from benchmarks.mail_corpus import SEED, messages, questions
from engines import registry
from engines.stacks.agent_mail import ingest
from engines.stacks.agent_mail.arm import STORE
from engines.stacks.agent_mail.contract.lifecycle import Message
from harness.core.engine import Searcher

TYPED = 10


class Wrote(NamedTuple):
    """What a writer did."""

    rate: float
    """Messages a second of the time that it worked."""
    busy: float
    """Share of the time in which it wrote."""
    behind_s: float


@dataclass
class Writer:
    """Writes messages on a schedule until it is stopped."""

    path: Path
    given: Sequence[Message]
    rate: int
    batch: int
    done: Wrote | None = None

    def drafts(self) -> Iterator[list[ingest.Draft]]:
        """Yield batches of messages without end."""
        at = 0
        while True:
            part = [self.given[(at + step) % len(self.given)] for step in range(self.batch)]
            at += self.batch
            yield [
                ingest.Draft(m.project_id, m.subject, m.body, m.sender_name, m.recipients)
                for m in part
            ]

    def work(self, stop: Event) -> None:
        """Write each batch when it is due; later ones do not wait for a slow one."""
        start, wrote, busy, behind = perf_counter(), 0, 0.0, 0.0
        with ingest.opened(self.path) as store:
            for drafts in self.drafts():
                due = start + wrote / self.rate
                sleep(max(0.0, due - perf_counter()))
                if stop.is_set():
                    break
                begun = perf_counter()
                store.insert_all(drafts)
                wrote += len(drafts)
                busy += perf_counter() - begun
                behind = max(0.0, perf_counter() - (start + wrote / self.rate))
        took = perf_counter() - start
        self.done = Wrote(wrote / took, busy / took, behind)


@contextmanager
def writing(writer: Writer) -> Iterator[None]:
    """Write beside what is done meanwhile."""
    stop = Event()
    thread = Thread(target=writer.work, args=[stop])
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def searched(searcher: Searcher, texts: Sequence[str], seconds: float) -> NDArray[np.float64]:
    """Search for the texts in turn for so long; give milliseconds of each search."""
    took: list[float] = []
    until = perf_counter() + seconds
    while perf_counter() < until:
        start = perf_counter()
        searcher.search(texts[len(took) % len(texts)], TYPED)
        took.append((perf_counter() - start) * 1e3)
    return np.array(took)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Messages written while they are searched.")
    parser.add_argument("--messages", type=int, required=True)
    parser.add_argument("--rate", type=int, default=1_000, help="Messages a second.")
    parser.add_argument("--batches", default="1,10,100", help="Messages of a transaction.")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--arm", default="mail-fts5")
    given = parser.parse_args()
    made = messages(given.messages)
    texts = questions(made, 100)
    print("| searched | written/s | writer busy | behind s | p50 ms | p99 ms | p99 by alone |")  # noqa: T201  the output
    print("|---|---:|---:|---:|---:|---:|---:|")  # noqa: T201  as above
    for batch in map(int, given.batches.split(",")):
        with TemporaryDirectory() as name:
            index = Path(name, "index")
            index.mkdir()
            engine = registry.load(given.arm, Path(name, "cache")).engine
            engine.build(base(SEED, given.messages), index)
            with engine.open(index) as searcher:
                searched(searcher, texts, given.seconds / 4)
                alone = np.percentile(searched(searcher, texts, given.seconds), [50, 99])
                writer = Writer(index / STORE, made, given.rate, batch)
                with writing(writer):
                    beside = np.percentile(searched(searcher, texts, given.seconds), [50, 99])
        print(f"| alone | | | | {alone[0]:.2f} | {alone[1]:.2f} | 1.00 |")  # noqa: T201  as above
        if writer.done is None:
            raise SystemExit("the writer failed; see above")
        wrote = f"{writer.done.rate:,.0f} | {writer.done.busy:.0%} | {writer.done.behind_s:.2f}"
        ratio = beside[1] / alone[1]
        print(f"| batches of {batch} | {wrote} | {beside[0]:.2f} | {beside[1]:.2f} | {ratio:.2f} |")  # noqa: T201  as above


if __name__ == "__main__":
    main()
