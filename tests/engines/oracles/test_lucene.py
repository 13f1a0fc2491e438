"""Tantivy gives the ten best that Lucene gives, for as many questions as are asked.

Both are given the same words (runs of letters and digits, lower-cased) and the BM25 that Tantivy
has (k1 = 1.2, b = 0.75), so a difference is a fault in how we ask. Equal scores come in another
order in each, so ranks are compared by score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from harness_engines import registry as arms
from harness_engines.lexical.terms import indexed
from harness_engines.stacks.agent_mail.contract import Filters, RankingMode, names
from tests.engines.oracles import lucene, texts
from tests.engines.oracles.questions import Part, Question, any_of, drawn
from tests.make.mail.tantivy import WEIGHTS, built

K, COUNT = 10, 400
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
    questions: Sequence[Question], ours: Callable[[str], list[str]], theirs: Sequence[lucene.Scored]
) -> None:
    assert len(theirs) == len(questions) >= COUNT
    wrong = {
        question.typed: (shown, best)
        for question, best in zip(questions, theirs, strict=True)
        if not lucene.same(shown := ours(question.typed), best, K)
    }
    assert not wrong, f"{len(wrong)} of {len(questions)}: {list(wrong.items())[:3]}"
    assert sum(bool(best) for best in theirs) > COUNT * 0.9


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("corpus", ["cranfield", "documentation"])
def test_the_arm_finds_what_lucene_finds(corpus: str, tmp_path: Path) -> None:
    lucene.jars()
    documents, asked = (
        (texts.documentation(), list[str]())
        if corpus == "documentation"
        else texts.collection(corpus)
    )
    questions = [any_of(text) for text in asked]
    questions += drawn([d.text for d in documents], COUNT - len(questions), 3, prefixes=False)
    theirs = lucene.best(
        {d.doc_id: [("text", d.title), ("text", d.title), ("text", d.text)] for d in documents},
        lines(questions, lambda part: ways(part, {"text": 1.0})),
        K,
        tmp_path,
    )
    engine, index = arms.load("tantivy", tmp_path / "cache").engine, tmp_path / "index"
    index.mkdir()
    engine.build(documents, index)
    with engine.open(index) as searcher:
        compared(questions, lambda t: [hit.doc_id for hit in searcher.search(t, K).hits], theirs)


@pytest.mark.slow
def test_message_search_finds_what_lucene_finds(tmp_path: Path) -> None:
    lucene.jars()
    messages = texts.mail()
    questions = drawn([m.body for m in messages], COUNT, 4, prefixes=True)
    given: dict[str, list[tuple[str, str]]] = {}
    for m in messages:
        subject, body = indexed(m.subject), indexed(m.body)
        given[str(m.message_id)] = [
            ("subject", subject),
            ("body", body),
            *[("text", part) for part in (subject, subject, body)],
            ("whole", " ".join(names(f"{m.subject}\n{m.body}") * WEIGHTS.identifiers)),
        ]
    theirs = lucene.best(
        given,
        lines(questions, mail_ways),
        K,
        tmp_path,
    )
    engine = built(tmp_path / "index", messages).engine

    def ours(text: str) -> list[str]:
        found = engine.search(text, Filters(), RankingMode.RELEVANCE, K)
        return [str(hit.message_id) for hit in found.candidates]

    compared(questions, ours, theirs)
