"""Sets that are made from installed packages are what their cards say."""

from __future__ import annotations

import pytest
import python_docs
from package_texts import reading
from python_docs import Harvesting, PythonDocs
from python_docs.harvest import Harvest, harvest

from harness.core.digest import DocumentsDigest, of_documents, of_queries
from harness.corpus import card, trec
from harness.corpus.card import DatasetCard
from tests.source import ROOT


@pytest.fixture(scope="module")
def about() -> DatasetCard:
    return card.read(ROOT / "datasets" / "python-docs")


@pytest.fixture(scope="module")
def settings(about: DatasetCard) -> Harvesting:
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


@pytest.mark.slow
def test_the_card_and_the_judgements_describe_what_is_installed(
    about: DatasetCard, docs: PythonDocs
) -> None:
    corpus = DocumentsDigest()
    list(corpus.watch(docs.documents))
    card.check(about, card.counted(about, corpus, docs.queries, docs.qrels), hint="Update it.")
    assert trec.qrels(ROOT / "qrels" / "python-docs" / "test.qrels") == docs.qrels


@pytest.mark.slow
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
