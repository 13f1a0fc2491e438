"""What documents and queries cost: hours, gigabytes and money, from unit costs measured here.

    python3 run.py python benchmarks/capacity.py --sizes 10000,100000 --queries 500

Generated messages are prepared, indexed, replayed, scored and compared at each size, each in a
process of its own. What a stage takes of three messages is taken off as its fixed part. The growth
between the last two sizes is carried on to larger ones: an extrapolation, and no measurement.
``--documents 1e8 --all-queries 1e6 --cores 64 --price 0.04`` gives one case of yours.
``--picture FILE`` draws the table as curves; with ``--page docs/capacity.md`` it draws the table of
the page, and nothing is measured.
"""

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

from benchmarks.made import base
from harness.cli.project import Project
from harness.pipeline.compare import compare
from harness.pipeline.imports import ImportTarget, import_beir
from harness.pipeline.index import index
from harness.pipeline.layout import Layout
from harness.pipeline.prepare import prepare
from harness.pipeline.replay import replay
from harness.pipeline.score import score
from harness_engines.vector.scan import nearest

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


HEAD = [
    "documents", "queries", *[f"{arm}: hours, GB" for arm in ARMS], "money", "beyond",
]  # fmt: skip


class Decade(NamedTuple):
    """What so many documents and queries come to."""

    documents: float
    queries: float
    hours: tuple[float, ...]
    """Of each arm, on all cores."""
    gigabytes: tuple[float, ...]
    money: float
    beyond: str
    """The bounds that are passed."""


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
    parser.add_argument("--picture", type=Path, help="SVG to draw.")
    parser.add_argument("--page", type=Path, help="Draw the table of this page.")
    asked = parser.parse_args()
    if asked.one:
        _measure(int(asked.one[0]), asked.queries, asked.one[1].split(","))
        return
    if asked.page:
        draw(read(asked.page), asked.picture or parser.error("--page needs --picture"))
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
    decades = [_decade(grown, sizes_of, one, asked.cores, asked.price) for one in cases]
    _table(decades, asked.cores, asked.price)
    if asked.picture:
        draw(decades, asked.picture)


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
        asked = collection(root / "beir", size, queries)
        to = root / "datasets", root / "qrels"
        target = ImportTarget(
            NAME,
            *to,
            split="test",
            title="Generated messages",
            source="benchmarks/capacity.py",
            licence="CC0-1.0",
        )
        import_beir(root / "beir", target)
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
    """Return the seconds of one exact search of vectors, the median of a few."""
    rng, taken = np.random.default_rng(SEED), []
    vectors = (rng.standard_normal((SCANNED, DIMENSION)) / DIMENSION**0.5).astype(np.float16)
    for _ in range(SCANS):
        query = rng.standard_normal(DIMENSION).astype(np.float32)
        began = perf_counter()
        nearest(vectors, query, 100)
        taken.append(perf_counter() - began)
    return median(taken)


def collection(folder: Path, size: int, queries: int) -> int:
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


def _decade(
    grown: Mapping[str, Growth],
    sizes: Mapping[str, float],
    case: tuple[float, float],
    cores: int,
    price: float,
) -> Decade:
    documents, queries = case
    hours = [_hours(grown, arm, documents, queries) for arm in ARMS]
    return Decade(
        documents,
        queries,
        tuple(one / cores for one in hours),
        tuple(documents * sizes[f"index {arm}"] / 1e9 for arm in ARMS),
        sum(hours) * price,
        _beyond(grown, documents, queries, max(hours) / cores),
    )


def _table(decades: Sequence[Decade], cores: int, price: float) -> None:
    sys.stdout.write(
        f"\n{cores} cores at {price} an hour each; the replay asks each query twice.\n\n"
    )
    _row(HEAD)
    _row([*["---:"] * (len(HEAD) - 1), "---"])
    for one in decades:
        cells = [f"{h:,.2f}, {g:,.1f}" for h, g in zip(one.hours, one.gigabytes, strict=True)]
        size = [f"{one.documents:,.0f}", f"{one.queries:,.0f}"]
        _row([*size, *cells, f"{one.money:,.2f}", one.beyond])


def read(page: Path) -> list[Decade]:
    """Read the table of decades as it was printed into a page."""
    rows = [line.strip("| \n").split(" | ") for line in page.read_text("utf-8").splitlines()]
    found = []
    for cells in rows[rows.index(HEAD) + 2 :]:
        if len(cells) != len(HEAD):
            break
        documents, queries, *arms, money, beyond = cells
        pairs = [[_number(part) for part in cell.split(", ")] for cell in arms]
        hours, gigabytes = zip(*pairs, strict=True)
        size = _number(documents), _number(queries)
        found.append(Decade(*size, hours, gigabytes, _number(money), beyond))
    return found


def _number(cell: str) -> float:
    return float(cell.replace(",", ""))


def draw(decades: Sequence[Decade], path: Path) -> None:
    """Draw hours and gigabytes of each arm, and the money of all, by documents."""
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    rcParams["svg.hashsalt"] = "capacity"
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    panels = figure.subplots(1, 3)
    documents = [one.documents for one in decades]
    for at, arm in enumerate(ARMS):
        for axes, drawn in zip(panels, ("hours", "gigabytes"), strict=False):
            values = [getattr(one, drawn)[at] or np.nan for one in decades]
            axes.plot(documents, values, marker="o", markersize=3, label=arm)
    panels[0].axhline(DAY_H, color="0.5", linewidth=0.8, linestyle=":", label="a day")
    panels[0].legend(fontsize=8)
    money = [one.money or np.nan for one in decades]
    panels[2].plot(documents, money, color="0.3", marker="o", markersize=3)
    for axes, title in zip(panels, ("hours", "gigabytes of the index", "money, all"), strict=True):
        axes.set(xscale="log", yscale="log", xlabel="documents", title=title)
        axes.grid(visible=True, color="0.9", linewidth=0.6)
    figure.savefig(path, metadata={"Date": None})


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
