"""The default hybrid beside what a team would glue together or install: docs/peers.md.

    python3 -m venv PEERS && PEERS/bin/pip install faiss-cpu apsw sqlite-vec lancedb bm25s chromadb
    python3 run.py python benchmarks/peers.py FOLDER --peers PEERS --out out/peers

FOLDER is a collection in BEIR layout. Every contestant gets the same documents, the same vectors
and the same query encoder, and shows ten documents. Words and vectors are joined by reciprocal rank
(k = 60) where a library has no join of its own. Contestants take turns query by query in one
process; times are processor times of a whole answer, the encoder included, and the ratio to the
hybrid is that of the medians. Lines are those a user writes for it below. One that cannot be
installed is named and left out.
"""

import argparse
import importlib.util
import inspect
import shutil
import site
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import process_time

import numpy as np
from numpy.typing import NDArray

from harness import score
from harness.core.engine import Searcher
from harness.core.records import Document
from harness.corpus.beir import Beir
from harness_engines import registry
from harness_engines.stacks.text.blend import BlendSearcher

MEASURE, K, DEPTH, RRF = "nDCG@10", 10, 100, 60
Vectors = NDArray[np.float32]
Search = Callable[[str, Vectors], Sequence[int]]
"""Rows of the best documents for a text and its vector."""


@dataclass(frozen=True, eq=False)
class Collection:
    """A BEIR folder, and where indexes are kept."""

    folder: Path
    out: Path

    @cached_property
    def of(self) -> Beir:
        split = "test" if (self.folder / "qrels" / "test.tsv").is_file() else "dev"
        return Beir(self.folder, split)

    @cached_property
    def documents(self) -> tuple[Document, ...]:
        return tuple(self.of.documents())

    @cached_property
    def queries(self) -> Mapping[str, str]:
        """Texts of the judged queries, by id."""
        texts = {one.query_id: one.text for one in self.of.queries()}
        return {q: texts[q] for q in self.of.qrels().query_ids if q in texts}

    @contextmanager
    def opened(self, arm: str) -> Iterator[Searcher]:
        """Open an arm, whose index is kept."""
        made = registry.load(arm, self.out / "cache")
        index = self.out / self.folder.resolve().name / made.name
        if not index.is_dir():
            index.mkdir(parents=True)
            made.build(self.documents, index)
        with made.open(index) as searcher:
            yield searcher


@dataclass(frozen=True, eq=False)
class Corpus:
    """Texts and unit vectors, in one order."""

    texts: Sequence[str]
    vectors: Vectors


def join(*rankings: Sequence[int]) -> list[int]:
    """Join rankings by reciprocal rank (Cormack, Clarke and Büttcher, 2009)."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, row in enumerate(ranking, start=1):
            scores[row] = scores.get(row, 0.0) + 1 / (RRF + rank)
    return sorted(scores, key=lambda row: (-scores[row], row))[:K]


def tantivy_faiss(corpus: Corpus, folder: Path) -> Search:
    """Build Tantivy's BM25 and exact vectors of faiss."""
    import faiss
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("row", stored=True)
    builder.add_text_field("text", tokenizer_name="en_stem")
    index = tantivy.Index(builder.build(), path=str(folder))
    writer = index.writer(256_000_000, 1)
    for row, text in enumerate(corpus.texts):
        writer.add_document(tantivy.Document(row=row, text=text))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()
    flat = faiss.IndexFlatIP(corpus.vectors.shape[1])
    flat.add(corpus.vectors)

    def search(text: str, vector: Vectors) -> Sequence[int]:
        plain = "".join(c if c.isalnum() else " " for c in text).lower()
        hits = searcher.search(index.parse_query(plain, ["text"]), DEPTH).hits
        words = [searcher.doc(at)["row"][0] for _, at in hits]
        return join(words, flat.search(vector[None], DEPTH)[1][0].tolist())

    return search


