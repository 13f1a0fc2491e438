"""Who asks for a name finds a message that holds it first, in both engines of message search.

The traffic is made of a seed: tickets and their parts, paths, functions and commits, asked for
bare, in capitals, and within a few words of talk ("where is 9428bc6 used").
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from agent_mail.generate import Traffic, generate

from engines import registry as arms
from engines.stacks.agent_mail.sqlite.search import match_expression
from harness.core.records import Document

TRAFFIC = Traffic(messages=1_000, seed=11, queries=80)
K = 10
LEAST = 0.99
"""Of the mean reciprocal rank of the first message that holds the name, among the first ten."""
NAMES_IT = 2
Asked = tuple[tuple[Document, ...], Mapping[str, frozenset[str]]]


@pytest.fixture(scope="module")
def asked() -> Asked:
    """Make the messages, and the questions of the slice with the messages that hold the name."""
    made = generate(TRAFFIC)
    holding = {
        query.text: frozenset(
            doc_id
            for doc_id, grade in made.qrels.grades[query.query_id].items()
            if grade == NAMES_IT
        )
        for query in made.queries
        if "identifier" in query.slices
    }
    return tuple(made.documents), holding


@pytest.mark.slow
@pytest.mark.parametrize("arm", ["mail-fts5", "mail-tantivy"])
def test_the_first_message_holds_the_name(asked: Asked, tmp_path: Path, arm: str) -> None:
    documents, holding = asked
    engine, index = arms.load(arm, tmp_path / "cache").engine, tmp_path / "index"
    index.mkdir()
    engine.build(documents, index)
    reciprocal = {}
    with engine.open(index) as searcher:
        for text, right in holding.items():
            shown = [hit.doc_id for hit in searcher.search(text, K).hits]
            reciprocal[text] = max(
                (1 / at for at, d in enumerate(shown, 1) if d in right), default=0
            )
    assert len(reciprocal) == TRAFFIC.queries
    late = {text: value for text, value in reciprocal.items() if value < 1}
    assert sum(reciprocal.values()) / len(reciprocal) >= LEAST, late


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("9428bc6", '"9428bc6"'),
        ('"9428bc6"', '"9428bc6"'),
        ("9428bc6,plan", '("9428bc6,plan" OR identifiers : "9428bc6")'),
        ("br-2tnl", '("br-2tnl" OR identifiers : "br\ue02d2tnl")'),
    ],
)
def test_a_name_of_one_word_is_asked_of_its_column_once(text: str, expression: str) -> None:
    """Without a column filter FTS5 looks in all of them; twice would count twice."""
    assert match_expression(text) == expression
