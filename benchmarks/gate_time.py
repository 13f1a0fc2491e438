"""Processor time of ``harness gate`` in two checkouts, in turn, on data that both have measured.

    python3 run.py python benchmarks/gate_time.py OLDER NEWER --dataset adi

In each: a policy of two arms in ``params.yaml``, then import, prepare, index, replay, score and
compare.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path


def seconds(checkout: Path, dataset: str) -> float:
    """Return the processor time of one decision by the code of ``checkout``."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(  # noqa: S603  this interpreter
        [sys.executable, "-m", "harness", "gate", "--dataset", dataset, "--exit-zero"],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print the median of each checkout, and the ratio of each turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("older", type=Path)
    parser.add_argument("newer", type=Path)
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--turns", type=int, default=6)
    asked = parser.parse_args()
    both = asked.older.resolve(), asked.newer.resolve()
    turns = []
    for turn in range(asked.turns):
        order = both if turn % 2 else both[::-1]
        took = {checkout: seconds(checkout, asked.dataset) for checkout in order}
        turns.append([took[checkout] for checkout in both])
    for checkout, each in zip(both, zip(*turns, strict=True), strict=True):
        print(f"{checkout}: {statistics.median(each):.2f} s")  # noqa: T201  the output
    ratios = sorted(newer / older for older, newer in turns)
    print(f"newer / older: {', '.join(f'{one:.2f}' for one in ratios)}")  # noqa: T201  the output


if __name__ == "__main__":
    main()