def bm25s_faiss(corpus: Corpus, folder: Path) -> Search:  # noqa: ARG001  keeps its index in memory
    """Build BM25 of bm25s and exact vectors of faiss."""
    import bm25s
    import faiss

    words = bm25s.BM25()
    words.index(bm25s.tokenize(list(corpus.texts), show_progress=False), show_progress=False)
    flat = faiss.IndexFlatIP(corpus.vectors.shape[1])
    flat.add(corpus.vectors)
    depth = min(DEPTH, len(corpus.texts))

    def search(text: str, vector: Vectors) -> Sequence[int]:
        tokens = bm25s.tokenize([text], show_progress=False)
        found = words.retrieve(tokens, k=depth, show_progress=False)[0][0].tolist()
        return join(found, flat.search(vector[None], DEPTH)[1][0].tolist())

    return search


def sqlite_vec_fts5(corpus: Corpus, folder: Path) -> Search:
    """Build SQLite's FTS5 and exact vectors of sqlite-vec."""
    import apsw
    import sqlite_vec

    db = apsw.Connection(str(folder / "peer.db"))
    db.enable_load_extension(True)  # noqa: FBT003  of apsw
    db.load_extension(sqlite_vec.loadable_path())
    db.execute("CREATE VIRTUAL TABLE words USING fts5(text, tokenize='porter unicode61')")
    size = corpus.vectors.shape[1]
    db.execute(f"CREATE VIRTUAL TABLE near USING vec0(v float[{size}] distance_metric=cosine)")
    rows = range(1, len(corpus.texts) + 1)
    blobs = (vector.tobytes() for vector in corpus.vectors)
    with db:
        texts = zip(rows, corpus.texts, strict=True)
        db.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", texts)
        vectors = zip(rows, blobs, strict=True)
        db.executemany("INSERT INTO near (rowid, v) VALUES (?, ?)", vectors)
    by_words = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
    by_vector = "SELECT rowid FROM near WHERE v MATCH ? AND k = ?"

    def search(text: str, vector: Vectors) -> Sequence[int]:
        plain = "".join(c if c.isalnum() else " " for c in text).split()
        either = " OR ".join(f'"{word}"' for word in plain)
        words = [row - 1 for (row,) in db.execute(by_words, (either, DEPTH))]
        near = [row - 1 for (row,) in db.execute(by_vector, (vector.tobytes(), DEPTH))]
        return join(words, near)

    return search


def lancedb_hybrid(corpus: Corpus, folder: Path) -> Search:
    """Build LanceDB's own hybrid search."""
    import lancedb
    from lancedb.rerankers import RRFReranker

    rows = [
        {"row": row, "text": text, "vector": vector}
        for row, (text, vector) in enumerate(zip(corpus.texts, corpus.vectors, strict=True))
    ]
    table = lancedb.connect(str(folder)).create_table("peer", rows)
    table.create_fts_index("text", use_tantivy=False)
    reranker = RRFReranker()

    def search(text: str, vector: Vectors) -> Sequence[int]:
        plain = "".join(c if c.isalnum() else " " for c in text)
        asked = table.search(query_type="hybrid").vector(vector).text(plain)
        found = asked.distance_type("cosine").rerank(reranker).limit(DEPTH).to_arrow()
        return found["row"].to_pylist()[:K]

    return search


def chroma(corpus: Corpus, folder: Path) -> Search:
    """Build Chroma's graph of vectors."""
    import chromadb

    client = chromadb.PersistentClient(str(folder))
    about = {"hnsw:space": "cosine"}
    table = client.create_collection("peer", metadata=about, embedding_function=None)
    for start in range(0, len(corpus.texts), 1000):
        rows = range(start, min(start + 1000, len(corpus.texts)))
        some = [corpus.vectors[row].tolist() for row in rows]
        table.add(ids=[str(row) for row in rows], embeddings=some)

    def search(text: str, vector: Vectors) -> Sequence[int]:  # noqa: ARG001  vectors alone
        found = table.query(query_embeddings=[vector.tolist()], n_results=K)
        return [int(one) for one in found["ids"][0]]

    return search


