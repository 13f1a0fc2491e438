"""Choices that need more than the legs of ``choices.py``: RM3, a sparse leg, an encoder in 8 bits.

    python3 run.py python benchmarks/choices_more.py KIND FOLDER [FOLDER ...] --out out/choices

KIND is ``words`` (indexes of words only), ``sparse``, ``encoder`` (documents and queries by another
one) or ``queries`` (queries alone). Otherwise as ``choices.py``:
both sides of each row were named before, with the weights that their authors give.

RM3 is that of Abdul-Jaleel et al., "UMass at TREC 2004: Novelty and HARD" (relevance model 1 of
Lavrenko and Croft, mixed with the query). A document's likelihood of the query is its share of the
BM25 scores of the first documents.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import tantivy
from numpy.typing import NDArray

from benchmarks.choices import (
    MEASURE,
    SHOWN,
    STEMS,
    SURE,
    Choice,
    Ranked,
    by_place,
    cell,
    of_arm,
    row,
    table,
    words,
)
from benchmarks.legs import Collection, Leg, Scores
from engines.lexical.normal import word
from engines.lexical.tantivy_hits import best
from engines.lexical.terms import indexed
from engines.lexical.typed import normalise
from engines.ranking.convex import combine
from engines.sparse.cached import encode_all
from engines.sparse.models import sparse_model
from engines.sparse.splade import Splade
from engines.stacks.text.blend import BlendSearcher
from engines.stacks.text.tantivy import TantivySearcher
from engines.vector.chosen import embedder_of
from engines.vector.store import VectorStore
from harness import compare
from harness.core.qrels import Qrels

FED, ADDED, ORIGINAL = 10, 10, 0.5
"""Documents that feed back, words of them, and what the query's own words count."""
COMMON = 0.1
"""A word that so many of the documents have says nothing."""
SHORTEST, LONGEST = 2, 20
INT8 = "all-MiniLM-L6-v2-int8"
SPARSE, TOKENS = "splade-tiny", 256
VECTOR_SHARE = 0.7
MARGIN = 0.01
"""Of decision 152; one collection may lose twice that."""


def fed_back(
    collection: Collection, documents: int = FED, added: int = ADDED, original: float = ORIGINAL
) -> Leg:
    """Search again with the words of the first documents, each with its weight (RM3)."""

    def gather() -> Leg:
        with collection.opened(STEMS) as searcher:
            assert isinstance(searcher, TantivySearcher)  # noqa: S101  the arm's file says so
            counts = {
                one.doc_id: _terms(searcher, f"{one.title} {one.text}")
                for one in collection.documents
            }
            having = Counter(term for of in counts.values() for term in of)
            rare = {t for t, n in having.items() if n <= COMMON * len(counts)}
            kept = {
                d: {t: n for t, n in of.items() if t in rare and SHORTEST <= len(t) <= LONGEST}
                for d, of in counts.items()
            }
            found = {}
            for q, text in collection.queries.items():
                own = _shares(_terms(searcher, text))
                first = _shares(dict(list(collection.words[q].items())[:documents]))
                model: dict[str, float] = defaultdict(float)
                for doc_id, likely in first.items():
                    for term, share in _shares(kept[doc_id]).items():
                        model[term] += likely * share
                by_weight = sorted(model.items(), key=lambda one: (-one[1], one[0]))
                strongest = _shares(dict(by_weight[:added]))
                weights = {
                    term: original * own.get(term, 0.0) + (1 - original) * strongest.get(term, 0.0)
                    for term in {*own, *strongest}
                }
                found[q] = _searched(searcher, weights)
        return found

    return collection.kept(f"rm3-{documents}-{added}-{original}", gather)


def unfed(collection: Collection) -> Leg:
    """Search with the query's own words and nothing else, as RM3 does where nothing is added."""
    return fed_back(collection, original=1.0)


