"""Measures of whole runs, ours beside pytrec_eval, ranx and ir-measures: docs/speed-measures.md.

    python3 run.py python benchmarks/measures.py --peers PEERS/bin/python --queries 1000 10000

``PEERS`` is an environment of its own with ``pytrec_eval-terrier``, ``ranx``, ``ir-measures``,
``numba`` and ``pyarrow``. Every contestant is a process that times itself; they take turns round by
round, and the median of the rounds counts, of time and of processor time: on a machine that others
use too, the second moves less. 100 hits a query, 20 judgements, half of them shown.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HITS, JUDGED, SEED = 100, 20, 7
GRADES = (0, 0, 0, 1, 1, 2, 3)
WORKER = Path(__file__).with_name("measures_worker.py")
CONTESTANTS = (
    "ours-coded", "ours-run", "ours-score", "pytrec-native", "ranx-native", "irmeasures-native",
)  # fmt: skip
AGREE = 1e-9


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def make(folder: Path, queries: int, documents: int) -> None:
    """Write a run in rank order and judgements as flat tables of strings."""
    rng = np.random.default_rng(SEED)
    shown = np.stack([
        rng.choice(documents, HITS, replace=False) for _ in range(min(queries, 1000))
    ])
    turn = np.arange(queries) // len(shown) * 7919
    docs = (shown[np.arange(queries) % len(shown)] + turn[:, None]) % documents
    picked = rng.random((queries, HITS)).argsort(axis=1)[:, : JUDGED // 2]
    other = (docs[:, :1] + 1 + rng.random((queries, 3 * JUDGED)).argsort(axis=1)) % documents
    found = [
        list(dict.fromkeys([*docs[q, picked[q]].tolist(), *other[q].tolist()]))[:JUDGED]
        for q in range(queries)
    ]
    judged = np.array(found)
    names = pa.array([f"doc-{at:08}" for at in range(documents)])
    ids = pa.array([f"query-{at:07}" for at in range(queries)])
    score = np.linspace(30, 1, HITS)
    columns = {
        "query_id": ids.take(pa.array(np.repeat(np.arange(queries), HITS))),
        "doc_id": names.take(pa.array(docs.ravel())),
        "score": np.tile(score, queries),
    }
    pq.write_table(pa.table(columns), folder / "run.parquet")
    columns = {
        "query_id": ids.take(pa.array(np.repeat(np.arange(queries), JUDGED))),
        "doc_id": names.take(pa.array(judged.ravel())),
        "grade": rng.choice(GRADES, judged.size),
    }
    pq.write_table(pa.table(columns), folder / "qrels.parquet")


def race(
    folder: Path, names: Sequence[str], peers: str, rounds: int
) -> dict[str, list[dict[str, float]]]:
    """Take turns; every round of every contestant."""
    env = {**os.environ, "PYTHONPATH": str(WORKER.parent.parent), "PYTHONWARNINGS": "ignore"}
    running = {
        name: subprocess.Popen(  # noqa: S603  our own worker
            [sys.executable if name.startswith("ours") else peers, WORKER, name, folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env,
        )
        for name in names
    }  # fmt: skip
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    try:
        for process in running.values():
            _said(process)
        for _ in range(rounds):
            for name, process in running.items():
                process.stdin.write("go\n")
                process.stdin.flush()
                found[name].append(json.loads(_said(process)))
    finally:
        for process in running.values():
            process.stdin.close()
            process.wait()
    return found


def _said(process: subprocess.Popen[str]) -> str:
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"{process.args[2]} ended with code {process.wait()}")
    return line


def show(queries: int, found: dict[str, list[dict[str, float]]]) -> None:
    """Print a row for each contestant, and what it is to the peers."""
    seconds = {name: median(row["seconds"] for row in rows) for name, rows in found.items()}
    cpu = {name: median(row["cpu"] for row in rows) for name, rows in found.items()}
    extra = {name: max(row["extra"] for row in rows) for name, rows in found.items()}
    for name, rows in found.items():
        ratios = [
            f"{of[f'{peer}-native'] / of[name]:.1f}" if f"{peer}-native" in of else "-"
            for of in (seconds, cpu)
            for peer in ("pytrec", "ranx")
        ]
        memory = extra[name] / max(extra.get("pytrec-native", 0), 1)
        say(
            f"| {queries:,} | {name} | {seconds[name] * 1e3:,.1f} |"
            f" {cpu[name] * 1e3:,.1f} | {' | '.join(ratios)} |"
            f" {extra[name] / 1e6:,.1f} | {memory:.2f} |"
        )
        check = found["ours-coded"][0]["means"]
        apart = [abs(a - b) for a, b in zip(check, rows[0]["means"], strict=True)]
        apart[1] = 0.0 if name.startswith("pytrec") else apart[1]
        if max(apart) > AGREE:
            say(f"  {name} says other means: {rows[0]['means']} for {check}")


def cold(folder: Path) -> float:
    """Seconds of a process that reads both tables, computes the five means and ends."""
    code = (
        "import sys; from pathlib import Path; import pyarrow.parquet as pq;"
        "from benchmarks.measures_worker import contestant;"
        "t = [pq.read_table(Path(sys.argv[1]) / f'{n}.parquet') for n in ('run', 'qrels')];"
        "print(contestant('ours-run', *t)())"
    )
    env = {**os.environ, "PYTHONPATH": str(WORKER.parent.parent)}
    start = perf_counter()
    words = [sys.executable, "-c", code, folder]
    subprocess.run(words, env=env, check=True, capture_output=True)  # noqa: S603  our own code
    return perf_counter() - start


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Measures of whole runs beside other libraries.")
    parser.add_argument("--peers", required=True, help="Python of the environment of the peers.")
    parser.add_argument("--queries", type=int, nargs="+", required=True)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--contestants", nargs="+", default=CONTESTANTS)
    asked = parser.parse_args()
    say(
        "| queries | contestant | ms | CPU ms | x pytrec_eval | x ranx | CPU x pytrec_eval |"
        " CPU x ranx | extra MB | of pytrec_eval |"
    )
    say("| ---: | --- |" + " ---: |" * 8)
    for queries in asked.queries:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make(folder, queries, asked.documents)
            show(queries, race(folder, asked.contestants, asked.peers, asked.rounds))
            if queries == min(asked.queries):
                times = [cold(folder) for _ in range(asked.rounds)]
                say(f"cold process, {queries:,} queries: {median(times):.2f} s")


if __name__ == "__main__":
    main()
