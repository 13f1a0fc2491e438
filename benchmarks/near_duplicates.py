"""Which queries of real sets are one need, by which sign, and what says that they are.

    python3 run.py python benchmarks/near_duplicates.py
    python3 run.py python benchmarks/near_duplicates.py --vectors
    python3 run.py python benchmarks/near_duplicates.py --sizes 10000 100000

For each judged set the clusters by words alone and with judged documents, and for pairs of words
alone the share with a relevant document in common. With ``--vectors`` pairs of a sentence model by
their cosine, before and after names, numbers and negations part them. With ``--sizes`` the time.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from time import process_time

import numpy as np

from engines.vector.chosen import embedder_of
from harness.corpus import trec
from harness.corpus.near_duplicates import stars
from harness.corpus.wording import wording
from harness.stages.prepare import BATCH, MAX_TOKENS, MODEL

SETS = ("cosqa", "cranfield", "scifact", "r-mailing-lists", "ubuntu-irc", "vaswani")
DEMO = Path("build/python-docs/data")
EDGES = (0.75, 0.8, 0.85, 0.9, 1.01)
SEED, LETTERS = 1, "bdfgklmnprst"
Queries = dict[str, tuple[str, frozenset[str]]]
"""Text and relevant documents, by id."""


def queries_of(folder: Path, qrels: Iterable[Path]) -> Queries:
    """Read queries of either form with their relevant documents, from three columns or four."""
    found: dict[str, set[str]] = {}
    for path in qrels:
        if path.suffix == ".trec":
            rows: Iterable[tuple[str, str, int]] = trec.qrels(path).rows()
        else:
            lines = path.read_text(encoding="utf-8").splitlines()[1:]
            rows = ((a, b, int(grade)) for a, b, grade in (line.split("\t") for line in lines))
        for query, doc, grade in rows:
            if grade > 0:
                found.setdefault(query, set()).add(doc)
    lines = (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    read = {
        str(one.get("_id", one.get("query_id"))): str(one["text"]) for one in map(json.loads, lines)
    }
    return {query: (text, frozenset(found.get(query, ()))) for query, text in read.items()}


def in_common(queries: Queries, pairs: Sequence[tuple[int, int]]) -> str:
    """Share of pairs that have a relevant document in common, of those that have documents."""
    judged = [docs for _, docs in queries.values()]
    shared = [bool(judged[a] & judged[b]) for a, b in pairs if judged[a] and judged[b]]
    return f"{np.mean(shared):.2f} of {len(shared)}" if shared else ""


def clusters(queries: Queries) -> Iterator[str]:
    """Yield the cells of a set's row."""
    texts, judged = [text for text, _ in queries.values()], [docs for _, docs in queries.values()]
    yield f"{len(texts):,}"
    for docs in (None, judged):
        firsts = stars(texts, docs)
        sizes = np.unique(firsts, return_counts=True)[1]
        yield f"{sizes[sizes > 1].sum():,} in {(sizes > 1).sum():,}, largest {sizes.max()}"
        if docs is None:
            groups = [np.flatnonzero(firsts == first).tolist() for first in np.unique(firsts)]
            yield in_common(queries, [pair for group in groups for pair in combinations(group, 2)])


def vectors(queries: Queries) -> Iterator[str]:
    """Yield a line for each range of cosines: all pairs, and those that nothing parts."""
    texts = [text for text, _ in queries.values()]
    embedder = embedder_of(MODEL, MAX_TOKENS)
    parts = [embedder.embed(texts[at : at + BATCH]) for at in range(0, len(texts), BATCH)]
    cosines = np.triu(np.round(np.concatenate(parts) @ np.concatenate(parts).T, 2), 1)
    words = [wording(text) for text in texts]
    for low, high in pairwise(EDGES):
        pairs = np.argwhere((cosines >= np.float32(low)) & (cosines < np.float32(high))).tolist()
        kept = [(a, b) for a, b in pairs if not words[a].parted(words[b])]
        yield f"{low:g} | {in_common(queries, pairs)} | {in_common(queries, kept)}"


def made(count: int) -> tuple[list[str], list[frozenset[str]]]:
    """Make queries of which a third put another in other words, with its documents."""
    dice = random.Random(SEED)
    words = [a + b + c + d for a in LETTERS for b in "aeo" for c in LETTERS for d in "aeo"]
    texts = [" ".join(dice.choices(words, k=dice.randint(2, 6))) for _ in range(count)]
    docs = [
        frozenset(f"d{dice.randrange(count)}" for _ in range(dice.randint(1, 3)))
        for _ in range(count)
    ]
    for at in range(0, count - 1, 3):
        again = texts[at + 1].split()
        dice.shuffle(again)
        texts[at], docs[at] = f"how to {' '.join(again)}", docs[at + 1]
    return texts, docs


def _qrels(folder: Path, splits: Sequence[str]) -> list[Path]:
    return [folder / "qrels" / f"{split}.tsv" for split in splits]


def tables(shared: Path, sizes: Sequence[int], *, by_vectors: bool) -> Iterator[str]:
    """Yield the lines of all tables."""
    splits = ("dev", "test", "train")
    sets = {
        name: queries_of(shared / name, filter(Path.is_file, _qrels(shared / name, splits)))
        for name in SETS
    }
    if DEMO.is_dir():
        sets["python-docs"] = queries_of(DEMO, [DEMO / "qrels.trec"])
    if sizes:
        yield from ("| queries | seconds | microseconds each | in clusters |", "| ---: " * 4 + "|")
    for count in sizes:
        texts, docs = made(count)
        start = process_time()
        kinds = np.unique(stars(texts, docs), return_counts=True)[1]
        took = process_time() - start
        grouped = int(kinds[kinds > 1].sum())
        yield f"| {count:,} | {took:.1f} | {took / count * 1e6:.0f} | {grouped:,} |"
    if by_vectors:
        yield from ("| set | cosine from | a document in common | not parted |", "| --- " * 4 + "|")
        for name in ("cosqa", "cranfield", "scifact"):
            yield from (f"| {name} | {line} |" for line in vectors(sets[name]))
    if not sizes and not by_vectors:
        yield "| set | queries | by words | a document in common | with judged documents |"
        yield "| --- | ---: | --- | ---: | --- |"
        for name, queries in sets.items():
            yield f"| {name} | {' | '.join(clusters(queries))} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", type=Path, default=Path("../shared/datasets"))
    parser.add_argument("--sizes", type=int, nargs="*", default=(), help="numbers of made queries")
    parser.add_argument("--vectors", action="store_true")
    given = parser.parse_args()
    for line in tables(given.shared, given.sizes, by_vectors=given.vectors):
        print(line, flush=True)  # noqa: T201  the output


if __name__ == "__main__":
    main()
