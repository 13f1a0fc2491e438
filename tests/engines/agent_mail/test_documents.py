"""Documents as messages: their parameters, joined words, operators, any language."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from agent_mail.generate import Traffic, generate
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.records import Document, Scalar
from harness_engines import registry as arms
from harness_engines.contract import InvalidQuery
from harness_engines.stacks.agent_mail import arm as language_mail
from harness_engines.stacks.agent_mail import ingest
from harness_engines.stacks.agent_mail.arm import (
    KNOWN,
    MailSearcher,
    message,
    params_of,
    products,
    question,
)
from harness_engines.stacks.agent_mail.contract import (
    Direction,
    Filters,
    Importance,
    MailEngine,
    RankingMode,
    SearchMode,
    SearchQuery,
    TimeRange,
)
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from tests.engines.agent_mail.test_contract_engines import question as operators_question
from tests.engines.agent_mail.tools import SETTINGS
from tests.engines.agent_mail.whole import MAIL, Whole
from tests.engines.stacks.test_meaning import DOCUMENTS_ANY_LANGUAGE as DOCUMENTS
from tests.engines.stacks.test_meaning import has_any_language
from tests.engines.stacks.test_meaning import piece_any_language as piece
from tests.make.mail_messages import passes, some_filters
from tests.thinned import examples


@pytest.mark.parametrize(
    ("about", "fields"),
    [
        ({}, (1, "", (), Importance.NORMAL)),
        (
            {"project_id": 7, "sender": "Ann", "recipients": "Bob,Cid", "importance": "urgent"},
            (7, "Ann", ("Bob", "Cid"), Importance.URGENT),
        ),
    ],
)
def test_metadata_becomes_the_fields_of_a_message(
    about: dict[str, Scalar], fields: tuple[object, ...]
) -> None:
    found = message(3, Document("d", "subject", "body", about))
    told = (found.project_id, found.sender_name, found.recipients, found.importance)
    assert told == fields
    rest = (found.message_id, found.created_ts, found.subject, found.body)
    assert rest == (3, 3, "subject", "body")


def test_products_are_the_projects_that_name_them() -> None:
    documents = {
        1: Document("a", "", "", {"project_id": 1, "product_id": 9}),
        2: Document("b", "", "", {"project_id": 2, "product_id": 9}),
        3: Document("c", "", "", {"project_id": 3}),
    }
    assert products(documents) == {9: frozenset({1, 2})}


def test_filters_become_the_same_params_again() -> None:
    asked = SearchQuery(
        "x",
        limit=7,
        project_id=3,
        product_id=5,
        importance=(Importance.HIGH, Importance.LOW),
        direction=Direction.OUTBOX,
        agent_name="Ann",
        thread_id="t",
        ack_required=False,
        time_range=TimeRange(0, 9),
        sender_name="Ann",
        recipient_name="Bob",
        min_score=0.25,
        ranking=RankingMode.RECENCY,
    )
    params = params_of(asked)
    assert set(params) == set(KNOWN)
    assert (params["importance"], params["direction"], params["min_ts"]) == (
        "high,low",
        "outbox",
        0,
    )
    assert question("x", SearchMode.LEXICAL, 7, params) == asked
    assert params_of(SearchQuery("x")) == {}


@pytest.mark.parametrize("params", [{"colour": "red"}, {"importance": "huge"}, {"project_id": "x"}])
def test_a_param_that_means_nothing_is_refused(params: dict[str, str]) -> None:
    with pytest.raises(InvalidQuery):
        question("x", SearchMode.LEXICAL, 7, params)


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


ALL = 1_000
TANTIVY_GONE = (FallbackTier.TANTIVY, FallbackTier.HYBRID)
WAYS: dict[str, Callable[[Whole], Whole]] = {
    "tantivy": lambda mail: mail,
    "fts5": lambda mail: mail.under(KillSwitch.FTS5),
    "like": lambda mail: mail.without(*TANTIVY_GONE, FallbackTier.FTS5),
}


def lacking(*words: str) -> list[int]:
    """Give the messages in which none of the words stands, by id."""
    texts = {one.message_id: f"{one.subject} {one.body}".lower() for one in MAIL.messages}
    return [at for at, text in sorted(texts.items()) if not any(word in text for word in words)]


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("way", WAYS)
def test_signs_hold_in_every_mode(post: Whole, way: str, mode: SearchMode) -> None:
    found = WAYS[way](post).ask(SearchQuery("-deployment", mode=mode, limit=ALL))
    ids = [hit.message_id for hit in found.hits]
    assert ids == lacking("deployment")
    assert 0 < len(ids) < len(MAIL.messages)
    assert {hit.score for hit in found.hits} == {0.0}
    served = WAYS[way](post)
    ids = served.ids(SearchQuery("review -deployment", mode=mode, limit=ALL))
    assert set() < set(ids) <= set(lacking("deployment"))
    ids = served.ids(SearchQuery("+deployment review", mode=mode, limit=ALL))
    assert ids
    assert set(ids).isdisjoint(lacking("deployment"))


@pytest.mark.parametrize("way", WAYS)
def test_filters_and_recency_hold_for_what_lacks_the_word(post: Whole, way: str) -> None:
    served, rng = WAYS[way](post), Random(4)
    for _ in range(20):
        filters = some_filters(rng)
        kept = [at for at in lacking("deployment") if passes(MAIL.by_id[at], filters)]
        assert served.ids(operators_question("-deployment", filters)) == kept
    newest = SearchQuery("-deployment", ranking=RankingMode.RECENCY, limit=ALL)
    by_time = sorted(lacking("deployment"), key=lambda at: (-MAIL.by_id[at].created_ts, at))
    assert served.ids(newest) == by_time


def test_a_refused_word_of_several(post: Whole) -> None:
    for served in (way(post) for way in WAYS.values()):
        found = served.ids(operators_question("-deployment -review", Filters()))
        assert found == lacking("deployment", "review")
    seen: list[int] = []
    cursor = None
    while True:
        page = post.ask(SearchQuery("-deployment", limit=7, cursor=cursor))
        seen += [hit.message_id for hit in page.hits]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == lacking("deployment")
    plain = post.ask(SearchQuery("review plan", mode=SearchMode.SEMANTIC, limit=ALL))
    refused = post.ask(SearchQuery("review plan -deployment", mode=SearchMode.SEMANTIC, limit=ALL))
    scores = {hit.message_id: hit.raw_score for hit in plain.hits}
    assert refused.hits
    assert all(hit.raw_score == scores[hit.message_id] for hit in refused.hits)


@pytest.mark.parametrize(
    ("mode", "method"),
    [(SearchMode.HYBRID, "hybrid_rrf"), (SearchMode.HYBRID_RERANK, "hybrid_rerank")],
)
def test_a_refusal_alone_is_answered(post: Whole, mode: SearchMode, method: str) -> None:
    found = post.ask(SearchQuery("-deployment", mode=mode, limit=ALL, explain=True))
    assert found.explain.method == method


ENGINES = (FallbackTier.FTS5, FallbackTier.TANTIVY)
Engines = Mapping[FallbackTier, MailEngine]


@contextmanager
def indexed(folder: Path) -> Iterator[Engines]:
    """Index the documents of many languages."""
    settings = language_mail.MailSettings.model_validate({**SETTINGS, "embedder": ""})
    arm = language_mail.Mail(settings, folder / "cache")
    arm.build(DOCUMENTS, folder)
    with arm.open(folder) as searcher:
        assert isinstance(searcher, MailSearcher)
        yield searcher.service.tiers.lexical


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    with indexed(tmp_path_factory.mktemp("index")) as engines:
        yield engines


def found(engines: Engines, text: str) -> frozenset[str]:
    """Ask both engines, and see that both find the same."""
    by_engine = {
        name: frozenset(
            DOCUMENTS[one.message_id - 1].doc_id
            for one in engines[name].search(text, Filters(), RankingMode.RELEVANCE, 999).candidates
        )
        for name in ENGINES
    }
    assert len({*by_engine.values()}) == 1, (text, by_engine)
    return by_engine[FallbackTier.FTS5]


@settings(max_examples=examples(500), deadline=None)
@given(text=st.lists(piece, min_size=1, max_size=4).map(" ".join))
def test_both_engines_find_the_same_however_it_is_composed(opened: Engines, text: str) -> None:
    assert len({found(opened, unicodedata.normalize(kind, text)) for kind in ("NFC", "NFD")}) == 1


@pytest.mark.parametrize(
    ("text", "same"),
    [("cafe", "CAFÉ"), ("strasse", "Straße"), ("ёлка", "Елка"), ("ガイド", "ｶﾞｲﾄﾞ"), ("👍", "👍🏿")],
)
def test_what_looks_alike_is_found_alike(opened: Engines, text: str, same: str) -> None:
    assert found(opened, text) == found(opened, same) != frozenset()


@pytest.mark.parametrize("text", ["東京", "大学", "น้ำ", "한국", "京都"])
def test_a_part_of_a_run_is_found_and_refused(opened: Engines, text: str) -> None:
    assert found(opened, f"+{text}") == has_any_language(text) != frozenset()
    assert found(opened, f"-{text}") == {d.doc_id for d in DOCUMENTS} - has_any_language(text)


@pytest.mark.parametrize(
    ("text", "whole"), [("東京大*", "東京大学"), ("еЛк*", "елка"), ("gui*", "")]
)
def test_a_beginning_is_found_in_any_script(opened: Engines, text: str, whole: str) -> None:
    assert found(opened, text) == (found(opened, f"+{whole}") if whole else frozenset())


def test_an_edit_by_another_program_is_found(tmp_path: Path) -> None:
    with indexed(tmp_path) as engines, ingest.opened(tmp_path / language_mail.STORE) as box:

        def ids(text: str) -> set[int]:
            fts5 = engines[FallbackTier.FTS5]
            told = fts5.search(text, Filters(), RankingMode.RELEVANCE, 999)
            return {one.message_id for one in told.candidates}

        box.edit(1, subject="更新", body="café")
        assert ids("更新") == {1}
        assert 1 in ids("+cafe")
        with box.store.writing() as db:
            db.execute("UPDATE messages SET subject = 'zeppelin', body = '' WHERE id = 1")
        assert (ids("更新"), ids("zeppelin")) == (set(), {1})
        box.edit(1, subject="cafe\u0301", body="")
        box.edit(1, subject="caf\u00e9")
        assert 1 in ids("+cafe")
        box.delete(1)
        assert ids("zeppelin") == set()