def _terms(searcher: TantivySearcher, text: str) -> dict[str, float]:
    counts: Counter[str] = Counter()
    for one in word().finditer(indexed(text)):
        counts.update(searcher.analyzer.analyze(one[0]))
    return {term: float(n) for term, n in counts.items()}


def _shares(of: Mapping[str, float]) -> dict[str, float]:
    whole = sum(of.values())
    return {key: value / whole for key, value in of.items()} if whole else {}


def _searched(searcher: TantivySearcher, weights: Mapping[str, float]) -> Scores:
    """Rank by BM25 over the terms, each counted by its weight."""
    parts = [
        (
            tantivy.Occur.Should,
            tantivy.Query.boost_query(
                tantivy.Query.term_query(searcher.schema, field, term, "freq"), weight * boost
            ),
        )
        for term, weight in sorted(weights.items())
        if weight > 0
        for field, boost in searcher.settings.weights.items()
    ]
    if not parts:
        return {}
    query = tantivy.Query.boolean_query(parts)
    hits = best(searcher.searcher, query, SHOWN, schema=searcher.schema, ids="id")
    return {searcher.doc_ids[hit.document]: hit.key for hit in hits}


def sparse(collection: Collection) -> Leg:
    """Rank every document by its dot product with the query's terms (SPLADE-tiny)."""

    def gather() -> Leg:
        encoder = Splade.load(sparse_model(SPARSE), TOKENS)
        ids = sorted(one.doc_id for one in collection.documents)
        by_id = {one.doc_id: f"{one.title} {one.text}".strip() for one in collection.documents}
        cache = collection.out / "cache"
        store = encode_all([by_id[d] for d in ids], encoder, encoder.model.terms, cache)
        rows = np.arange(len(store))

        def ranked(text: str) -> Scores:
            dots = store.dots(encoder.encode(normalise(text)), rows)
            first = np.argsort(-dots, kind="stable")[:SHOWN]
            return {ids[at]: float(dots[at]) for at in first.tolist() if dots[at] > 0}

        return {q: ranked(text) for q, text in collection.queries.items()}

    return collection.kept("sparse", gather)


def vectors(collection: Collection) -> Leg:
    """Rank by cosines as they are."""
    return collection.vectors


def added(collection: Collection, shares: Mapping[str, float], near: Ranked = vectors) -> Leg:
    """Add the legs by their shares; ``near`` gives cosines."""
    legs: dict[str, Leg] = {"words": collection.words, "vectors": near(collection)}
    if "sparse" in shares:
        legs["sparse"] = sparse(collection)

    def fused(q: str) -> Scores:
        scores = {name: dict(list(leg[q].items())) for name, leg in legs.items()}
        scores["words"] = dict(list(scores["words"].items())[:SHOWN])
        return {hit.doc_id: hit.raw_score for hit in combine(scores, shares, SHOWN)}

    return {q: fused(q) for q in collection.queries}


def embedded(collection: Collection, embedder: str) -> Leg:
    """Give cosines of documents and queries by another encoder, also of what words found."""

    def gather() -> Leg:
        with collection.opened("dense", {"embedder": embedder}) as searcher:
            store: VectorStore = searcher.store  # type: ignore[attr-defined]
            found = {}
            for q, text in collection.queries.items():
                vector = searcher.query_vector(text)  # type: ignore[attr-defined]
                first = dict(store.nearest(vector, 2 * SHOWN))
                found[q] = first | store.cosines(vector, list(collection.words[q]))
        return found

    return collection.kept(f"cosines-{embedder}", gather)


def asked(collection: Collection, embedder: str) -> Leg:
    """Give cosines of queries by another encoder; documents stay as they are."""

    def gather() -> Leg:
        with collection.opened("hybrid") as both:
            assert isinstance(both, BlendSearcher)  # noqa: S101  the arm's file says so
            other = replace(both.vectors, embedder=embedder_of(embedder, TOKENS))
            found = {q: other.query_vector(text) for q, text in collection.queries.items()}
        return queried(collection, {q: v for q, v in found.items() if v is not None})

    return collection.kept(f"asked-{embedder}", gather)


