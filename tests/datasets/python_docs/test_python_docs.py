"""The data set of the installed packages, as the card in the project describes it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import python_docs
from python_docs import Harvesting, PythonDocs
from python_docs.harvest import Harvest, harvest
from python_docs.questions import words

from harness.core.digest import DocumentsDigest, of_documents, of_queries
from harness.core.errors import DatasetError
from harness.core.records import Document
from harness.corpus import card, trec
from harness.corpus.card import Card

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def about() -> Card:
    return card.read(ROOT / "datasets" / "python-docs")


@pytest.fixture(scope="module")
def settings(about: Card) -> Harvesting:
    return Harvesting.model_validate(about.make)


@pytest.fixture(scope="module")
def found(settings: Harvesting) -> Harvest:
    """Harvest in another order than the card was made in."""
    return harvest(settings.namespaces[::-1])


@pytest.fixture(scope="module")
def docs(settings: Harvesting, found: Harvest) -> PythonDocs:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(python_docs, "harvest", lambda _: found)
        return python_docs.read(settings)


@pytest.fixture(scope="module")
def documents(docs: PythonDocs) -> dict[str, Document]:
    return {document.doc_id: document for document in docs.documents}


def test_the_card_and_the_judgements_describe_what_is_installed(
    about: Card, docs: PythonDocs
) -> None:
    corpus = DocumentsDigest()
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


def test_every_judged_document_exists(docs: PythonDocs, documents: dict[str, Document]) -> None:
    assert {row.doc_id for row in docs.qrels.rows()} <= documents.keys()


def test_every_query_has_what_it_means(docs: PythonDocs) -> None:
    assert {query.query_id for query in docs.queries} == set(docs.qrels.query_ids)
    assert all(2 in grades.values() for grades in docs.qrels.grades.values())
    assert len({query.text for query in docs.queries}) == len(docs.queries)


def test_no_question_can_be_read_in_its_own_document(
    docs: PythonDocs, documents: dict[str, Document]
) -> None:
    asked = [q for q in docs.queries if q.query_id.startswith("nl:")]
    assert len(asked) > 1000
    for query in asked:
        text = " ".join(words(documents[query.query_id.removeprefix("nl:")].text))
        assert f" {' '.join(words(query.text))} " not in f" {text} "


def test_no_document_shows_its_links(docs: PythonDocs) -> None:
    heading = re.compile(r"^see also\n-+$", re.IGNORECASE | re.MULTILINE)
    assert not [d.doc_id for d in docs.documents if heading.search(d.text)]


def test_documents_are_as_the_card_asks(settings: Harvesting, docs: PythonDocs) -> None:
    assert len(docs.documents) == settings.documents
    assert max(len(document.text) for document in docs.documents) <= settings.characters
    parts = [part for document in docs.documents for part in document.doc_id.split(".")]
    assert not [part for part in parts if part.startswith("_")]


def test_known_objects_have_their_public_names(documents: dict[str, Document]) -> None:
    assert documents["numpy.median"].text.startswith("median(a, axis, out, overwrite_input, keep")
    assert documents["scipy.signal.butter"].metadata == {"kind": "function", "package": "scipy"}
    for name in ("numpy.linalg.lstsq", "pandas.DataFrame.merge", "matplotlib.axes.Axes.plot"):
        assert name in documents


def test_known_links_are_judgements(docs: PythonDocs) -> None:
    grades = docs.qrels.grades["nl:numpy.digitize"]
    assert grades == {
        "numpy.digitize": 2,
        "numpy.bincount": 1,
        "numpy.histogram": 1,
        "numpy.searchsorted": 1,
        "numpy.unique": 1,
    }


def test_an_inherited_method_is_one_document_with_two_names(found: Harvest) -> None:
    assert found.aliases["pandas.Series.head"] == "pandas.DataFrame.head"
    assert found.aliases["matplotlib.figure.Figure.align_labels"] == (
        "matplotlib.figure.FigureBase.align_labels"
    )


def test_a_size_that_would_lose_judgements_is_refused(
    settings: Harvesting, found: Harvest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_docs, "harvest", lambda _: found)
    with pytest.raises(DatasetError, match=r"linked with each other.* allows 100; raise documents"):
        python_docs.read(settings.model_copy(update={"documents": 100}))
