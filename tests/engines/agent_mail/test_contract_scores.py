"""Scores as callers see them: higher is better, from 0 to 1, in one total order, in every mode."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from engines.stacks.agent_mail.contract import (
    Candidate,
    Filters,
    RankingMode,
    SearchHit,
    SearchMode,
    SearchQuery,
)
from engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from tests.engines.agent_mail.whole import EMBEDDER, ByLength, Whole, build, whole
from tests.make.mail.messages import some_filters, some_mail, some_text

ALL = 1_000
MAIL = some_mail(53, 200)
WAYS = [*((mode, None) for mode in SearchMode), (SearchMode.LEXICAL, KillSwitch.FTS5)]
TEXT = "deployment review br-2tnl"


@pytest.fixture(scope="module")
def mail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("scores")
    build(folder, MAIL.messages)
    with whole(folder) as made:
        yield made


def hits(mail: Whole, query: SearchQuery) -> tuple[SearchHit, ...]:
    return mail.ask(query).hits


@pytest.mark.parametrize(("mode", "switch"), WAYS)
def test_every_score_is_between_none_and_one_in_a_total_order(
    mail: Whole, mode: SearchMode, switch: KillSwitch | None
) -> None:
    rng, served, shown = Random(6), mail.under(switch), 0
    for _ in range(40):
        filters = some_filters(rng)
        query = SearchQuery(some_text(rng), mode=mode, limit=ALL, sender_name=filters.sender_name)
        search_hits = hits(served, query)
        keys = [(-hit.score, hit.message_id) for hit in search_hits]
        assert keys == sorted(keys)
        assert len({message_id for _, message_id in keys}) == len(keys)
        assert all(0.0 <= hit.score <= 1.0 for hit in search_hits)
        shown += len(search_hits)
    assert shown > 500


def found_by(mail: Whole, tier: FallbackTier) -> dict[int, float]:
    """Scores of an engine asked directly, higher for better."""
    engine = mail.service.tiers.lexical[tier]
    found = engine.search(TEXT, Filters(), RankingMode.RELEVANCE, ALL)
    return {c.message_id: c.raw_score for c in found.candidates}


@pytest.mark.parametrize(
    ("switch", "tier"),
    [(KillSwitch.FTS5, FallbackTier.FTS5), (KillSwitch.TANTIVY, FallbackTier.TANTIVY)],
)
def test_a_lexical_score_is_the_share_of_the_best_beside_the_engines_own(
    mail: Whole, switch: KillSwitch, tier: FallbackTier
) -> None:
    own = found_by(mail, tier)
    best = max(own.values())
    shown = hits(mail.under(switch), SearchQuery(TEXT, limit=ALL))
    assert len(shown) == len(own) > 20
    for hit in shown:
        assert hit.raw_score == own[hit.message_id]
        assert hit.score == pytest.approx(hit.raw_score / best, abs=1e-12)
    assert shown[0].score == 1.0


@pytest.mark.parametrize("switch", [KillSwitch.FTS5, KillSwitch.TANTIVY])
def test_a_score_is_the_same_share_whatever_page_and_order_it_is_shown_in(
    mail: Whole, switch: KillSwitch
) -> None:
    """The best hit may be on none of the pages that are read."""
    served = mail.under(switch)
    scores = {hit.message_id: hit.score for hit in hits(served, SearchQuery(TEXT, limit=ALL))}
    (newest,) = hits(served, SearchQuery(TEXT, limit=1, ranking=RankingMode.RECENCY))
    assert newest.score == scores[newest.message_id] < 1.0


def test_bm25_of_fts5_is_turned_so_that_higher_is_better(mail: Whole) -> None:
    """SQLite counts downwards from zero."""
    sql = (
        "SELECT rowid, bm25(messages_fts, 2.0, 1.0, 4.0) FROM messages_fts"
        " WHERE messages_fts MATCH 'deployment'"
    )
    native = dict(mail.store.ask(sql))
    shown = hits(mail.under(KillSwitch.FTS5), SearchQuery("deployment", limit=ALL))
    assert {hit.message_id: -hit.raw_score for hit in shown} == pytest.approx(native)
    assert all(score < 0 for score in native.values())


def test_bm25_of_tantivy_is_positive(mail: Whole) -> None:
    assert min(found_by(mail, FallbackTier.TANTIVY).values()) > 0


def test_a_semantic_score_is_the_cosine(mail: Whole) -> None:
    vectors = dict(
        zip(
            (m.message_id for m in MAIL.messages),
            EMBEDDER.embed([f"{m.subject} {m.body}" for m in MAIL.messages]),
            strict=True,
        )
    )
    asked = EMBEDDER.embed([TEXT])[0]
    shown = hits(mail, SearchQuery(TEXT, mode=SearchMode.SEMANTIC, limit=ALL))
    for hit in shown:
        cosine = float(vectors[hit.message_id].astype(float) @ asked.astype(float))
        assert hit.score == pytest.approx(cosine, abs=1e-3)
        assert hit.raw_score == hit.score > 0
    near = {at for at, vector in vectors.items() if float(vector @ asked) > 1e-3}
    assert near <= {hit.message_id for hit in shown}


def ranks(shown: tuple[SearchHit, ...]) -> dict[int, int]:
    return {hit.message_id: rank for rank, hit in enumerate(shown, start=1)}


@pytest.mark.parametrize("rrf_k", [1, 60, 1_000])
def test_a_hybrid_score_is_the_sum_over_both_legs_as_a_share_of_the_largest(
    mail: Whole, rrf_k: int
) -> None:
    legs = [
        ranks(hits(mail, SearchQuery(TEXT, mode=mode, limit=ALL)))
        for mode in (SearchMode.LEXICAL, SearchMode.SEMANTIC)
    ]
    shown = hits(mail, SearchQuery(TEXT, mode=SearchMode.HYBRID, limit=ALL, rrf_k=rrf_k))
    assert {hit.message_id for hit in shown} == set(legs[0]) | set(legs[1])
    for hit in shown:
        total = sum(1 / (rrf_k + leg[hit.message_id]) for leg in legs if hit.message_id in leg)
        assert hit.raw_score == pytest.approx(total, abs=1e-12)
        assert hit.score == pytest.approx(total / (2 / (rrf_k + 1)), abs=1e-11)


def test_a_reranked_score_is_the_rerankers_and_the_rest_stays_below(mail: Whole) -> None:
    hybrid = hits(mail, SearchQuery(TEXT, mode=SearchMode.HYBRID, limit=ALL))
    query = SearchQuery(TEXT, mode=SearchMode.HYBRID_RERANK, limit=ALL, rerank_top_k=20)
    shown = hits(mail, query)
    window = [hit.message_id for hit in hybrid[:20]]
    given = dict(zip(window, ByLength().rerank(TEXT, window, []), strict=True))
    assert {hit.message_id: (hit.score, hit.raw_score) for hit in shown[:20]} == given
    assert [hit.message_id for hit in shown[20:]] == [hit.message_id for hit in hybrid[20:]]
    assert all(hit.score <= shown[19].score for hit in shown[20:])


@pytest.mark.parametrize(("mode", "switch"), WAYS)
@pytest.mark.parametrize("least", [0.0, 0.3, 0.75, 1.0])
def test_the_threshold_is_on_the_score_that_is_shown(
    mail: Whole, mode: SearchMode, switch: KillSwitch | None, least: float
) -> None:
    served, query = mail.under(switch), SearchQuery(TEXT, mode=mode, limit=ALL)
    everything = hits(served, query)
    kept = tuple(hit for hit in everything if hit.score >= least)
    assert hits(served, replace(query, min_score=least)) == kept
    assert hits(served, replace(query, min_score=least, limit=5)) == kept[:5]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_number_never_reaches_a_caller(mail: Whole, value: float) -> None:
    class Bad:
        name = "bad"

        def search(self, *asked: object) -> object:
            found = mail.service.tiers.lexical[FallbackTier.FTS5].search(*asked)  # type: ignore[arg-type]
            first = found.candidates[0]
            spoilt = (Candidate(first.message_id, value), *found.candidates[1:])
            return replace(found, candidates=spoilt)

    tiers = mail.service.tiers
    lexical = {**tiers.lexical, FallbackTier.TANTIVY: Bad()}
    service = replace(mail.service, tiers=replace(tiers, lexical=lexical))  # type: ignore[arg-type]
    found = service.search(SearchQuery(TEXT))
    assert found.explain.engine == "fts5"
    assert all(math.isfinite(hit.score) and math.isfinite(hit.raw_score) for hit in found.hits)


def test_equal_scores_come_by_id_in_every_mode(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("ties")
    same = [replace(MAIL.messages[0], message_id=at, subject="moss", body="") for at in (9, 2, 5)]
    build(folder, same)
    with whole(folder) as made:
        for mode in (SearchMode.LEXICAL, SearchMode.SEMANTIC):
            assert [hit.message_id for hit in hits(made, SearchQuery("moss", mode=mode))] == [
                2,
                5,
                9,
            ]
            assert len({hit.score for hit in hits(made, SearchQuery("moss", mode=mode))}) == 1
        served = made.under(KillSwitch.FTS5)
        assert [hit.message_id for hit in hits(served, SearchQuery("moss"))] == [2, 5, 9]
