"""What documents and queries cost: hours, gigabytes and money, from unit costs measured here.

    python3 run.py python benchmarks/capacity.py --sizes 10000,100000 --queries 500

Generated messages are prepared, indexed, replayed, scored and compared at each size, each in a
process of its own. What a stage takes of three messages is taken off as its fixed part. The growth
between the last two sizes is carried on to larger ones: an extrapolation, and no measurement.
``--documents 1e8 --all-queries 1e6 --cores 64 --price 0.04`` gives one case of yours.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import NamedTuple

import numpy as np

from engines.vector.scan import nearest
from harness.cli.base.project import Project
from harness.collections.agent_mail.changes import base
from harness.stages.compare.stage import compare
from harness.stages.imports.collections import Target, import_beir
from harness.stages.imports.report import About
from harness.stages.index import index
from harness.stages.layout import Layout
from harness.stages.prepare import prepare
from harness.stages.replay.stage import replay
from harness.stages.score.stage import score

NAME, SEED, WORDS = "messages", 20_260_101, 3
ARMS = ("fts5", "tantivy", "dense")
FIXED, EMBEDDED = 3, 500
"""Documents of the run that shows each stage's fixed part, and of the one that embeds."""
DIMENSION, SCANNED, SCANS = 384, 100_000, 9
DECADES = range(3, 10)
MEMORY_GIB, LIMIT_S, DAY_H = 24, 10.0, 24
VECTOR_BYTES = DIMENSION * 2
VALUES_BYTES = 12 * 8
"""Of one query and arm: a dozen measures."""


class Cost(NamedTuple):
    """What one stage took at one size."""

    stage: str
    documents: int
    queries: int
    seconds: float
    bytes: int = 0


class Growth(NamedTuple):
    """Seconds each at ``size`` documents, growing with their power ``exponent``."""

    each: float
    size: int
    exponent: float = 0.0
    scan: float = 0.0
    """Seconds more for each document: a search that looks at every vector."""

    def at(self, documents: float) -> float:
        """Carry it on to another size."""
        return self.each * (documents / self.size) ** self.exponent + self.scan * documents


def main() -> None:
    """Measure, then print the unit costs and the table of decades."""
    parser = argparse.ArgumentParser(description="Unit costs, and what they come to.")
    parser.add_argument("--sizes", default="10000,100000")
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--one", nargs=2, metavar=("SIZE", "ARMS"), help=argparse.SUPPRESS)
    parser.add_argument("--documents", type=float)
    parser.add_argument("--all-queries", type=float)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--price", type=float, default=0.05, help="Of a core, by the hour.")
    asked = parser.parse_args()
    if asked.one:
        _measure(int(asked.one[0]), asked.queries, asked.one[1].split(","))
        return
    sizes = [int(size) for size in asked.sizes.split(",")]
    words, vectors = ARMS[:2], ARMS[2:]
    fixed = {cost.stage: cost for cost in _apart(FIXED, FIXED, ARMS)}
    costs = [cost for size in sizes for cost in _apart(size, asked.queries, words)]
    costs += [
        cost
        for cost in _apart(EMBEDDED, EMBEDDED, vectors)
        if "dense" in cost.stage or cost.stage == "scan"
    ]
    _units(fixed, costs)
    grown, sizes_of = _grown(fixed, costs), {c.stage: c.bytes / c.documents for c in costs}
    cases = [(10.0**at, 10.0 ** (at - 1)) for at in DECADES]
    if asked.documents:
        cases = [(asked.documents, asked.all_queries or asked.documents / 10)]
    _table(grown, sizes_of, cases, asked.cores, asked.price)


def _apart(size: int, queries: int, arms: Sequence[str]) -> Iterator[Cost]:
    """Measure one size in a new process, so that its peak of memory is its own."""
    program = [sys.executable, __file__, "--one", str(size), ",".join(arms)]
    done = subprocess.run(  # noqa: S603  this file, with sizes
        [*program, "--queries", str(queries)], check=True, stdout=subprocess.PIPE, text=True
    )
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            yield Cost(**json.loads(line))


