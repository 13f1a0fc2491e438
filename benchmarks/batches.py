"""What sharing costs and brings: replay by a bare loop, in batches, by processes, by Dask.

    python3 run.py python benchmarks/batches.py --queries 20000 --workers 2

Indexes 2,600 documents of python-docs with FTS5, runs the queries of the set over and over in each
way, side by side, and tells the medians of the rounds. ``--dask`` starts a scheduler and workers.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from engines import registry
from harness.cli.base.project import Project
from harness.core.batches.batch import Executor
from harness.core.batches.cluster import cluster
from harness.core.batches.inline import Inline
from harness.core.batches.mapping import using
from harness.core.batches.processes import processes
from harness.core.records import Query
from harness.core.run import Run
from harness.corpus.prepared import Prepared
from harness.replay.ask import observe
from harness.replay.drive import drive
from harness.stages.index import index
from harness.stages.layout import Layout
from harness.stages.prepare import prepare
from harness.stages.replay.stage import OpenedIndex

NAME, ARM, K, LIMIT_S = "python-docs", "fts5", 100, 10.0


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser(description="Replay in batches.")
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dask", action="store_true", help="Start a scheduler and workers too.")
    asked = parser.parse_args()
    project = Project.here()
    with TemporaryDirectory() as name, ExitStack() as until:
        folder = Path(name)
        layout = Layout(folder / "build" / NAME, folder / "perf", folder / "cache")
        prepare(project.root / "datasets" / NAME, project.root / "qrels" / NAME, layout.data)
        made = index(layout, ARM, folder)
        data = Prepared.open(layout.data).queries()
        queries = [
            Query(f"{data[at % len(data)].query_id}-{at}", data[at % len(data)].text)
            for at in range(asked.queries)
        ]
        arm = registry.load(ARM, folder)
        searcher = until.enter_context(arm.open(layout.index(ARM)))
        opener = OpenedIndex(layout, arm.path, folder, made)
        rounds = iter(range(10_000))

        def bare() -> None:
            seen = [observe(searcher, query, K, int(LIMIT_S * 1e9)) for query in queries]
            Run.of(ARM, [one.row for one in seen])

        def by(executor: Executor) -> Callable[[], None]:
            def replay() -> None:
                with using(executor):
                    drive(
                        ARM, searcher, queries, k=K, time_limit_s=LIMIT_S, seed=1,
                        parts=folder / str(next(rounds)), code_sha256="x",
                        advance=lambda _: None, opener=opener,
                    )  # fmt: skip

            return replay

        pool = until.enter_context(processes(asked.workers, folder / "x", _tell))
        ways = {"bare loop": bare, "in batches": by(Inline())}
        ways[f"{asked.workers} processes"] = by(pool)
        if asked.dask:
            from distributed import LocalCluster

            local = until.enter_context(
                LocalCluster(asked.workers, threads_per_worker=1, dashboard_address=None)
            )
            ways[f"{asked.workers} workers of Dask"] = by(
                until.enter_context(cluster(local.scheduler_address, folder / "x", _tell))
            )
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for at in range(asked.rounds + 1):
            for way, run in ways.items():
                began = perf_counter()
                run()
                if at:  # the first opens the index in each process
                    seconds[way].append(perf_counter() - began)
        usual = {way: median(taken) for way, taken in seconds.items()}
        ratio = [b / a for a, b in zip(seconds["bare loop"], seconds["in batches"], strict=True)]
        for way, taken in usual.items():
            sys.stdout.write(f"{way}: {taken:.2f} s, {usual['in batches'] / taken:.2f}x\n")
        sys.stdout.write(f"batches over the bare loop: {100 * (median(ratio) - 1):+.1f} %\n")


def _tell(said: str) -> None:
    sys.stderr.write(f"{said}\n")


if __name__ == "__main__":
    main()
