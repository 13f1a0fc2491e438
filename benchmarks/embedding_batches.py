"""How many texts a second are embedded, by texts in a batch: the table of docs/decisions/0007.

    python3 run.py python benchmarks/embedding_batches.py build/python-docs/data --every 26

Takes every n-th document of prepared data, sorted by length as ``engines.vector.bulk`` does, and
runs as many batches at once as there are processors. The batch sizes take turns, and the best of
the repetitions counts. Also tells whether the vectors, in half precision, are those of texts that
were embedded one by one.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray

from engines.vector.models import model
from engines.vector.onnx import OnnxEmbedder
from harness.corpus.prepared import Prepared

MODEL = "all-MiniLM-L6-v2"
MAX_TOKENS = 256
SIZES = (1, 2, 4, 8, 16)
REPETITIONS = 3


def embedded(
    texts: Sequence[str], size: int, embedder: OnnxEmbedder
) -> tuple[NDArray[np.float16], int]:
    """Vectors of ``texts``, shape (texts, dimension), and nanoseconds."""
    batches = [texts[at : at + size] for at in range(0, len(texts), size)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        start = perf_counter_ns()
        vectors = np.concatenate(list(pool.map(embedder.embed, batches)))
        elapsed_ns = perf_counter_ns() - start
    return vectors.astype(np.float16), elapsed_ns


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Texts a second by size of a batch.")
    parser.add_argument("data", type=Path, help="Prepared data.")
    parser.add_argument("--every", type=int, required=True, help="Take every n-th document.")
    asked = parser.parse_args()
    documents = Prepared.open(asked.data).documents()
    texts = sorted((f"{d.title} {d.text}" for d in documents), key=len)[:: asked.every]
    embedder = OnnxEmbedder.load(model(MODEL), MAX_TOKENS)
    alone, _ = embedded(texts, 1, embedder)
    best = dict.fromkeys(SIZES, 0.0)
    same = dict.fromkeys(SIZES, 0)
    for _ in range(REPETITIONS):
        for size in SIZES:
            vectors, elapsed_ns = embedded(texts, size, embedder)
            best[size] = max(best[size], len(texts) / elapsed_ns * 1e9)
            same[size] = int((vectors == alone).all(axis=1).sum())
    print("| texts in a batch | texts a second | the same vectors |")  # noqa: T201  the output
    print("| --- | --- | --- |")  # noqa: T201
    for size in SIZES:
        print(f"| {size} | {best[size]:.1f} | {same[size]} of {len(texts)} |")  # noqa: T201


if __name__ == "__main__":
    main()
