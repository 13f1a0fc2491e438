"""``harness table`` from a cold start, beside ranx.compare and ir-measures with scipy.

    python3 run.py python benchmarks/paper_table.py --peers PEERS/bin/python

Ten runs, five measures, 250 topics, all pairs by a test of 10,000 permutations: ranx's own, and
scipy's for ir-measures. Each is a new process; they take turns, and medians are printed. PEERS has
``ranx``, ``ir-measures`` and ``scipy``.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

RUNS, TOPICS, HITS, JUDGED = 10, 250, 100, 20
MEASURES = ("nDCG@10", "RR@10", "P@10", "R@100", "AP@100")
RANX = ("ndcg@10", "mrr@10", "precision@10", "recall@100", "map@100")
BY_RANX = """
from ranx import Qrels, Run, compare; import sys; _, folder, names = sys.argv
runs = [Run.from_file(f"{folder}/r{n}.trec", kind="trec") for n in range(10)]
qrels = Qrels.from_file(f"{folder}/qrels.trec", kind="trec")
compare(qrels, runs, names.split(","), n_permutations=10_000, make_comparable=True)
"""
BY_IR_MEASURES = """
import sys; from itertools import combinations; import ir_measures, numpy as np
from scipy.stats import permutation_test
_, folder, names = sys.argv
measures = [ir_measures.parse_measure(name) for name in names.split(",")]
qrels = list(ir_measures.read_trec_qrels(f"{folder}/qrels.trec"))
found = []
for n in range(10):
    run = list(ir_measures.read_trec_run(f"{folder}/r{n}.trec"))
    values = {m: {} for m in measures}
    for one in ir_measures.iter_calc(measures, qrels, run):
        values[one.measure][one.query_id] = one.value
    found.append({m: np.array([of[q] for q in sorted(of)]) for m, of in values.items()})
for m in measures:
    for a, b in combinations(found, 2):
        permutation_test((a[m], b[m]), lambda x, y, axis: (x - y).mean(axis), vectorized=True,
                         permutation_type="samples", n_resamples=10_000)
"""


def make(folder: Path) -> None:
    """Write judgements and runs."""
    rng = np.random.default_rng(7)
    grades = rng.integers(0, 3, (TOPICS, JUDGED))
    judged = (f"q{q} 0 d{doc} {grades[q, doc]}\n" for q in range(TOPICS) for doc in range(JUDGED))
    (folder / "qrels.trec").write_text("".join(judged))
    for run in range(RUNS):
        found = (rng.permutation(JUDGED * (run + 5))[:HITS] for _ in range(TOPICS))
        rows = (f"q{q} Q0 d{d} 1 {-n} r\n" for q, of in enumerate(found) for n, d in enumerate(of))
        (folder / f"r{run}.trec").write_text("".join(rows))


def main() -> None:
    """Run the ways in turns."""
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--peers", default=sys.executable)
    given.add_argument("--rounds", type=int, default=3)
    args = given.parse_args()
    with tempfile.TemporaryDirectory() as name:
        make(Path(name))
        ours = [sys.executable, "-m", "harness", "table", "--measures", ",".join(MEASURES)]
        ours += ["--qrels", f"{name}/qrels.trec", *(f"{name}/r{n}.trec" for n in range(RUNS))]
        contestants = {
            "harness table": ours,
            "ranx.compare": [args.peers, "-c", BY_RANX, name, ",".join(RANX)],
            "ir-measures": [args.peers, "-c", BY_IR_MEASURES, name, ",".join(MEASURES)],
        }
        taken: dict[str, list[tuple[float, float]]] = {who: [] for who in contestants}
        for _ in range(args.rounds):
            for who, words in contestants.items():
                before, start = sum(os.times()[2:4]), perf_counter()
                subprocess.run(words, check=True, stdout=subprocess.DEVNULL)  # noqa: S603  ours
                taken[who].append((sum(os.times()[2:4]) - before, perf_counter() - start))
    for who, times in taken.items():
        spent, wall = map(median, zip(*times, strict=True))
        print(f"{who:<16} {spent:6.2f} s of a processor, {wall:6.2f} s")  # noqa: T201


if __name__ == "__main__":
    main()