def _measure(size: int, queries: int, arms: Sequence[str]) -> None:
    """Take one size through the pipeline, a line of JSON a stage."""
    params = Project.here().params
    with TemporaryDirectory() as name:
        root = Path(name)
        asked = _collection(root / "beir", size, queries)
        about = About("Generated messages", "benchmarks/capacity.py", "CC0-1.0")
        to = root / "datasets", root / "qrels"
        import_beir(root / "beir", Target(NAME, *to, split="test", about=about))
        layout, cache = Layout(root / "build" / NAME, root / "perf", root / "cache"), root / "cache"

        def timed(stage: str, work: Callable[[], object], made: Path | None = None) -> None:
            began = perf_counter()
            work()
            taken = perf_counter() - began
            files = [path for path in made.rglob("*") if path.is_file()] if made else []
            _tell(Cost(stage, size, asked, taken, sum(path.stat().st_size for path in files)))

        timed("prepare", lambda: prepare(to[0] / NAME, to[1] / NAME, layout.data))
        for arm in arms:
            timed(f"index {arm}", lambda a=arm: index(layout, a, cache), layout.index(arm))  # type: ignore[misc]
            timed(f"replay {arm}", lambda a=arm: replay(layout, a, cache, params.replay))  # type: ignore[misc]
        timed("score", lambda: score(layout, arms, params.score))
        pair, inference = (arms[0], arms[-1]), params.score.inference()
        timed("compare", lambda: compare(layout, [pair], params.compare, inference))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        _tell(Cost("peak", size, asked, 0.0, peak))
        if "dense" in arms:
            _tell(Cost("scan", SCANNED, 1, _scan()))


def _tell(cost: Cost) -> None:
    sys.stdout.write(json.dumps(cost._asdict()) + "\n")
    sys.stdout.flush()


def _scan() -> float:
    """Give the seconds of one exact search of vectors, the median of a few."""
    rng, taken = np.random.default_rng(SEED), []
    vectors = (rng.standard_normal((SCANNED, DIMENSION)) / DIMENSION**0.5).astype(np.float16)
    for _ in range(SCANS):
        query = rng.standard_normal(DIMENSION).astype(np.float32)
        began = perf_counter()
        nearest(vectors, query, 100)
        taken.append(perf_counter() - began)
    return median(taken)


