"""The two orders of candidates, one more than is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
import tantivy

from engines.lexical.tantivy import analyzer
from engines.stacks.agent_mail.contract import Candidate, RankingMode
from engines.stacks.agent_mail.tantivy.index import Opened, Weights, opened
from engines.stacks.agent_mail.tantivy.query import Compiler, counted, cut, listed, matching
from tests.make.mail.messages import NOON, one
from tests.make.mail.tantivy import built

SENT = {5: NOON, 2: NOON + 1, 9: NOON + 1, 4: NOON - 3}
ALL = tantivy.Query.all_query()


@pytest.fixture
def now(tmp_path: Path) -> Opened:
    built(tmp_path / "mail", [one(at, "moss", created_ts=ts) for at, ts in SENT.items()])
    return opened(tmp_path / "mail", frozenset())


@pytest.mark.parametrize("depth", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    ("ranking", "order"),
    [(RankingMode.RELEVANCE, [2, 4, 5, 9]), (RankingMode.RECENCY, [2, 9, 5, 4])],
)
def test_one_more_than_is_shown(
    now: Opened, ranking: RankingMode, order: list[int], depth: int
) -> None:
    moss = tantivy.Query.term_query(now.folder.schema, "subject", "moss")
    score = now.searcher.search(moss, 1).hits[0][0]
    matched = matching(now, moss, ranking, depth)
    assert matched == [Candidate(at, score) for at in order[: depth + 1]]
    assert listed(now, ALL, ranking, depth) == [Candidate(at, 0.0) for at in order[: depth + 1]]


def test_by_time_each_keeps_its_own_score(tmp_path: Path) -> None:
    built(tmp_path / "mail", [one(1, "moss"), one(2, "moss", "fern stone moss", created_ts=1)])
    now = opened(tmp_path / "mail", frozenset())
    either = tantivy.Query.boolean_query([
        (tantivy.Occur.Should, tantivy.Query.term_query(now.folder.schema, name, "moss"))
        for name in ("subject", "body")
    ])
    best = matching(now, either, RankingMode.RELEVANCE, 5)
    assert [c.message_id for c in best] == [2, 1]
    assert matching(now, either, RankingMode.RECENCY, 5) == best[::-1]


def test_all_are_counted(now: Opened) -> None:
    assert counted(now.searcher, ALL) == 4
    assert counted(now.searcher, tantivy.Query.empty_query()) == 0


def test_the_one_too_many_is_cut_and_says_that_there_are_more() -> None:
    two = [Candidate(1, 2.0), Candidate(2, 1.0)]
    assert cut(two, 1, "tantivy", "moss").candidates == (Candidate(1, 2.0),)
    assert not cut(two, 1, "tantivy", "moss").exhausted
    assert cut(two, 2, "tantivy", "moss").exhausted
    assert cut([], 0, "tantivy", "moss").exhausted


@pytest.mark.parametrize(
    "text", ["moss", "Moss FERN", "moss fern stone tide", "x" * 256, "NOTE or"]
)
def test_words_of_letters_alone_are_asked_as_any_others_are(tmp_path: Path, text: str) -> None:
    texts = ["moss", "fern stone", "tide fern moss", "stone note or moss", "x" * 256]
    built(tmp_path / "mail", [one(at, words, words) for at, words in enumerate(texts, start=1)])
    now = opened(tmp_path / "mail", frozenset())
    compiler = Compiler(now.folder.schema, analyzer("none"), Weights(2, 4))
    quick, slow = compiler.query(text), compiler.query(f" {text}")
    if quick is None or slow is None:
        assert quick is slow
    else:
        asked = (matching(now, query, RankingMode.RELEVANCE, 9) for query in (quick, slow))
        assert next(asked) == next(asked) != []
