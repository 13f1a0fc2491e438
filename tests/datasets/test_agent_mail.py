"""The generator of coordination traffic: the same everywhere, and judged by what is said."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice, pairwise
from typing import Any

import pytest
from agent_mail.changes import base, changes
from agent_mail.filters import NAMES
from agent_mail.generate import Traffic, generate
from agent_mail.traffic import traffic

from harness.core.digest import of_documents, of_queries
from harness.core.errors import DatasetError
from harness.core.records import Document, Query
from harness.corpus import card

pytestmark = pytest.mark.slow
SEED = 11
ASKED = ["keyword", "natural-language", "paraphrase", "typo", "prefix"]
SINGLE = [*ASKED, "identifier", "phrase", "hostile", "edited", "negative", "language"]


class Made:
    """A small data set, read whole."""

    def __init__(self, messages: int, queries: int) -> None:
        made = generate(Traffic(messages=messages, seed=SEED, queries=queries))
        self.documents = list(made.documents)
        self.queries, self.qrels = made.queries, made.qrels

    @property
    def by_id(self) -> dict[str, Document]:
        return {document.doc_id: document for document in self.documents}

    def slice(self, name: str) -> list[Query]:
        return [query for query in self.queries if name in query.slices]

    def relevant(self, query: Query, grade: int = 1) -> set[str]:
        grades = self.qrels.grades[query.query_id]
        return {doc_id for doc_id, found in grades.items() if found >= grade}


@pytest.fixture(scope="module")
def small() -> Made:
    return Made(2_000, 20)


def words(document: Document) -> str:
    return " ".join(re.findall(r"\w+", f"{document.title}\n{document.text}".casefold()))


def test_the_same_settings_give_the_same_everywhere() -> None:
    made = Made(1_000, 6)
    assert of_documents(made.documents) == (
        "bc1d0d2aabb91c176178d7498561411aa6bffff17f47d21bdfa3b18aeab6e39d"
    )
    assert of_queries(made.queries) == (
        "608f7c7f96adb9f1fefd61326195c984db18cdeea81074e88e19a87b9814176b"
    )
    assert card.of_qrels(made.qrels) == (
        "15340a240a49ff75fa215e26c20b538dffc1583e5c17a3fb3adcc0ef0b964d74"
    )


def test_another_seed_gives_other_messages_and_questions() -> None:
    one = generate(Traffic(messages=1_000, seed=1, queries=6))
    two = generate(Traffic(messages=1_000, seed=2, queries=6))
    assert of_documents(one.documents) != of_documents(two.documents)
    assert of_queries(one.queries) != of_queries(two.queries)


def test_a_smaller_corpus_is_the_beginning_of_a_larger_one(small: Made) -> None:
    fewer = generate(Traffic(messages=1_001, seed=SEED, queries=6))
    assert list(fewer.documents) == small.documents[:1_001]


def test_documents_are_messages_in_the_order_of_their_numbers(small: Made) -> None:
    assert len(small.documents) == 2_000
    numbers = [int(document.doc_id) for document in small.documents]
    assert all(before < after for before, after in pairwise(numbers))
    times = [int(document.metadata["created_ts"] or 0) for document in small.documents]
    assert all(before <= after for before, after in pairwise(times))
    for document in small.documents:
        recipients = str(document.metadata["recipients"]).split(",")
        assert document.metadata["sender"] not in recipients
        assert document.text.strip()
    assert {d.metadata["importance"] for d in small.documents} == {
        "low",
        "normal",
        "high",
        "urgent",
    }
    assert {d.metadata["ack_required"] for d in small.documents} == {True, False}
    assert len({d.metadata["language"] for d in small.documents}) == 7
    assert len({d.metadata["thread_id"] for d in small.documents}) > 300


def test_every_slice_is_there(small: Made) -> None:
    for name in SINGLE:
        assert len(small.slice(name)) >= 20, name
    for name in NAMES:
        assert len(small.slice(f"filter-{name}")) == 10, name
    assert len({query.query_id for query in small.queries}) == len(small.queries)
    assert len({(q.text, tuple(q.params.items())) for q in small.queries}) == len(small.queries)


def test_every_judged_document_exists(small: Made) -> None:
    assert {row.doc_id for row in small.qrels.rows()} <= small.by_id.keys()
    assert {query.query_id for query in small.queries} == set(small.qrels.query_ids)


def test_negative_queries_are_answered_by_nothing_and_others_by_something(small: Made) -> None:
    negative = {query.query_id for query in small.slice("negative")}
    assert set(small.qrels.negative) == negative
    assert set(small.qrels.answerable) == set(small.qrels.query_ids) - negative


def test_one_need_is_judged_alike_however_it_is_asked(small: Made) -> None:
    asked: dict[str | None, list[Query]] = {}
    for query in small.queries:
        if query.intent:
            asked.setdefault(query.intent, []).append(query)
    whole = [queries for queries in asked.values() if len(queries) == len(ASKED)]
    assert len(whole) >= 15
    for queries in whole:
        assert sorted(q.slices[0] for q in queries) == sorted(ASKED)
        grades = [dict(small.qrels.grades[q.query_id]) for q in queries]
        relevant = [{d: g for d, g in found.items() if g} for found in grades]
        assert all(found == relevant[0] for found in relevant)


def test_a_phrase_is_in_all_messages_that_it_means_and_in_no_other(small: Made) -> None:
    for query in small.slice("phrase"):
        phrase = query.text.strip('"')
        holds = {d.doc_id for d in small.documents if f" {phrase} " in f" {words(d)} "}
        assert small.relevant(query) == holds


def test_an_identifier_is_in_all_messages_that_it_means_and_in_no_other(small: Made) -> None:
    for query in small.slice("identifier"):
        name = next(word for word in query.text.lower().split() if re.search(r"[\d_/]", word))
        exact = re.compile(rf"(?<![\w./-]){re.escape(name)}(?![\w/-]|\.\w)")
        holds = {d.doc_id for d in small.documents if exact.search(f"{d.title}\n{d.text}".lower())}
        assert small.relevant(query, 2) == holds


def test_what_fails_a_filter_is_not_relevant_and_some_of_it_is_judged(small: Made) -> None:
    for query in small.slice("filter"):
        passing = {d.doc_id for d in small.documents if passes(d, query)}
        assert small.relevant(query) <= passing
        judged = small.qrels.grades[query.query_id]
        assert judged.keys() - passing


def passes(document: Document, query: Query) -> bool:
    """Filter by what the document shows, as a stack has to."""
    shown = document.metadata
    recipients = str(shown["recipients"]).split(",")
    when = int(shown["created_ts"] or 0)
    wanted = dict(query.params)
    checks: dict[str, Callable[[Any], bool]] = {
        "ack_required": lambda value: shown["ack_required"] is value,
        "agent_name": lambda value: (
            value == shown["sender"] if wanted["direction"] == "outbox" else value in recipients
        ),
        "direction": lambda value: value in {"inbox", "outbox"},
        "importance": lambda value: shown["importance"] in value.split(","),
        "max_ts": lambda value: when <= value,
        "min_ts": lambda value: when >= value,
        "product_id": lambda value: shown["product_id"] == value,
        "project_id": lambda value: shown["project_id"] == value,
        "recipient_name": lambda value: value in recipients,
        "sender_name": lambda value: shown["sender"] == value,
        "thread_id": lambda value: shown["thread_id"] == value,
    }
    return all(checks[name](value) for name, value in wanted.items())


def test_only_filter_queries_have_params(small: Made) -> None:
    assert {q.query_id for q in small.queries if q.params} == {
        q.query_id for q in small.slice("filter")
    }


def test_what_was_sent_again_is_judged_as_the_first(small: Made) -> None:
    twins = 0
    for query in small.queries:
        if query.slices[0] not in ASKED:
            continue
        relevant = small.relevant(query, 2)
        for doc_id in relevant:
            document = small.by_id[doc_id]
            if document.title.startswith("Fwd:"):
                twins += 1
                body = document.text.partition("\n\n")[2]
                first = {d.doc_id for d in small.documents if d.text == body}
                assert first <= relevant
    assert twins > 10


def test_the_changes_applied_to_the_base_give_the_corpus(small: Made) -> None:
    corpus = {document.doc_id: document for document in base(SEED, 2_000)}
    log = list(changes(SEED, 2_000))
    assert sum(change.document is None for change in log) >= 19
    assert sum(change.document is not None for change in log) >= 29
    for change in log:
        before = corpus.pop(change.doc_id)
        if change.document is not None:
            assert before != change.document
            corpus[change.doc_id] = change.document
    assert corpus == small.by_id


def test_edited_queries_mean_messages_that_said_something_else_before(small: Made) -> None:
    edited = {change.doc_id for change in changes(SEED, 2_000) if change.document is not None}
    before = {document.doc_id: document for document in base(SEED, 2_000)}
    for query in small.slice("edited"):
        meant = small.relevant(query, 2) & edited
        assert meant
        assert all(small.by_id[d].text != before[d].text for d in meant)


def test_too_few_messages_for_a_slice_are_told() -> None:
    with pytest.raises(DatasetError, match=r"no query of .* raise the messages"):
        generate(Traffic.model_construct(messages=3, seed=SEED, queries=4))


def test_twenty_thousand_messages_have_all_slices() -> None:
    made = generate(Traffic(messages=20_000, seed=SEED, queries=12))
    found = card.slices(made.queries)
    assert {found[name] for name in (*ASKED, "identifier", "phrase", "edited")} == {12}
    assert {found[f"filter-{name}"] for name in NAMES} == {6}


def test_messages_far_apart_are_drawn_without_keeping_those_between() -> None:
    stream = traffic(SEED, 1_000_000)
    first = next(iter(stream))
    later = next(islice(stream, 1_198, None))
    assert first.first.message_id == 1
    assert later.first.message_id == 1_200
