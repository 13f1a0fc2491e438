"""How near exact vector search comes to the speed of memory: Markdown tables.

    python3 run.py python benchmarks/vectors.py --sizes 10000,100000,1000000

Writes random unit vectors to an AMVI file and asks random queries, one thread unless a row says
otherwise. All ways take turns within a repetition, in an order that moves on by one each time; each
runs twice and its second time counts, so that none pays for what another left in caches and page
tables. *stream* reads the same bytes and does next to nothing with them: no exact search
can be quicker. faiss is shown where it is installed; the project does not need it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns
from typing import Any

import numkong
import numpy as np
from numpy.typing import NDArray

from engines.vector.amvi import AmviIndex, write
from engines.vector.embedder import unit
from engines.vector.scan import COSINE_DIGITS, SCAN_ROWS, best

EMBEDDER, DIMENSION, K, SEED = "random", 384, 10, 20_260_101
CHUNK_ROWS, CACHED_ROWS = 1 << 14, 1 << 10
OURS, PAIR = "ours", "ours, 2 threads"
STREAM, STREAM_PAIR = "stream", "stream, 2 threads"
NUMPY, FAISS, SELECTION = "numpy F16", "faiss SQ fp16", "selection alone"
OPENING, FEW = "opening (CRC-32)", "ours, 1 % allowed"

Query = NDArray[np.float32]
Parts = list[NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Way:
    """What is timed, and what is made ready for it beforehand."""

    run: Callable[[Any], object]
    ready: Callable[[Query], object] = lambda query: query


@dataclass(frozen=True, slots=True)
class Ratio:
    """Time of one way by the time of another, and what it should be."""

    name: str
    above: str
    below: str
    target: str = ""

    def row(self, size: int, taken: Mapping[str, NDArray[np.float64]]) -> str:
        """One line of the table of ratios: of medians and of least times."""
        above, below = taken[self.above], taken[self.below]
        medians, least = np.median(above) / np.median(below), above.min() / below.min()
        return f"| {size:,} | {self.name} | {medians:.3f} | {least:.3f} | {self.target} |"


RATIOS = (
    Ratio("share of the stream's speed", STREAM, OURS, "at least 0.60"),
    Ratio("gain by a second thread", OURS, PAIR, "at least 1.5"),
    Ratio("what a second thread gains the stream", STREAM, STREAM_PAIR),
    Ratio("gain over numpy F16", NUMPY, OURS, "at least 15"),
    Ratio("gain over faiss SQ fp16", FAISS, OURS),
    Ratio("share of the selection", SELECTION, OURS, "at most 0.02 of 1,000,000"),
)


def random_units(count: int, seed: int) -> NDArray[np.float16]:
    """Draw vectors of length 1, shape (count, DIMENSION)."""
    rng = np.random.default_rng(seed)
    found = np.empty((count, DIMENSION), dtype=np.float16)
    for low in range(0, count, CHUNK_ROWS):
        shape = found[low : low + CHUNK_ROWS].shape
        found[low : low + CHUNK_ROWS] = unit(rng.standard_normal(shape, dtype=np.float32))
    return found


def streams(index: AmviIndex, threads: int) -> Way:
    """Read every byte of the vectors; keeps one word."""
    words = np.asarray(index.vectors).reshape(-1).view(np.uint64)
    if threads == 1:
        return Way(lambda _: np.bitwise_or.reduce(words))
    pool = ThreadPoolExecutor(threads)
    shares = np.array_split(words, threads)
    return Way(lambda _: list(pool.map(np.bitwise_or.reduce, shares)))


def by_numpy(index: AmviIndex) -> Way:
    """Widen pieces that fit into the cache to single precision and multiply, on one thread."""
    vectors = np.asarray(index.vectors)

    def parts(query: Query) -> Iterator[NDArray[np.float64]]:
        for low in range(0, len(vectors), CACHED_ROWS):
            wide = vectors[low : low + CACHED_ROWS].astype(np.float32)
            yield np.einsum("ij,j->i", wide, query).astype(np.float64)

    return Way(lambda query: best(parts(query), K, COSINE_DIGITS).positions.tolist())


def by_faiss(index: AmviIndex) -> Way:
    """Let faiss scan its own copy in half precision."""
    faiss = import_module("faiss")
    faiss.omp_set_num_threads(1)
    kind, inner = faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT
    theirs = faiss.IndexScalarQuantizer(DIMENSION, kind, inner)
    theirs.train(np.asarray(index.vectors[:1]).astype(np.float32))
    for low in range(0, len(index.vectors), CHUNK_ROWS):
        theirs.add(np.asarray(index.vectors[low : low + CHUNK_ROWS]).astype(np.float32))
    return Way(lambda query: theirs.search(query[None, :], K)[1][0].tolist())


def selection(index: AmviIndex) -> Way:
    """Rank scores that are there already, as a search has just made them."""
    vectors = np.asarray(index.vectors)

    def ready(query: Query) -> Parts:
        asked = query.astype(np.float16)[None, :]
        pieces = [vectors[low : low + SCAN_ROWS] for low in range(0, len(vectors), SCAN_ROWS)]
        return [np.asarray(numkong.cdist(asked, piece, "dot"))[0] for piece in pieces]

    return Way(lambda parts: best(parts, K, COSINE_DIGITS).positions.tolist(), ready)


def ways(path: Path) -> dict[str, Way]:
    """All that is timed, over one file."""
    index = AmviIndex.open(path, EMBEDDER, DIMENSION)
    few = index.message_ids[::100].copy()

    def ours(threads: int, allowed: NDArray[np.int64] | None = None) -> Way:
        return Way(lambda query: [i for i, _ in index.search(query, K, allowed, threads)])

    found = {
        OURS: ours(1),
        STREAM: streams(index, 1),
        PAIR: ours(2),
        STREAM_PAIR: streams(index, 2),
        SELECTION: selection(index),
        NUMPY: by_numpy(index),
        FEW: ours(1, few),
        OPENING: Way(lambda _: AmviIndex.open(path, EMBEDDER, DIMENSION)),
    }
    if find_spec("faiss"):
        found[FAISS] = by_faiss(index)
    return found


def timed(found: dict[str, Way], queries: Sequence[Query]) -> dict[str, NDArray[np.float64]]:
    """Milliseconds by way, shape (queries,); refuses answers that are not ours.

    Raises:
        SystemExit: two ways that should agree name other documents.
    """
    names = list(found)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for turn, query in enumerate(queries):
        answers = {}
        for at in range(len(names)):
            name = names[(turn + at) % len(names)]
            found[name].run(found[name].ready(query))
            made_ready = found[name].ready(query)
            start = perf_counter_ns()
            answers[name] = found[name].run(made_ready)
            taken[name].append((perf_counter_ns() - start) / 1e6)
        for name in {PAIR, SELECTION, NUMPY, FAISS} & set(names):
            if set(answers[name]) != set(answers[OURS]):  # type: ignore[call-overload]
                raise SystemExit(f"{name} finds {answers[name]}, ours {answers[OURS]}")
    return {name: np.array(column) for name, column in taken.items()}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Exact vector search against memory's speed.")
    parser.add_argument("--sizes", required=True, help="Numbers of vectors, with commas.")
    parser.add_argument("--repetitions", type=int, default=9, help="At least 5.")
    asked = parser.parse_args()
    if asked.repetitions < 5:  # noqa: PLR2004  as the help says
        parser.error("a median of fewer than 5 says little")
    queries = list(random_units(asked.repetitions, SEED + 1).astype(np.float32))
    lines, ratios = [], []
    for size in map(int, asked.sizes.split(",")):
        with TemporaryDirectory() as folder:
            path = Path(folder) / "random.amvi"
            write(path, EMBEDDER, np.arange(size), random_units(size, SEED))
            taken = timed(ways(path), queries)
        for name, column in taken.items():
            ms = float(np.median(column))
            speed = "" if name in {SELECTION, FEW} else f"{size * DIMENSION * 2 / ms / 1e6:.1f}"
            lines.append(f"| {size:,} | {name} | {ms:.3f} | {column.min():.3f} | {speed} |")
        ratios += [r.row(size, taken) for r in RATIOS if {r.above, r.below} <= set(taken)]
    lines[:0] = ["| vectors | way | median ms | least ms | GB/s |", "|---|---|---|---|---|"]
    lines += [
        "",
        "| vectors | ratio | of medians | of least times | target |",
        "|---|---|---|---|---|",
    ]
    print(*lines, *ratios, sep="\n")  # noqa: T201  the output


if __name__ == "__main__":
    main()
