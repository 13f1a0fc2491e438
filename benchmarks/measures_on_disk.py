"""Measures of a run that does not fit in memory, a row group at a time: docs/speed-measures.md.

    python3 run.py python benchmarks/measures_on_disk.py FOLDER --queries 1000000

Makes ``FOLDER/run.parquet`` once, 100 hits a query, as ``harness.corpus.runs`` writes runs, and
judgements, ten a query. Tells the seconds and the largest memory of scoring it, and deletes it.
"""

from __future__ import annotations

import argparse
import resource
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from harness.corpus.runs import COLUMNS, IDS_BYTES, PARTITION
from harness.measures.columnar.encoded import EncodedQrels
from harness.measures.columnar.partitions import score_partitions

HITS, JUDGED, DOCUMENTS, SEED = 100, 10, 1_000_000, 7
NAMES = ("nDCG@10", "RR@10", "P@10", "R@100", "AP@100")


def shown(part: int, queries: int) -> NDArray[np.int32]:
    """Documents of one partition, shape (queries, hits); no query shows one twice."""
    rng = np.random.default_rng((SEED, part))
    step = rng.integers(1, DOCUMENTS // HITS, size=(queries, 1))
    first = rng.integers(0, DOCUMENTS, size=(queries, 1))
    return ((first + step * rng.permutation(HITS)) % DOCUMENTS).astype(np.int32)


def make(path: Path, queries: int) -> None:
    """Write the run, a row group a partition."""
    names = pa.array([f"doc-{at:08}" for at in range(DOCUMENTS)])
    score = np.tile(np.linspace(30, 1, HITS), PARTITION)
    schema = COLUMNS.with_metadata({"arm": "x"})
    settings = {"compression": "zstd", "dictionary_pagesize_limit": IDS_BYTES}
    with pq.ParquetWriter(path, schema, **settings) as file:
        for part in range(queries // PARTITION):
            docs = pa.DictionaryArray.from_arrays(shown(part, PARTITION).ravel(), names)
            offsets = pa.array(np.arange(PARTITION + 1, dtype=np.int32) * HITS)
            ids = pa.array([f"q{part * PARTITION + at:08}" for at in range(PARTITION)])
            empty = pa.array([""] * PARTITION)
            columns = [
                ids,
                pa.array(["answered"] * PARTITION),
                pa.ListArray.from_arrays(offsets, docs),
                pa.ListArray.from_arrays(offsets, score),
                pa.ListArray.from_arrays(offsets, score),
                pa.array(np.zeros(PARTITION, dtype=np.int32)),
                empty,
                empty,
            ]
            file.write_table(pa.table(columns, schema=file.schema), row_group_size=PARTITION)


def judgements(queries: int) -> EncodedQrels:
    """Judge half of ten documents among those shown."""
    rng = np.random.default_rng(SEED)
    parts = [shown(part, PARTITION)[:, : JUDGED // 2] for part in range(queries // PARTITION)]
    found = np.concatenate(parts)
    other = (found + rng.integers(1, DOCUMENTS // 2)) % DOCUMENTS
    docs = np.concatenate([found, other], axis=1).astype(np.int32)
    keep = np.ones(docs.shape, dtype=bool)
    for column in range(1, JUDGED):
        keep[:, column] = ~(docs[:, :column] == docs[:, column : column + 1]).any(axis=1)
    rows = np.repeat(np.arange(queries, dtype=np.int64), JUDGED).reshape(docs.shape)
    return EncodedQrels.of_columns(
        tuple(f"q{at:08}" for at in range(queries)),
        tuple(f"doc-{at:08}" for at in range(DOCUMENTS)),
        rows[keep],
        docs[keep],
        rng.choice([0, 0, 0, 1, 2], int(keep.sum())).astype(np.int32),
    )


def main() -> None:
    """Print seconds and memory."""
    parser = argparse.ArgumentParser(description="Measures of a run on disk.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--queries", type=int, required=True, help=f"A multiple of {PARTITION}.")
    parser.add_argument("--keep", action="store_true", help="Keep the run for another time.")
    asked = parser.parse_args()
    path = asked.folder / "run.parquet"
    if not path.exists():
        make(path, asked.queries)
    made = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    coded = judgements(asked.queries)
    start = perf_counter()
    found = score_partitions(path, coded, NAMES)
    seconds = perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    means = ", ".join(f"{name} {scores.mean:.6f}" for name, scores in found.items())
    sys.stdout.write(
        f"{asked.queries * HITS:,} hits in {path.stat().st_size / 1e6:,.0f} MB on disk:"
        f" {seconds:.1f} s, at most {peak / 1e6:.2f} GB of memory"
        f" ({made / 1e6:.2f} GB before the judgements)\n{means}\n"
    )
    if not asked.keep:
        path.unlink()


if __name__ == "__main__":
    main()
