"""What a candidate in the shadow costs who is served: a Markdown table.

    python3 run.py python benchmarks/shadow.py
    python3 run.py python benchmarks/shadow.py --queries 200 --rounds 3 --gap-ms 0

SQLite FTS5 serves, Tantivy is the candidate, both over the embedded documentation (made by
``harness stage prepare``). A block asks every query once, with a pause of ``--gap-ms`` between
two, and each way has one block a round, in an order that moves on by one each time; before the
next block everything is compared and written. All ways ask the same open control. A percentile is
of a block, a ratio is to the control alone of the same round, and what stands in the table is the
median over rounds with the lowest and the highest. "alone, again" is the same as "alone": no ratio
says more than that one lets it.
"""

import argparse
import gc
import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns, sleep

import numpy as np

from harness.core.engine import Searcher
from harness.corpus.prepared import Prepared
from harness.shadow.comparison import LiveComparison, Shadowed
from harness.shadow.settings import MILLION, Sampling, read_settings
from harness.shadow.worker import ProcessWorker
from harness_engines import registry as arms

CONTROL, CANDIDATE = "fts5", "tantivy"
SEED, K = 20_261_122, 10
SECOND = 1_000_000_000
SETTINGS = read_settings(Path(__file__).resolve().parent.parent / "policy" / "shadow.toml")
LIMITS = SETTINGS.limits.model_copy(update={"budget_s": 60.0, "hang_ms": 2_000.0})
ALONE, AGAIN = "alone", "alone, again"
WAYS = {"every query": MILLION, "one in ten": 97_003}


@contextmanager
def opened(name: str, index: Path) -> Iterator[Searcher]:
    """Open an arm's index; in a process of its own too."""
    with arms.load(name, index.parent / "cache").engine.open(index) as searcher:
        yield searcher


def compared(folder: Path, index: Path, rate: int) -> LiveComparison:
    """Open the candidate in the shadow."""
    opens = partial(opened, CANDIDATE, index)
    sampling = Sampling(rate=rate, seed=SEED)
    settings = SETTINGS.model_copy(update={"sampling": sampling, "limits": LIMITS})
    return LiveComparison(folder, partial(ProcessWorker, opens, LIMITS), settings)


def block(searcher: Searcher | Shadowed, texts: Sequence[str], gap_s: float) -> list[int]:
    """Ask every query once; nanoseconds each."""
    found = []
    for text in texts:
        start = perf_counter_ns()
        searcher.search(text, K)
        found.append(perf_counter_ns() - start)
        if gap_s:
            sleep(gap_s)
    return found


def cell(ratios: Sequence[float]) -> str:
    """Median, lowest and highest."""
    return f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


def report(times: dict[str, list[list[int]]]) -> None:
    """Print the ratios to the control alone."""
    lines = ["| way | p50 | p99 |", "| --- | --- | --- |"]
    for name in list(times)[1:]:
        ratios = [
            cell([np.percentile(own, part) / np.percentile(alone, part) for own, alone in
                  zip(times[name], times[ALONE], strict=True)])
            for part in (50, 99)
        ]  # fmt: skip
        lines.append(f"| {name} | {ratios[0]} | {ratios[1]} |")
    alone = np.concatenate(times[ALONE]) / 1e3
    last = f"\nalone: p50 {np.percentile(alone, 50):.0f} us, p99 {np.percentile(alone, 99):.0f} us"
    print(*lines, last, sep="\n")  # noqa: T201  the output


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("build/python-docs/data"))
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--gap-ms", type=float, default=4)
    given = parser.parse_args()
    data = Prepared.open(given.data)
    texts = [query.text for query in data.queries()][: given.queries]
    with TemporaryDirectory() as folder, ExitStack() as stack:
        root = Path(folder)
        for name in (CONTROL, CANDIDATE):
            (root / name).mkdir()
            arms.load(name, root / "cache").engine.build(data.documents(), root / name)
        control = stack.enter_context(opened(CONTROL, root / CONTROL))
        comparisons = {
            name: stack.enter_context(compared(root / name, root / CANDIDATE, rate))
            for name, rate in WAYS.items()
        }
        ways: dict[str, Searcher | Shadowed] = {ALONE: control, AGAIN: control}
        ways |= {name: Shadowed(control, one) for name, one in comparisons.items()}
        times: dict[str, list[list[int]]] = {name: [] for name in ways}
        names = list(ways)
        gc.freeze()
        for number in range(given.rounds + 1):
            for at in range(len(names)):
                name = names[(at + number) % len(names)]
                found = block(ways[name], texts, given.gap_ms / 1000)
                for one in comparisons.values():
                    one.drain(60)
                if number:
                    times[name].append(found)
        report(times)


if __name__ == "__main__":
    main()
