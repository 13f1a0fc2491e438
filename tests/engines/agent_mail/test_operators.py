"""Operators hold for every hit of message search, in each mode and by whichever engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from engines.stacks.agent_mail.contract import Filters, RankingMode, SearchMode, SearchQuery
from engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from tests.engines.agent_mail.test_contract_engines import question
from tests.engines.agent_mail.whole import Whole, build, whole
from tests.make.mail.messages import passes, some_filters, some_mail

ALL = 1_000
MAIL = some_mail(58, 200)
TANTIVY_GONE = (FallbackTier.TANTIVY, FallbackTier.HYBRID)
WAYS: dict[str, Callable[[Whole], Whole]] = {
    "tantivy": lambda mail: mail,
    "fts5": lambda mail: mail.under(KillSwitch.FTS5),
    "like": lambda mail: mail.without(*TANTIVY_GONE, FallbackTier.FTS5),
}


@pytest.fixture(scope="module")
def mail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("operators")
    build(folder, MAIL.messages)
    with whole(folder) as made:
        yield made


def lacking(*words: str) -> list[int]:
    """Give the messages in which none of the words stands, by id."""
    texts = {one.message_id: f"{one.subject} {one.body}".lower() for one in MAIL.messages}
    return [at for at, text in sorted(texts.items()) if not any(word in text for word in words)]


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("way", WAYS)
def test_a_refusal_alone_gives_what_lacks_the_word(mail: Whole, way: str, mode: SearchMode) -> None:
    found = WAYS[way](mail).ask(SearchQuery("-deployment", mode=mode, limit=ALL))
    ids = [hit.message_id for hit in found.hits]
    assert ids == lacking("deployment")
    assert 0 < len(ids) < len(MAIL.messages)
    assert {hit.score for hit in found.hits} == {0.0}


@pytest.mark.parametrize("way", WAYS)
def test_filters_and_recency_hold_for_what_lacks_the_word(mail: Whole, way: str) -> None:
    served, rng = WAYS[way](mail), Random(4)
    for _ in range(20):
        filters = some_filters(rng)
        kept = [at for at in lacking("deployment") if passes(MAIL.by_id[at], filters)]
        assert served.ids(question("-deployment", filters)) == kept
    newest = SearchQuery("-deployment", ranking=RankingMode.RECENCY, limit=ALL)
    by_time = sorted(lacking("deployment"), key=lambda at: (-MAIL.by_id[at].created_ts, at))
    assert served.ids(newest) == by_time


def test_several_refusals_leave_out_each(mail: Whole) -> None:
    for served in (way(mail) for way in WAYS.values()):
        found = served.ids(question("-deployment -review", Filters()))
        assert found == lacking("deployment", "review")


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("way", WAYS)
def test_a_refused_message_is_never_shown(mail: Whole, way: str, mode: SearchMode) -> None:
    found = WAYS[way](mail).ids(SearchQuery("review -deployment", mode=mode, limit=ALL))
    assert found
    assert set(found) <= set(lacking("deployment"))


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("way", WAYS)
def test_what_must_be_there_is_there(mail: Whole, way: str, mode: SearchMode) -> None:
    found = WAYS[way](mail).ids(SearchQuery("+deployment review", mode=mode, limit=ALL))
    assert found
    assert set(found).isdisjoint(lacking("deployment"))


@pytest.mark.parametrize(
    ("mode", "method"),
    [(SearchMode.HYBRID, "hybrid_rrf"), (SearchMode.HYBRID_RERANK, "hybrid_rerank")],
)
def test_a_refusal_alone_is_answered_by_the_tier_that_was_asked(
    mail: Whole, mode: SearchMode, method: str
) -> None:
    found = mail.ask(SearchQuery("-deployment", mode=mode, limit=ALL, explain=True))
    assert found.explain.method == method


def test_pages_of_what_lacks_a_word_are_one_list(mail: Whole) -> None:
    seen: list[int] = []
    cursor = None
    while True:
        page = mail.ask(SearchQuery("-deployment", limit=7, cursor=cursor))
        seen += [hit.message_id for hit in page.hits]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == lacking("deployment")


def test_a_model_reads_what_is_looked_for(mail: Whole) -> None:
    """What is refused does not pull the vector of a query towards it."""
    plain = mail.ask(SearchQuery("review plan", mode=SearchMode.SEMANTIC, limit=ALL))
    refused = mail.ask(SearchQuery("review plan -deployment", mode=SearchMode.SEMANTIC, limit=ALL))
    scores = {hit.message_id: hit.raw_score for hit in plain.hits}
    assert refused.hits
    assert all(hit.raw_score == scores[hit.message_id] for hit in refused.hits)