PEERS: Mapping[str, tuple[Callable[[Corpus, Path], Search], Sequence[str]]] = {
    "tantivy + faiss": (tantivy_faiss, ("tantivy", "faiss")),
    "bm25s + faiss": (bm25s_faiss, ("bm25s", "faiss")),
    "sqlite-vec + FTS5": (sqlite_vec_fts5, ("apsw", "sqlite_vec")),
    "LanceDB": (lancedb_hybrid, ("lancedb",)),
    "Chroma, vectors alone": (chroma, ("chromadb",)),
}
OURS = "hybrid"


@dataclass(frozen=True, slots=True)
class Row:
    """One contestant."""

    name: str
    quality: float
    ms: NDArray[np.float64]
    """Processor time of each answer, shape (queries,)."""
    index_s: float
    lines: int


def lines_of(build: Callable[..., object]) -> int:
    """Count the lines that a user writes, without blank ones."""
    return sum(bool(line.strip()) for line in inspect.getsource(build).splitlines())


def corpus_of(of: Collection, searcher: BlendSearcher) -> tuple[Corpus, Sequence[str]]:
    """Return texts and vectors in the order of the hybrid's own store, and the ids."""
    texts = {one.doc_id: f"{one.title} {one.text}".strip() for one in of.documents}
    ids = searcher.vectors.store.doc_ids
    vectors = np.ascontiguousarray(searcher.vectors.store.vectors, dtype=np.float32)
    return Corpus([texts[one] for one in ids], vectors), ids


def compare(of: Collection, names: Sequence[str], out: Path) -> list[Row]:
    """Search every judged query with every contestant, in turns."""
    with of.opened(OURS) as searcher:
        assert isinstance(searcher, BlendSearcher)  # noqa: S101  the arm's file says so
        corpus, ids = corpus_of(of, searcher)
        searches, took = {}, {}
        for name in names:
            folder = out / "indexes" / name.replace(" ", "-")
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            began = process_time()
            searches[name] = PEERS[name][0](corpus, folder)
            took[name] = process_time() - began
        shown: dict[str, dict[str, list[str]]] = {name: {} for name in [OURS, *names]}
        spent: dict[str, list[float]] = {name: [] for name in [OURS, *names]}
        for turn, (query_id, text) in enumerate(of.queries.items()):
            order = list(spent)
            for name in order[turn % len(order) :] + order[: turn % len(order)]:
                began = process_time()
                if name == OURS:
                    best = [hit.doc_id for hit in searcher.search(text, K).hits]
                else:
                    vector = searcher.vectors.embedder.embed([text])[0]
                    best = [ids[row] for row in searches[name](text, vector)]
                spent[name].append(1000 * (process_time() - began))
                shown[name][query_id] = best
    rows = []
    for name, found in shown.items():
        run = {q: {d: -float(rank) for rank, d in enumerate(best)} for q, best in found.items()}
        quality = score(run, of.of.qrels(), [MEASURE]).scores[MEASURE].mean or 0.0
        lines = lines_of(PEERS[name][0]) if name in PEERS else 1
        rows.append(Row(name, quality, np.array(spent[name]), took.get(name, 0.0), lines))
    return rows


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of the table."""
    ours = next(row for row in rows if row.name == OURS)
    yield f"| | {MEASURE} | p50 ms | p95 ms | p50 over hybrid | index s | lines |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for row in rows:
        p50, p95 = np.quantile(row.ms, [0.5, 0.95])
        index = f"{row.index_s:.1f}" if row.index_s else ""
        yield (
            f"| {row.name} | {row.quality:.4f} | {p50:.2f} | {p95:.2f}"
            f" | {p50 / np.median(ours.ms):.2f} | {index} | {row.lines} |"
        )


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--peers", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site.addsitedir(str(args.peers / "lib" / version / "site-packages"))
    of = Collection(args.folder, args.out)
    missing = {
        name: [one for one in needs if importlib.util.find_spec(one) is None]
        for name, (_, needs) in PEERS.items()
    }
    names = [name for name, lacks in missing.items() if not lacks]
    rows = compare(of, names, args.out)
    lines = [*tables(rows), ""]
    lines += [f"Left out: {name} ({', '.join(no)})." for name, no in missing.items() if no]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