def queried(collection: Collection, found: Mapping[str, NDArray[np.float32]]) -> Leg:
    """Give cosines of these vectors of queries."""
    near = replace(collection.near, queries=found)
    return {q: near.cosines(q, collection.words[q]) for q in collection.queries}


TWO = {"words": 1 - VECTOR_SHARE, "vectors": VECTOR_SHARE}
THREE = {"words": 0.15, "vectors": 0.7, "sparse": 0.15}
"""The words' share is halved for the leg that joins them."""
KINDS = {
    "words": (
        Choice("RM3: 10 documents, 10 words, weight 0.5", unfed, fed_back),
        Choice("RM3: 3 documents, 10 words, weight 0.5", unfed, partial(fed_back, documents=3)),
        Choice(
            "RM3: 10 documents, 30 words, weight 0.7",
            unfed,
            partial(fed_back, added=30, original=0.7),
        ),
    ),
    "sparse": (
        Choice("SPLADE-tiny, not stemmed words", words, sparse),
        Choice(
            "SPLADE-tiny as a third leg", partial(added, shares=TWO), partial(added, shares=THREE)
        ),
    ),
    "encoder": (
        Choice("vectors by 8 bits, not 32", of_arm("dense"), of_arm("dense", embedder=INT8)),
        Choice(
            "hybrid, its vectors by 8 bits",
            partial(added, shares=TWO),
            partial(added, shares=TWO, near=partial(embedded, embedder=INT8)),
        ),
    ),
    "queries": (
        Choice("vectors, queries by 8 bits", vectors, partial(asked, embedder=INT8)),
        Choice(
            "hybrid, queries by 8 bits",
            partial(added, shares=TWO),
            partial(added, shares=TWO, near=partial(asked, embedder=INT8)),
        ),
    ),
}


def judged(choice: Choice, collections: Sequence[Collection]) -> str:
    """Say what decision 152 asks: the mean over collections, all queries, and each collection."""
    of = row(choice, collections)
    before, after = (
        {
            f"{one.name}:{q}": scores
            for one in collections
            for q, scores in by_place(side(one)).items()
        }
        for side in (choice.before, choice.after)
    )
    grades = {
        f"{one.name}:{q}": docs for one in collections for q, docs in one.qrels.grades.items()
    }
    whole = compare(before, after, Qrels(grades), MEASURE, sure=SURE).estimate
    asks = {
        f"mean over collections {cell(*of.mean)}": of.mean[1] > -MARGIN,
        f"all queries {cell(whole.value, whole.low, whole.high)}": whole.low > -MARGIN,
        "each collection": all(e.value > -2 * MARGIN and e.high > 0 for e in of.each.values()),
    }
    said = "".join(f"{ask}: {'yes' if met else 'no'}\n" for ask, met in asks.items())
    return f"{choice.name}, not inferior by {MARGIN}\n{said}"


def collections_of(folders: Sequence[Path], out: Path) -> list[Collection]:
    """Open folders by their judgements of the split test, or of dev where there is no test."""
    splits = [(f, "test" if (f / "qrels" / "test.tsv").is_file() else "dev") for f in folders]
    return [Collection(folder, split, out) for folder, split in splits]


def main() -> None:
    """Measure every folder and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    if len(args.folders) < 2:  # noqa: PLR2004  a mean over one collection has no interval
        parser.error("give two collections or more")
    collections = collections_of(args.folders, args.out)
    text = "\n".join(table([row(choice, collections) for choice in KINDS[args.kind]]))
    (args.out / f"choices_{args.kind}.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    if args.kind == "queries":
        sys.stdout.write(judged(KINDS[args.kind][-1], collections))


if __name__ == "__main__":
    main()
