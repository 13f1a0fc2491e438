"""What may be asked for: names on the wire, defaults, limits, and who reads which setting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, replace
from enum import StrEnum
from typing import Any

import pytest

from engines.stacks.agent_mail.contract import (
    Direction,
    DocKind,
    Importance,
    RankingMode,
    SearchMode,
    SearchQuery,
    TimeRange,
)
from engines.stacks.agent_mail.pipeline.plan import KillSwitch
from tests.engines.agent_mail.whole import Whole, build, whole
from tests.make.mail.messages import Mail, some_mail

MAIL = some_mail(51, 150)
TEXT = "deployment review br-2tnl"


@pytest.fixture(scope="module")
def mail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("query")
    build(folder, MAIL.messages)
    with whole(folder) as made:
        yield made


@pytest.mark.parametrize(
    ("names", "values"),
    [
        (SearchMode, ["lexical", "semantic", "hybrid", "hybrid_rerank"]),
        (RankingMode, ["relevance", "recency"]),
        (Importance, ["low", "normal", "high", "urgent"]),
        (Direction, ["inbox", "outbox"]),
        (DocKind, ["message", "agent", "project"]),
        (KillSwitch, ["fts5", "tantivy", "shadow", "hybrid", "hybrid_rerank"]),
    ],
)
def test_names_on_the_wire_are_the_contracts(names: type[StrEnum], values: list[str]) -> None:
    assert [name.value for name in names] == values


def plain(field: Field[Any]) -> object:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


def test_every_field_but_the_text_has_the_default_of_v2() -> None:
    first, *others = fields(SearchQuery)
    assert first.name == "text"
    assert first.default is MISSING
    defaults = {field.name: plain(field) for field in others}
    named = {
        "mode": SearchMode.LEXICAL,
        "doc_kind": DocKind.MESSAGE,
        "ranking": RankingMode.RELEVANCE,
        "importance": (),
        "time_range": TimeRange(None, None),
        "explain": False,
    }
    unset = {
        "project_id", "product_id", "direction", "agent_name", "thread_id", "ack_required",
        "limit", "cursor", "sender_name", "recipient_name", "min_score", "rerank_top_k", "rrf_k",
    }  # fmt: skip
    assert defaults == named | dict.fromkeys(unset)


@pytest.mark.parametrize(
    ("asked", "held"), [(None, 50), (-1, 1), (0, 1), (1, 1), (1_000, 1_000), (1_001, 1_000)]
)
def test_the_limit(asked: int | None, held: int) -> None:
    assert SearchQuery("x", limit=asked).effective_limit == held


@pytest.mark.parametrize(
    ("asked", "held"), [(None, 100), (-1, 10), (9, 10), (10, 10), (1_000, 1_000), (1_001, 1_000)]
)
def test_the_candidates_to_rerank(asked: int | None, held: int) -> None:
    assert SearchQuery("x", rerank_top_k=asked).effective_rerank_top_k == held


@pytest.mark.parametrize(
    ("asked", "held"), [(None, 60), (-1, 1), (0, 1), (1, 1), (1_000, 1_000), (1_001, 1_000)]
)
def test_the_constant_of_fusion(asked: int | None, held: int) -> None:
    assert SearchQuery("x", rrf_k=asked).effective_rrf_k == held


def test_no_limit_shows_fifty(mail: Whole) -> None:
    assert len(mail.ids(SearchQuery("", ack_required=True))) == 50
    assert len(mail.ids(SearchQuery("", ack_required=True, limit=1_000))) > 50


def test_a_query_with_only_a_text_is_the_one_that_spells_the_defaults_out(mail: Whole) -> None:
    spelt = SearchQuery(
        TEXT,
        mode=SearchMode.LEXICAL,
        doc_kind=DocKind.MESSAGE,
        ranking=RankingMode.RELEVANCE,
        limit=50,
        rerank_top_k=100,
        rrf_k=60,
        min_score=None,
    )
    assert mail.ask(SearchQuery(TEXT)).hits == mail.ask(spelt).hits != ()


def scores(mail: Whole, query: SearchQuery) -> list[tuple[int, float]]:
    return [(hit.message_id, hit.score) for hit in mail.ask(query).hits]


@pytest.mark.parametrize("mode", SearchMode)
def test_the_constant_of_fusion_counts_only_where_there_is_fusion(
    mail: Whole, mode: SearchMode
) -> None:
    query = SearchQuery(TEXT, mode=mode, limit=1_000, rerank_top_k=10)
    changed = scores(mail, query) != scores(mail, replace(query, rrf_k=1))
    assert changed == (mode in {SearchMode.HYBRID, SearchMode.HYBRID_RERANK})


@pytest.mark.parametrize("mode", SearchMode)
def test_the_candidates_to_rerank_count_only_where_one_reranks(
    mail: Whole, mode: SearchMode
) -> None:
    query = SearchQuery(TEXT, mode=mode, limit=1_000)
    changed = scores(mail, query) != scores(mail, replace(query, rerank_top_k=10))
    assert changed == (mode is SearchMode.HYBRID_RERANK)


@pytest.mark.parametrize("switch", [None, KillSwitch.FTS5])
@pytest.mark.parametrize("text", ["deployment review", "  deployment\t \n review \0 "])
def test_white_space_around_and_within_does_not_count(
    mail: Whole, switch: KillSwitch | None, text: str
) -> None:
    served = mail.under(switch)
    assert served.ids(SearchQuery(text)) == served.ids(SearchQuery("deployment review")) != []


@pytest.mark.parametrize("mode", SearchMode)
def test_newest_first_in_every_mode(mail: Whole, mode: SearchMode) -> None:
    """Times tie often in this mail, so the second key counts too."""
    best = mail.ids(SearchQuery(TEXT, mode=mode, limit=1_000))
    recent = mail.ids(
        SearchQuery(TEXT, mode=mode, limit=1_000, ranking=RankingMode.RECENCY, rerank_top_k=1_000)
    )
    assert recent == by_time(best, MAIL)
    assert recent != best


def by_time(ids: list[int], of: Mail) -> list[int]:
    return sorted(ids, key=lambda at: (-of.by_id[at].created_ts, at))
