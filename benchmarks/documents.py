"""The documents stack: whether places are exact, and how long its stages take.

    python3 run.py python benchmarks/documents.py places FOLDER --chunks 10000 --seed 1
    python3 run.py python benchmarks/documents.py stages FOLDER ... --chunks 10000 --queries 100

``places`` cuts the text, Markdown and PDF files below FOLDER into chunks of sizes drawn anew until
so many chunks were read back from the original files, and counts those that differ by a byte.

``stages`` takes collections in BEIR layout until there are so many chunks, and asks their queries.
All stages of one query are timed one after the other, in several rounds; a query's time is the
median of its rounds, a column is a percentile over queries. The bounds are the specification's,
and are reported, not enforced. ``--clock cpu`` counts what this thread computed, which other
programs on the machine disturb little; all of it runs on one thread.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns, thread_time_ns

import numpy as np
from numpy.typing import NDArray
from pypdf import PdfReader

from engines.stacks.documents import collection, files, models
from engines.stacks.documents.chunking import Cutting, chunks
from engines.stacks.documents.collection import Collection
from engines.stacks.documents.provenance import Provenance
from engines.stacks.documents.ranking import RANKED, RECALLED, Pipeline
from engines.stacks.documents.settings import Settings
from engines.stacks.documents.sources import Source, of_document
from harness.core.records import Document
from harness.replay.machine import machine

SMALLEST, LARGEST = 40, 4000
CLOCKS: Mapping[str, Callable[[], int]] = {"wall": perf_counter_ns, "cpu": thread_time_ns}
BOUNDS_MS = {
    "1 recall": 5.0,
    "2 rank": 80.0,
    "3 rerank": 100.0,
    "free, answer and citations": 100.0,
    "pro, answer and citations": 200.0,
}
"""Specification 004, section 1."""
PARTS = ("1 recall", "2 rank: E1", "2 rank: E6", "2 rank", "3 rerank")
Times = dict[str, list[float]]


def original(place: Provenance) -> str:
    """Read a cited stretch out of the file itself."""
    path = Path(place.document_path)
    if place.page is None:
        text = path.read_bytes().decode("utf-8")
    else:
        text = PdfReader(path).pages[place.page - 1].extract_text()
    return text[place.char_start : place.char_end]


def places(folder: Path, wanted: int, seed: int) -> str:
    """Count chunks that their places do not give back."""
    dice = random.Random(seed)
    read = files.folder(folder)
    checked = wrong = 0
    while checked < wanted:
        source = dice.choice(read.sources)
        size = dice.randint(SMALLEST, LARGEST)
        found = list(chunks(source, Cutting(size, dice.randint(0, (size - 1) // 2))))
        for chunk in dice.sample(found, min(len(found), 20, wanted - checked)):
            wrong += original(chunk.provenance).encode() != chunk.text.encode()
            checked += 1
    refused = len(read.refused)
    return (
        f"{checked} chunks of {len(read.sources)} files, {wrong} of them not what stands at their"
        f" place; {refused} files could not be read\n"
    )


def documents(folder: Path) -> Iterator[Source]:
    """Read the documents of one collection."""
    packed = folder / "corpus.jsonl.gz"
    plain = folder / "corpus.jsonl"
    written = gzip.decompress(packed.read_bytes()) if packed.is_file() else plain.read_bytes()
    for line in written.decode("utf-8").strip().split("\n"):
        row = json.loads(line)
        name = f"{folder.name}/{row['_id']}"
        yield of_document(Document(name, row.get("title", ""), row["text"]))


def queries(folder: Path) -> list[str]:
    """Read the queries of one collection."""
    with (folder / "queries.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]


def enough(folders: Iterable[Path], cutting: Cutting, wanted: int) -> Iterator[Source]:
    """Take documents until there are ``wanted`` chunks."""
    made = 0
    for folder in folders:
        for source in documents(folder):
            if made >= wanted:
                return
            made += sum(1 for _ in chunks(source, cutting))
            yield source


def one_query(opened: Collection, text: str, clock: Callable[[], int], times: Times) -> None:
    """Time each stage of one query, and whole answers of both tiers."""
    pipeline = opened.pipeline
    found = pipeline.models
    if not (found.dense and found.sparse and found.late):
        raise SystemExit(f"models are missing: {found.missing}")
    began = clock()
    rows = pipeline.recall.search(text, RECALLED)
    recalled = clock()
    found.dense.cosines(text, rows)
    dense = clock()
    found.sparse.dots(text, rows)
    sparse = clock()
    found.late.maxsims(text, rows[:RANKED])
    late = clock()
    free = Pipeline(pipeline.settings, pipeline.recall, without_late(found))
    Collection(opened.name, opened.library, opened.times, free, opened.graph).search(text, 10)
    after_free = clock()
    opened.search(text, 10)
    after_pro = clock()
    spans = {
        "1 recall": recalled - began,
        "2 rank: E1": dense - recalled,
        "2 rank: E6": sparse - dense,
        "2 rank": sparse - recalled,
        "3 rerank": late - sparse,
        "free, answer and citations": after_free - late,
        "pro, answer and citations": after_pro - after_free,
    }
    for name, span in spans.items():
        times.setdefault(name, []).append(span / 1e6)


def without_late(found: models.Models) -> models.Models:
    """Leave stage 3 out."""
    return models.Models(found.dense, found.sparse, None, ())


def stages(args: argparse.Namespace) -> str:
    """Build the collection, ask, and write a table."""
    given = Settings.model_validate({
        "tier": "pro",
        "recall": args.recall,
        "embedder": "all-MiniLM-L6-v2",
        "sparse": "splade-tiny",
        "max_tokens": 256,
        "fusion": "specification",
        "blend": "specification",
    })
    asked = list(
        islice((q for f in args.folders for q in queries(f)[: args.queries]), args.queries)
    )
    by_query: dict[str, list[NDArray[np.float64]]] = defaultdict(list)
    with TemporaryDirectory() as folder:
        sources = enough(args.folders, given.cutting, args.chunks)
        library = collection.build(sources, Path(folder), given, args.cache)
        with collection.opened(Path(folder), given, "benchmark") as opened:
            for text in asked:
                rounds: Times = {}
                for _ in range(args.rounds + 1):
                    one_query(opened, text, CLOCKS[args.clock], rounds)
                for name, spans in rounds.items():
                    by_query[name].append(np.median(spans[1:]))
    return "\n".join(table(by_query, len(library.chunks), len(asked), args))


def table(
    by_query: Mapping[str, list[NDArray[np.float64]]],
    count: int,
    asked: int,
    args: argparse.Namespace,
) -> Iterator[str]:
    """Percentiles over queries beside the specification's bounds."""
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    yield f"{count} chunks, {asked} queries, {args.rounds} rounds, {args.clock} clock"
    yield f"recall by {args.recall}; {machine()}; load {load}\n"
    yield "| stage | p50 ms | p95 ms | bound ms | p95 within |"
    yield "|---|---|---|---|---|"
    for name, spans in by_query.items():
        middle, slow = np.percentile(spans, [50, 95])
        bound = BOUNDS_MS.get(name)
        within = "" if bound is None else ("yes" if slow <= bound else "**no**")
        shown = "" if bound is None else f"{bound:g}"
        yield f"| {name} | {middle:.2f} | {slow:.2f} | {shown} | {within} |"
    yield ""


def main() -> None:
    """Run one of the two."""
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    one = kinds.add_parser("places")
    one.add_argument("folder", type=Path)
    one.add_argument("--chunks", type=int, required=True)
    one.add_argument("--seed", type=int, required=True)
    other = kinds.add_parser("stages")
    other.add_argument("folders", type=Path, nargs="+")
    other.add_argument("--chunks", type=int, required=True)
    other.add_argument("--queries", type=int, required=True)
    other.add_argument("--rounds", type=int, default=3)
    other.add_argument("--recall", choices=("bm25", "fts5", "tantivy"), default="bm25")
    other.add_argument("--clock", choices=sorted(CLOCKS), default="wall")
    other.add_argument("--cache", type=Path, default=Path(".cache"))
    args = parser.parse_args()
    if args.kind == "places":
        sys.stdout.write(places(args.folder, args.chunks, args.seed))
    else:
        sys.stdout.write(stages(args))


if __name__ == "__main__":
    main()
