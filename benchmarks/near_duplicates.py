"""Which queries of real sets are near duplicates, and what says that they depend on each other.

    python3 run.py python benchmarks/near_duplicates.py
    python3 run.py python benchmarks/near_duplicates.py --examples 3

Pairs of queries by how alike their words are (Jaccard of letter trigrams): in judged sets, the
share of pairs that have a relevant document in common; in the demo, where ``harness demo`` has
scored it, the correlation of their differences of nDCG@10. Then the clusters of each set, and how
long it took to find them, also among the messages of a chat.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from benchmarks.simulations import PAIRS, SCORES
from harness.corpus import trec
from harness.corpus.near_duplicates import normalised, stars, trigrams
from harness.corpus.score_table import read_scores

SETS = {
    "adi": "test",
    "cacm": "test",
    "cosqa": "dev",
    "cranfield": "test",
    "r-mailing-lists": "dev",
    "scifact": "train",
    "ubuntu-irc": "dev",
    "vaswani": "test",
}
"""Name of a set, and the split whose judgements are read."""
DEMO = Path("build/python-docs/data")
EDGES = (0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 1.0)
SEED = 1


class Near(NamedTuple):
    """Pairs of texts with anything in common."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    jaccard: NDArray[np.float64]

    def bins(self) -> Iterator[NDArray[np.int64]]:
        """Yield the places of the pairs between each two edges; those of 1 are in the last."""
        for low, high in pairwise(EDGES):
            upper = np.inf if high == EDGES[-1] else high
            yield np.flatnonzero((self.jaccard >= low) & (self.jaccard < upper))


def near(texts: Sequence[str]) -> Near:
    """Compare every text with every other one, all at once: for sets of a few thousand."""
    place: dict[str, int] = {}
    sets = [trigrams(normalised(text)) for text in texts]
    columns = [place.setdefault(gram, len(place)) for one in sets for gram in one]
    sizes = np.array([len(one) for one in sets])
    ends = np.concatenate([[0], np.cumsum(sizes)])
    table = csr_array((np.ones(len(columns)), columns, ends), shape=(len(sets), len(place)))
    shared = (table @ table.T).tocoo()
    once = shared.row < shared.col
    row, col, both = shared.row[once], shared.col[once], shared.data[once]
    return Near(row, col, both / (sizes[row] + sizes[col] - both))


def texts_of(path: Path) -> dict[str, str]:
    """Read queries of either form, by their id."""
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {str(one.get("_id", one.get("query_id"))): str(one["text"]) for one in lines}


def relevant(path: Path) -> dict[str, set[str]]:
    """Read the relevant documents of each query, from three columns or four."""
    if path.suffix == ".trec":
        rows: Iterable[tuple[str, str, int]] = trec.qrels(path).rows()
    else:
        cells = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:])
        rows = ((query, doc, int(grade)) for query, doc, grade in cells)
    found: dict[str, set[str]] = {}
    for query, doc, grade in rows:
        if grade > 0:
            found.setdefault(query, set()).add(doc)
    return found


def in_common(texts: Mapping[str, str], judged: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield, for each bin, the share of judged pairs that share a relevant document."""
    ids = [query for query in texts if query in judged]
    pairs = near([texts[query] for query in ids])
    for places in pairs.bins():
        shared = [
            bool(judged[ids[pairs.first[at]]] & judged[ids[pairs.second[at]]]) for at in places
        ]
        yield f"{np.mean(shared):.2f} ({len(shared)})" if shared else ""


def correlated(texts: Mapping[str, str], pair: tuple[str, str]) -> Iterator[str]:
    """Yield, for each bin, the correlation of two arms' differences, and its standard error."""
    scores = read_scores(SCORES, ["arm"])
    left, right = (scores[(arm,)]["nDCG@10"].by_query for arm in pair)
    ids = [query for query in texts if query in left and query in right]
    apart = np.array([right[query] - left[query] for query in ids])
    apart = (apart - apart.mean()) / apart.std()
    pairs = near([texts[query] for query in ids])
    for places in pairs.bins():
        both = apart[pairs.first[places]] * apart[pairs.second[places]]
        error = both.std() / np.sqrt(len(both))
        yield f"{both.mean():+.2f} ± {error:.2f} ({len(both)})" if len(both) else ""


def clusters(texts: Sequence[str]) -> str:
    """Say how many queries are in how many clusters, and what it cost to find them."""
    start = process_time()
    sizes = np.unique(stars(texts), return_counts=True)[1]
    took, together = process_time() - start, sizes[sizes > 1]
    largest = int(sizes.max())
    return f"{len(texts):,} | {together.sum():,} | {len(together):,} | {largest} | {took:.1f}"


def examples(texts: Sequence[str], count: int) -> Iterator[str]:
    """Yield some pairs of each bin, drawn with a seed."""
    pairs, rng = near(texts), np.random.default_rng(SEED)
    for places in pairs.bins():
        for at in rng.permutation(places)[:count]:
            one, other = texts[pairs.first[at]], texts[pairs.second[at]]
            yield f"| {pairs.jaccard[at]:.2f} | {one[:90]} | {other[:90]} |"


def messages(shared: Path) -> list[str]:
    """Read the messages of a chat, the most texts that are at hand."""
    with gzip.open(shared / "ubuntu-irc" / "corpus.jsonl.gz", "rt", encoding="utf-8") as file:
        return [str(json.loads(line)["text"]) for line in file]


def tables(shared: Path, count: int) -> Iterator[str]:
    """Yield the lines of all tables."""
    sets = {name: texts_of(shared / name / "queries.jsonl") for name in SETS}
    judged = {name: shared / name / "qrels" / f"{split}.tsv" for name, split in SETS.items()}
    if DEMO.is_dir():
        sets["python-docs"] = texts_of(DEMO / "queries.jsonl")
        judged["python-docs"] = DEMO / "qrels.trec"
    edges = " | ".join(f"{low:g} to {high:g}" for low, high in pairwise(EDGES))
    rule = f"| --- |{' ---: |' * (len(EDGES) - 1)}"
    yield from (f"| a relevant document in common | {edges} |", rule)
    for name, texts in sets.items():
        yield f"| {name} | {' | '.join(in_common(texts, relevant(judged[name])))} |"
    if SCORES.is_file():
        yield from ("", f"| correlation of differences | {edges} |", rule)
        for pair in (*PAIRS, ("fts5", "hybrid"), ("fts5", "dense")):
            cells = " | ".join(correlated(sets["python-docs"], pair))
            yield f"| {pair[1]} - {pair[0]} | {cells} |"
    yield from ("", "| set | queries | in clusters | clusters | largest | seconds |")
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    sets["messages of ubuntu-irc"] = {str(at): text for at, text in enumerate(messages(shared))}
    for name, texts in sets.items():
        yield f"| {name} | {clusters(list(texts.values()))} |"
    for name in SETS if count else ():
        yield from ("", f"| {name} | | |", "| ---: | --- | --- |")
        yield from examples(list(sets[name].values()), count)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", type=Path, default=Path("../shared/datasets"))
    parser.add_argument("--examples", type=int, default=0, help="pairs shown of each bin")
    given = parser.parse_args()
    for line in tables(given.shared, given.examples):
        print(line, flush=True)  # noqa: T201  the output


if __name__ == "__main__":
    main()
