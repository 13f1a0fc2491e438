"""The data sets that are made: agent mail, documentation of packages, and their texts."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import python_docs
from agent_mail.changes import base, changes
from agent_mail.filters import NAMES
from agent_mail.generate import Traffic, generate, judge
from agent_mail.message import Fact, Message
from agent_mail.needs import Need
from agent_mail.needs import about as tells_of
from agent_mail.overlap import measure, table
from package_texts import reading
from python_docs import Harvesting, PythonDocs
from python_docs.harvest import Harvest, harvest

from harness.core.digest import DocumentsDigest, of_documents, of_queries
from harness.core.records import Document, Query
from harness.corpus import card, trec
from tests.source import ROOT

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


def test_the_same_settings_give_the_same_everywhere() -> None:
    made = Made(1_000, 6)
    found = of_documents(made.documents), of_queries(made.queries), card.of_qrels(made.qrels)
    assert found == (
        "bc1d0d2aabb91c176178d7498561411aa6bffff17f47d21bdfa3b18aeab6e39d",
        "608f7c7f96adb9f1fefd61326195c984db18cdeea81074e88e19a87b9814176b",
        "15340a240a49ff75fa215e26c20b538dffc1583e5c17a3fb3adcc0ef0b964d74",
    )


def test_every_slice_is_there(small: Made) -> None:
    for name in SINGLE:
        assert len(small.slice(name)) >= 20, name
    for name in NAMES:
        assert len(small.slice(f"filter-{name}")) == 10, name
    assert len({query.query_id for query in small.queries}) == len(small.queries)
    assert len({(q.text, tuple(q.params.items())) for q in small.queries}) == len(small.queries)


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
    shown, wanted = document.metadata, dict(query.params)
    recipients = str(shown["recipients"]).split(",")
    when = int(shown["created_ts"] or 0)
    checks: dict[str, Callable[[Any], bool]] = {
        "agent_name": lambda value: (
            value == shown["sender"] if wanted["direction"] == "outbox" else value in recipients
        ),
        "direction": lambda value: value in {"inbox", "outbox"},
        "importance": lambda value: shown["importance"] in value.split(","),
        "max_ts": lambda value: when <= value,
        "min_ts": lambda value: when >= value,
        "recipient_name": lambda value: value in recipients,
        "sender_name": lambda value: shown["sender"] == value,
    }
    return all(
        checks[name](value) if name in checks else shown[name] == value
        for name, value in wanted.items()
    )


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


FACT = Fact("outage", "event bus")
MESSAGE = Message(
    message_id=1, project_id=3, product_id=2, thread_id="br-2tnl", sender="Ann",
    recipients=("Bob", "Cy"), importance="high", ack_required=False, created_ts=1_000,
    language="en", subject="Re: br-2tnl",
    body="See src/bus/core/mod.rs:12, `flush_batch` and 3fa81bc. BR-2TNL.3 is next.",
    states=(FACT,), follows=(),
)  # fmt: skip


def test_grades_are_what_messages_say() -> None:
    follows = replace(MESSAGE, message_id=2, states=(), follows=(FACT,))
    elsewhere = replace(MESSAGE, message_id=3, states=(Fact("outage", "mail relay"),))
    unrelated = replace(MESSAGE, message_id=4, states=())
    need = Need("q", ("s",), tells_of(FACT))
    (found,) = judge([need], (MESSAGE, follows, elsewhere, unrelated), 1)
    assert dict(found.grades) == {1: 2, 2: 1, 3: 0}


def test_the_page_shows_the_overlap_of_the_data_set_as_it_is() -> None:
    page = (ROOT / "docs" / "datasets" / "agent-mail.md").read_text(encoding="utf-8")
    made = generate(Traffic(messages=5_000, seed=20261121, queries=40))
    assert table(measure(made.documents, made.queries, made.qrels)) in page


@pytest.fixture(scope="module")
def settings() -> Harvesting:
    return Harvesting.model_validate(card.read(ROOT / "datasets" / "python-docs").make)


@pytest.fixture(scope="module")
def found(settings: Harvesting) -> Harvest:
    """Harvest in another order than the card was made in."""
    return harvest(settings.namespaces[::-1])


@pytest.fixture(scope="module")
def docs(settings: Harvesting, found: Harvest) -> PythonDocs:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(python_docs, "harvest", lambda _: found)
        return python_docs.read(settings)


def test_the_card_and_the_judgements_describe_what_is_installed(docs: PythonDocs) -> None:
    about, corpus = card.read(ROOT / "datasets" / "python-docs"), DocumentsDigest()
    list(corpus.watch(docs.documents))
    card.check(about, card.counted(about, corpus, docs.queries, docs.qrels), hint="Update it.")
    assert trec.qrels(ROOT / "qrels" / "python-docs" / "test.qrels") == docs.qrels


def test_a_harvest_in_another_order_is_the_same(
    settings: Harvesting, docs: PythonDocs, found: Harvest, monkeypatch: pytest.MonkeyPatch
) -> None:
    turned = Harvest(found.entries[::-1], dict(sorted(found.aliases.items(), reverse=True)))
    monkeypatch.setattr(python_docs, "harvest", lambda _: turned)
    again = python_docs.read(settings)
    assert of_documents(again.documents) == of_documents(docs.documents)
    assert of_queries(again.queries) == of_queries(docs.queries)
    assert again.qrels == docs.qrels


def test_the_card_of_package_texts_and_its_judgements_are_of_what_is_installed() -> None:
    """What the texts are is checked by ``harness stage prepare``, which takes 20 seconds."""
    about = card.read(ROOT / "datasets" / "package-texts")
    assert card.installed(about.packages) == about.packages
    judged = trec.qrels(ROOT / "qrels" / "package-texts" / "test.qrels")
    assert card.of_qrels(judged) == about.sha256.qrels
    files = {
        f"{path}" for name in about.packages for path in reading.distribution(name).files or ()
    }
    asked = {row.doc_id for row in judged.rows()}
    assert len(asked) == about.queries
    assert {doc_id for doc_id in asked - files if not doc_id.endswith("/description")} == set()
