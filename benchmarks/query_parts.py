"""What one query of the hybrid costs, part by part, in milliseconds of a processor.

    python3 run.py python benchmarks/query_parts.py --queries 200

Over the demo's documents and queries, which `harness prepare --dataset python-docs` writes.
Each query goes through each part three times in turn, and the least counts: other programs can only
add to it. Prints the median over queries, beside that of Tantivy. A text is embedded on one
thread at a time or on two. Trust ratios more than times.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from statistics import median

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from engines import registry
from engines.stacks.text.blend import Blend, BlendSearcher, LegScores
from engines.vector import eight_bits
from engines.vector.models import MINILM, model
from engines.vector.onnx import OnnxEmbedder
from harness.core.engine import Searcher
from harness.core.records import Document
from harness.corpus.prepared import Prepared

DATA, CACHE = Path("build/python-docs/data"), Path(".cache")
SHOWN, ROUNDS, SEED, TOKENS = 50, 3, 20261124, 256
WHOLE, SMALL = 32, 8
"""Bits of the encoders."""
Part = Callable[[str], object]


@contextmanager
def opened(arm: str, documents: Sequence[Document]) -> Iterator[Searcher]:
    """Build an arm's index in a folder that goes away, and open it."""
    made = registry.load(arm, CACHE)
    with tempfile.TemporaryDirectory() as folder:
        made.build(documents, Path(folder))
        with made.open(Path(folder)) as searcher:
            yield searcher


def session(bits: int, threads: int) -> onnxruntime.InferenceSession:
    """Open the model of so many bits for so many threads."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    weights = MINILM.weights.path()
    if bits == SMALL:
        return eight_bits.session(weights, options)
    return onnxruntime.InferenceSession(str(weights), options, providers=["CPUExecutionProvider"])


def parts(tantivy: Searcher, hybrid: BlendSearcher, engine: Blend) -> Mapping[str, Part]:
    """Name what a query goes through."""
    whole = OnnxEmbedder.load(MINILM, TOKENS)
    models = {WHOLE: MINILM, SMALL: model("all-MiniLM-L6-v2-int8")}
    encoders = {
        f"embed by {bits} bits, threads: {threads}": OnnxEmbedder(
            of, TOKENS, whole.tokenizer, session(bits, threads)
        )
        for bits, of in models.items()
        for threads in (1, 2)
    }
    store, depth = hybrid.vectors.store, engine.settings.depth

    @cache
    def vector(text: str) -> NDArray[np.float32]:
        found = hybrid.vectors.query_vector(text)
        assert found is not None  # noqa: S101  every query has a word
        return found

    @cache
    def legs(text: str) -> LegScores:
        return hybrid.found(text, SHOWN)

    def embed(encoder: OnnxEmbedder) -> Part:
        return lambda text: encoder.embed([text])

    return {
        "Tantivy, the whole answer": lambda text: tantivy.search(text, SHOWN),
        "hybrid, the whole answer": lambda text: hybrid.search(text, SHOWN),
        "words": lambda text: hybrid.words.search(text, depth),
        "tokens": whole.tokenizer.encode,
        **{name: embed(encoder) for name, encoder in encoders.items()},
        "nearest": lambda text: store.nearest(vector(text), depth),
        "cosines of what words found": lambda text: store.cosines(
            vector(text), list(legs(text).words)
        ),
        "sum of scores": lambda text: engine.combined(legs(text), SHOWN),
    }


def spent(part: Part, text: str) -> float:
    """Give the milliseconds of a processor that a part takes."""
    began = time.process_time()
    part(text)
    return (time.process_time() - began) * 1e3


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=200)
    args = parser.parse_args()
    data = Prepared.open(DATA)
    documents = tuple(data.documents())
    texts = [query.text for query in data.queries()]
    asked = random.Random(SEED).sample(texts, args.queries)
    with opened("tantivy", documents) as tantivy, opened("hybrid", documents) as hybrid:
        engine = registry.load("hybrid", CACHE).engine
        assert isinstance(hybrid, BlendSearcher)  # noqa: S101  the arm's file says so
        assert isinstance(engine, Blend)  # noqa: S101  as above
        named = parts(tantivy, hybrid, engine)
        for part in named.values():
            part(asked[0])
        took = {
            name: [min(spent(part, text) for _ in range(ROUNDS)) for text in asked]
            for name, part in named.items()
        }
    least = median(next(iter(took.values())))
    sys.stdout.write("| part | ms | times Tantivy |\n|---|---:|---:|\n")
    for name, times in took.items():
        sys.stdout.write(f"| {name} | {median(times):.2f} | {median(times) / least:.1f} |\n")


if __name__ == "__main__":
    main()
