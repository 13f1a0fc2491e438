"""FTS5 and bm25s show the documents that Tantivy shows, as often as they were measured to.

They are not the same function. FTS5 gives a word that is in half of all documents no weight, so
words of up to a 20th of them are asked for, where its weight is nearly that of Tantivy; and both
know the length of a document exactly, of which Tantivy keeps one byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import bm25s  # type: ignore[import-untyped]  # ships no types
import numpy as np
import pytest

from harness.core.records import Document
from harness_engines import registry as arms
from tests.engines.oracles import texts
from tests.engines.oracles.questions import MOST_WORDS, words_of

pytestmark = pytest.mark.slow
K, COUNT, SEED = 10, 400, 9
RARE = 20
"""A word is asked for that is in at most one of so many documents."""
CLOSE = 1e-6


class Floor(NamedTuple):
    """Mean share of the first ten that both show, as measured on a hundred thousand texts."""

    fts5: float
    bm25s: float


MESSAGES, PASSAGES = Floor(0.995, 0.937), Floor(0.96, 0.96)
CORPORA = {"mail": MESSAGES, "documentation": PASSAGES, "cranfield": PASSAGES}


def one_text(corpus: str) -> list[Document]:
    """Read documents of one field each: a weighted title would be counted in three ways."""
    if corpus == "mail":
        return [Document(str(m.message_id), "", f"{m.subject}\n{m.body}") for m in texts.mail()]
    found = texts.documentation() if corpus == "documentation" else texts.collection(corpus)[0]
    return [Document(d.doc_id, "", f"{d.title}\n{d.text}") for d in found]


def drawn(documents: Sequence[Document]) -> list[str]:
    """Draw questions of one to five words of one document."""
    rows = [list(dict.fromkeys(words_of(d.text))) for d in documents]
    often = Counter(word for row in rows for word in row)
    told = [[w for w in row if w.isascii() and often[w] * RARE <= len(rows)] for row in rows]
    long, rng = [row for row in told if len(row) >= MOST_WORDS], Random(SEED)
    return [
        " ".join(rng.sample(rng.choice(long), rng.randint(1, MOST_WORDS))) for _ in range(COUNT)
    ]


def answered(
    arm: str, documents: Sequence[Document], asked: Sequence[str], folder: Path, k: int
) -> list[dict[str, float]]:
    """Scores of the ``k`` best documents, by question."""
    engine, index = arms.load(arm, folder / "cache").engine, folder / arm
    index.mkdir()
    engine.build(documents, index)
    with engine.open(index) as searcher:
        found = [searcher.search(text, k).hits for text in asked]
    return [{hit.doc_id: hit.raw_score for hit in hits} for hits in found]


def scored_by_bm25s(documents: Sequence[Document], asked: Sequence[str]) -> list[dict[str, float]]:
    """Scores of all documents with a word of the question, by question."""
    model = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
    model.index([words_of(document.text) for document in documents], show_progress=False)
    found = []
    for text in asked:
        scores = model.get_scores(words_of(text))
        places = [int(at) for at in np.flatnonzero(scores)]
        found.append({documents[at].doc_id: float(scores[at]) for at in places})
    return found


def overlap(ours: Sequence[Mapping[str, float]], theirs: Sequence[Mapping[str, float]]) -> float:
    """Mean share of our first ten that they rank so high, or tie with their last of ten."""
    shares = []
    for shown, scores in zip(ours, theirs, strict=True):
        best = sorted(scores.values(), reverse=True)[:K]
        last = best[-1] * (1 - CLOSE)
        assert len(shown) == len(best)
        shares.append(sum(scores.get(doc_id, 0.0) >= last for doc_id in shown) / len(best))
    assert len(shares) == COUNT
    return float(np.mean(shares))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("corpus", CORPORA)
def test_they_show_what_tantivy_shows(corpus: str, tmp_path: Path) -> None:
    documents, floor = one_text(corpus), CORPORA[corpus]
    asked = drawn(documents)
    ours = answered("tantivy", documents, asked, tmp_path, K)
    theirs = answered("fts5", documents, asked, tmp_path, len(documents))
    assert overlap(ours, theirs) >= floor.fts5
    assert overlap(ours, scored_by_bm25s(documents, asked)) >= floor.bm25s


def test_a_document_further_down_is_no_overlap_and_a_tie_is() -> None:
    theirs = [{str(at): float(20 - at) for at in range(12)} | {"tied": 11.0}] * COUNT
    ten = [{str(at): 1.0 for at in range(10)}] * COUNT
    tied = [{"tied": 1.0, **{str(at): 1.0 for at in range(9)}}] * COUNT
    below = [{"10": 1.0, **{str(at): 1.0 for at in range(9)}}] * COUNT
    assert overlap(ten, theirs) == overlap(tied, theirs) == 1.0
    assert overlap(below, theirs) == pytest.approx(0.9)