def _collection(folder: Path, size: int, queries: int) -> int:
    """Write messages, and words of some of them as queries; give how many queries there are."""
    drawn, rng = [], Random(SEED)
    (folder / "qrels").mkdir(parents=True)
    with (folder / "corpus.jsonl").open("w") as corpus:
        for at, document in enumerate(base(SEED, size)):
            row = {"_id": document.doc_id, "title": document.title, "text": document.text}
            corpus.write(json.dumps(row) + "\n")
            if at % max(size // queries, 1) == 0 and len(drawn) < queries:
                drawn.append(document)
    rows, judged = [], ["query-id\tcorpus-id\tscore"]
    for at, document in enumerate(drawn):
        words = sorted(set(f"{document.title} {document.text}".split()))
        text = " ".join(rng.sample(words, min(WORDS, len(words))))
        rows.append(json.dumps({"_id": f"q{at}", "text": text}))
        judged.append(f"q{at}\t{document.doc_id}\t1")
    for path, lines in (("queries.jsonl", rows), ("qrels/test.tsv", judged)):
        (folder / path).write_text("\n".join(lines) + "\n")
    return len(drawn)


def _each(cost: Cost, fixed: Mapping[str, Cost]) -> float:
    """Seconds a document or a query, without the fixed part of the stage."""
    by_document = cost.stage.startswith(("prepare", "index", "scan"))
    free = fixed[cost.stage].seconds if cost.stage in fixed and cost.stage != "scan" else 0.0
    return max(cost.seconds - free, 0.0) / (cost.documents if by_document else cost.queries)


def _units(fixed: Mapping[str, Cost], costs: Sequence[Cost]) -> None:
    head = ["stage", "documents", "queries", "seconds", "fixed part", "ms each", "bytes a document"]
    _row(head)
    _row(["---", *["---:"] * (len(head) - 1)])
    for cost in costs:
        size = [f"{cost.documents:,}", f"{cost.queries:,}"]
        if cost.stage == "peak":
            _row(["memory at most", *size, "", "", "", f"{cost.bytes / 2**20:,.0f} MiB in all"])
            continue
        free = f"{fixed[cost.stage].seconds:.2f}" if cost.stage != "scan" else ""
        each = f"{1e3 * _each(cost, fixed):.4f}"
        held = f"{cost.bytes / cost.documents:,.0f}" if cost.bytes else ""
        _row([cost.stage, *size, f"{cost.seconds:.2f}", free, each, held])


def _grown(fixed: Mapping[str, Cost], costs: Sequence[Cost]) -> Mapping[str, Growth]:
    """Fit how each unit grows with the documents, by the last two sizes."""
    (scan,) = [_each(cost, fixed) for cost in costs if cost.stage == "scan"] or [0.0]
    found = {}
    for stage in dict.fromkeys(cost.stage for cost in costs if cost.stage not in {"peak", "scan"}):
        mine = sorted((c for c in costs if c.stage == stage), key=lambda cost: cost.documents)
        each, exponent = [_each(cost, fixed) for cost in mine], 0.0
        if len(mine) > 1 and stage.startswith(("index", "replay")) and min(each[-2:]) > 0:
            grew = mine[-1].documents / mine[-2].documents
            exponent = max(math.log(each[-1] / each[-2]) / math.log(grew), 0.0)
        more = 2 * scan if stage == "replay dense" else 0.0
        found[stage] = Growth(each[-1], mine[-1].documents, exponent, more)
    return found


def _table(
    grown: Mapping[str, Growth],
    sizes: Mapping[str, float],
    cases: Sequence[tuple[float, float]],
    cores: int,
    price: float,
) -> None:
    sys.stdout.write(
        f"\n{cores} cores at {price} an hour each; the replay asks each query twice.\n\n"
    )
    head = ["documents", "queries", *[f"{arm}: hours, GB" for arm in ARMS], "money", "beyond"]
    _row(head)
    _row([*["---:"] * (len(head) - 1), "---"])
    for documents, queries in cases:
        hours = [_hours(grown, arm, documents, queries) for arm in ARMS]
        held = [documents * sizes[f"index {arm}"] / 1e9 for arm in ARMS]
        cells = [f"{h / cores:,.2f}, {g:,.1f}" for h, g in zip(hours, held, strict=True)]
        beyond = _beyond(grown, documents, queries, max(hours) / cores)
        row = [f"{documents:,.0f}", f"{queries:,.0f}", *cells, f"{sum(hours) * price:,.2f}", beyond]
        _row(row)


def _hours(grown: Mapping[str, Growth], arm: str, documents: float, queries: float) -> float:
    """Hours of one core, from the index to the scores."""
    each = grown[f"replay {arm}"].at(documents) + grown["score"].at(documents)
    return (documents * grown[f"index {arm}"].at(documents) + queries * each) / 3_600


def _beyond(grown: Mapping[str, Growth], documents: float, queries: float, hours: float) -> str:
    """Name each bound that is passed."""
    found = []
    for arm in ARMS:
        once = grown[f"replay {arm}"].at(documents) / 2
        if once > LIMIT_S:
            found.append(f"{arm}: {once:,.0f} s a query")
    vectors = documents * VECTOR_BYTES / 2**30
    if vectors > MEMORY_GIB:
        found.append(f"vectors: {vectors:,.0f} GiB")
    values = queries * len(ARMS) * VALUES_BYTES / 2**30
    if values > MEMORY_GIB:
        found.append(f"values by query: {values:,.0f} GiB")
    if hours > DAY_H:
        found.append("more than a day")
    return "; ".join(found) or "nothing"


def _row(cells: Sequence[str]) -> None:
    sys.stdout.write(f"| {' | '.join(cells)} |\n")


if __name__ == "__main__":
    main()
