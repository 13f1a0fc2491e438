"""Scores made alike: shares of the best, in a total order."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines.contract import EngineError
from engines.stacks.agent_mail.contract import (
    Candidate,
    CandidateList,
    ExplainTiming,
    Filters,
    MailEngine,
    RankingMode,
)
from engines.stacks.agent_mail.pipeline.retrievers import Scored, in_order, of_lexical
from engines.stacks.agent_mail.sqlite.search import Fts5Engine, Weights, matching_ids
from engines.stacks.agent_mail.sqlite.store import MessageStore
from tests.make.mail.messages import Mail, passes
from tests.make.mail.tantivy import built


def found(*scores: float) -> CandidateList:
    candidates = tuple(Candidate(at, score) for at, score in enumerate(scores, start=1))
    return CandidateList(candidates, exhausted=True, method="m", normalized_query=None)


def test_a_score_is_a_share_of_the_best_and_a_single_hit_has_one() -> None:
    hits = of_lexical(found(4.0, 1.0), ExplainTiming()).hits
    assert [(hit.score, hit.raw_score) for hit in hits] == [(1.0, 4.0), (0.25, 1.0)]
    assert of_lexical(found(0.3), ExplainTiming()).hits[0].score == 1.0


def test_a_listing_without_scores_has_zeros_in_order_of_ids() -> None:
    hits = of_lexical(found(0.0, 0.0), ExplainTiming()).hits
    assert [(hit.message_id, hit.score) for hit in hits] == [(1, 0.0), (2, 0.0)]


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_a_score_that_is_no_number_is_an_error(score: float) -> None:
    with pytest.raises(EngineError, match="message 1"):
        of_lexical(found(score), ExplainTiming())


def test_order_is_by_key_and_then_by_id() -> None:
    hits = [Scored(3, 0.5, 1), Scored(1, 0.5, 1), Scored(2, 0.9, 1), Scored(9, 0.1, 1)]
    assert [hit.message_id for hit in in_order(hits)] == [2, 1, 3, 9]
    timed = [Scored(1, 0.9, 1, sent=5), Scored(2, 0.1, 1, sent=7)]
    assert [hit.message_id for hit in in_order(timed)] == [2, 1]
    late = [Scored(1, 0, 0, sent=2**53), Scored(2, 0, 0, sent=2**53 + 1)]
    assert [hit.message_id for hit in in_order(late)] == [2, 1], "no float holds both"


def test_matching_ids_are_those_that_pass_in_order(store: MessageStore, mail: Mail) -> None:
    for filters in (Filters(), Filters(project_id=2), Filters(ack_required=True)):
        wanted = sorted(m.message_id for m in mail.messages if passes(m, filters))
        assert matching_ids(store, filters).tolist() == wanted


@pytest.mark.parametrize("engine", ["fts5", "tantivy"])
def test_by_recency_a_score_depends_neither_on_page_nor_depth(
    store: MessageStore, mail: Mail, tmp_path: Path, engine: str
) -> None:
    asked: MailEngine = (
        Fts5Engine(store, Weights(2.0, 1.0, 4.0))
        if engine == "fts5"
        else built(tmp_path / "mail", mail.messages).engine
    )
    text = "deployment review br-2tnl failed"

    def scores(ranking: RankingMode, depth: int) -> dict[int, float]:
        hits = of_lexical(
            asked.search(text, Filters(project_id=2), ranking, depth), ExplainTiming()
        ).hits
        return {hit.message_id: hit.score for hit in hits}

    whole = scores(RankingMode.RELEVANCE, 1_000)
    assert scores(RankingMode.RECENCY, 1_000) == pytest.approx(whole, abs=1e-12)
    for depth in (1, 2, 3, 5, 8):
        few = scores(RankingMode.RECENCY, depth)
        assert few == pytest.approx({at: whole[at] for at in few}, abs=1e-12)
    assert max(scores(RankingMode.RECENCY, 1).values()) < 1.0
