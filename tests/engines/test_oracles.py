"""BM25 of two libraries as oracles of the word indexes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import bm25s  # type: ignore[import-untyped]  # ships no types
import numpy as np
import pytest

from harness.core.records import Document
from harness_engines import registry as arms
from harness_engines.lexical.terms import indexed
from harness_engines.stacks.agent_mail.contract import Filters, RankingMode, names
from tests.engines import oracle_texts as oracle
from tests.engines.oracle_texts import MOST_WORDS, Part, Question, any_of, words_of
from tests.engines.oracle_texts import drawn as drawn_lucene
from tests.make.mail.tantivy import WEIGHTS, built

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
        return [Document(str(m.message_id), "", f"{m.subject}\n{m.body}") for m in oracle.mail()]
    found = oracle.documentation() if corpus == "documentation" else oracle.collection(corpus)[0]
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


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("corpus", CORPORA)
def test_they_show_what_tantivy_shows(corpus: str, tmp_path: Path) -> None:
    documents, floor = one_text(corpus), CORPORA[corpus]
    asked = drawn(documents)
    ours = answered("tantivy", documents, asked, tmp_path, K)
    theirs = answered("fts5", documents, asked, tmp_path, len(documents))
    assert overlap(ours, theirs) >= floor.fts5
    assert overlap(ours, scored_by_bm25s(documents, asked)) >= floor.bm25s


@pytest.mark.slow
def test_a_document_further_down_is_no_overlap_and_a_tie_is() -> None:
    theirs = [{str(at): float(20 - at) for at in range(12)} | {"tied": 11.0}] * COUNT
    ten = [{str(at): 1.0 for at in range(10)}] * COUNT
    tied = [{"tied": 1.0, **{str(at): 1.0 for at in range(9)}}] * COUNT
    below = [{"10": 1.0, **{str(at): 1.0 for at in range(9)}}] * COUNT
    assert overlap(ten, theirs) == overlap(tied, theirs) == 1.0
    assert overlap(below, theirs) == pytest.approx(0.9)


K_LUCENE, COUNT_LUCENE = 10, 400
CONSTANT = 1.2 + 1
"""Tantivy's BM25 is k1 + 1 times that of Lucene 8 and later; the score of a prefix is 1 in both."""


def ways(part: Part, weights: Mapping[str, float]) -> list[str]:
    """List the ways in which the arm ``tantivy`` lets a part match, for Lucene."""
    _, kind, words = part
    asked = {"word": ["term"], "phrase": ["phrase"], "prefix": ["prefix"], "joined": ["phrase"]}
    found = [
        f"{field}^{weight} {how} {' '.join(words)}"
        for how in asked[kind]
        for field, weight in weights.items()
    ]
    if kind == "joined":
        found += [
            f"{field}^{weight} term {word}" for field, weight in weights.items() for word in words
        ]
    return found


def mail_ways(part: Part) -> list[str]:
    """List the ways in which the mail engine lets a part match.

    The parts of a name must stand side by side, or the name whole in a field of its own.
    """
    sign, kind, words = part
    fields = {"text": 1.0}
    if kind == "prefix":
        fields = {"subject": WEIGHTS.subject / CONSTANT, "body": 1 / CONSTANT}
    found = ways((sign, "phrase" if kind == "joined" else kind, words), fields)
    if kind in {"word", "joined"}:
        whole = names("-".join(words))
        found += [f"whole^1.0 term {name}" for name in whole]
    return found


def lines(questions: Iterable[Question], of: Callable[[Part], Sequence[str]]) -> list[str]:
    """Write questions for ``Search.java``."""
    return ["\t".join(part[0] + "|".join(of(part)) for part in q.parts) for q in questions]


def compared(
    questions: Sequence[Question],
    ours: Callable[[str], list[str]],
    theirs: Sequence[oracle.Scored],
) -> None:
    assert len(theirs) == len(questions) >= COUNT_LUCENE
    wrong = {
        question.typed: (shown, best)
        for question, best in zip(questions, theirs, strict=True)
        if not oracle.same(shown := ours(question.typed), best, K_LUCENE)
    }
    assert not wrong, f"{len(wrong)} of {len(questions)}: {list(wrong.items())[:3]}"
    assert sum(bool(best) for best in theirs) > COUNT_LUCENE * 0.9


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("corpus", ["cranfield", "documentation"])
def test_the_arm_finds_what_lucene_finds(corpus: str, tmp_path: Path) -> None:
    oracle.jars()
    documents, asked = (
        (oracle.documentation(), list[str]())
        if corpus == "documentation"
        else oracle.collection(corpus)
    )
    questions = [any_of(text) for text in asked]
    questions += drawn_lucene(
        [d.text for d in documents], COUNT_LUCENE - len(questions), 3, prefixes=False
    )
    theirs = oracle.best(
        {d.doc_id: [("text", d.title), ("text", d.title), ("text", d.text)] for d in documents},
        lines(questions, lambda part: ways(part, {"text": 1.0})),
        K_LUCENE,
        tmp_path,
    )
    engine, index = arms.load("tantivy", tmp_path / "cache").engine, tmp_path / "index"
    index.mkdir()
    engine.build(documents, index)
    with engine.open(index) as searcher:
        compared(
            questions, lambda t: [hit.doc_id for hit in searcher.search(t, K_LUCENE).hits], theirs
        )


@pytest.mark.slow
def test_message_search_finds_what_lucene_finds(tmp_path: Path) -> None:
    oracle.jars()
    messages = oracle.mail()
    questions = drawn_lucene([m.body for m in messages], COUNT_LUCENE, 4, prefixes=True)
    given: dict[str, list[tuple[str, str]]] = {}
    for m in messages:
        subject, body = indexed(m.subject), indexed(m.body)
        given[str(m.message_id)] = [
            ("subject", subject),
            ("body", body),
            *[("text", part) for part in (subject, subject, body)],
            ("whole", " ".join(names(f"{m.subject}\n{m.body}") * WEIGHTS.identifiers)),
        ]
    theirs = oracle.best(given, lines(questions, mail_ways), K_LUCENE, tmp_path)
    engine = built(tmp_path / "index", messages).engine

    def ours(text: str) -> list[str]:
        found = engine.search(text, Filters(), RankingMode.RELEVANCE, K_LUCENE)
        return [str(hit.message_id) for hit in found.candidates]

    compared(questions, ours, theirs)
