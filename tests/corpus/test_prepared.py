"""Prepared data."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.core.digest import DocumentsDigest, of_queries
from harness.core.errors import DatasetError
from harness.core.records import Document, Judgement, Qrels, Query
from harness.corpus import card, prepared
from harness.corpus.card import DatasetCard, Digests
from harness.corpus.prepared import Inventory, Prepared, changes
from harness.corpus.tuning import SeenJudgements, TuningRecord, digests_of, leak

# Prepared data

DOCUMENTS = [Document("2", "t", "x", {"b": 1, "a": None}), Document("1", "", "\0\u2028")]
QUERIES = (Query("q", "why", ("a",), "need"), Query("p", "how"))
QRELS = Qrels.of([Judgement("q", "2", 2), Judgement("q", "1", 0)])


def test_what_was_written_is_read(tmp_path: Path) -> None:
    manifest = prepared.write(tmp_path / "data", "toy", "test", iter(DOCUMENTS), QUERIES, QRELS)
    read = Prepared.open(tmp_path / "data")
    assert read.manifest == manifest
    assert list(read.documents()) == DOCUMENTS
    assert (read.queries(), read.qrels()) == (QUERIES, QRELS)


def test_the_same_data_gives_the_same_bytes(tmp_path: Path) -> None:
    turned = [Document("2", "t", "x", {"a": None, "b": 1}), DOCUMENTS[1]]
    prepared.write(tmp_path / "a", "toy", "test", DOCUMENTS, QUERIES, QRELS)
    prepared.write(tmp_path / "b", "toy", "test", turned, list(QUERIES), QRELS)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert " ".join(files) == "clusters.json corpus.jsonl manifest.json qrels.trec queries.jsonl"
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


# Cards: what a dataset must contain

QUERIES_CARD = (Query("q", "text", ("b", "a")), Query("r", "text", ("a",)))
QRELS_CARD = Qrels.of([Judgement("q", "d", 1)])


def corpus(text: str = "text") -> DocumentsDigest:
    digest = DocumentsDigest()
    list(digest.watch([Document("d", "", text)]))
    return digest


def example() -> DatasetCard:
    queries, qrels = of_queries(QUERIES_CARD), card.of_qrels(QRELS_CARD)
    return DatasetCard(
        name="toy", title='A "toy" \\ with\nodd \x7f \u2028 letters', source="by hand",
        licence="CC0-1.0", made_by="harness import", kind="files", split="test",
        documents=1, queries=2, judgements=1, warnings=["one", "two"], slices={"a": 2, "b": 1},
        sha256=Digests(corpus=corpus().sha256, queries=queries, qrels=qrels),
    )  # fmt: skip


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"warnings": []},
        {"slices": {}},
        {"slices": {"natural language": 1, "a.b": 1}},
        {"kind": "made", "make": {"names": ["a", "b.c"], "most": 9}},
        {"kind": "made", "make": {}, "packages": {"zoo": "1"}},
    ],
)
def test_a_card_comes_back_as_it_was(tmp_path: Path, changed: dict[str, object]) -> None:
    about = example().model_copy(update=changed)
    card.write(tmp_path, about)
    assert card.read(tmp_path) == about


def test_each_difference_is_named() -> None:
    more = Qrels.of([*QRELS_CARD.rows(), Judgement("q", "e", 0)])
    found = card.counted(example(), corpus("other"), QUERIES_CARD[:1], more)
    with pytest.raises(DatasetError) as caught:
        card.check(example(), found, hint="Mend it.")
    assert str(caught.value) == (
        "toy: not what its card says: queries 2 in the card, 1 in the data;"
        " judgements 1 in the card, 2 in the data;"
        " slices {'a': 2, 'b': 1} in the card, {'a': 1, 'b': 1} in the data;"
        " content of corpus; content of queries; content of qrels. Mend it."
    )


def test_the_digest_of_judgements_does_not_hang_on_their_order() -> None:
    rows = [Judgement("q", "d", 1), Judgement("q", "c", 0), Judgement("p", "d", 1)]
    assert card.of_qrels(Qrels.of(rows)) == card.of_qrels(Qrels.of(reversed(rows)))
    regraded = [*rows[:2], Judgement("p", "d", 2)]
    assert card.of_qrels(Qrels.of(rows)) != card.of_qrels(Qrels.of(regraded))


# What was added to a data set, taken out of it or changed in it is told, item by item

QUERIES_INVENTORY = (Query("a", "one"), Query("b", "two", ("long",)), Query("c", "three"))
JUDGED = (Judgement("a", "d1", 1), Judgement("a", "d2", 0), Judgement("b", "d1", 2))


def inventory(
    queries: tuple[Query, ...] = QUERIES_INVENTORY, judged: tuple[Judgement, ...] = JUDGED
) -> Inventory:
    return Inventory.of(queries, Qrels.of(judged))


def test_the_same_data_is_the_same_inventory() -> None:
    once, again = inventory(), inventory(QUERIES_INVENTORY, JUDGED[::-1])
    assert once == again
    assert once.sha256 == again.sha256
    assert once.judged == 3
    assert changes(once, again) == ()
    assert Inventory.model_validate_json(once.model_dump_json()) == once


def test_queries_that_came_went_and_changed() -> None:
    other = (Query("a", "one"), Query("b", "two"), Query("d", "four"))
    assert changes(inventory(), inventory(other)) == (
        "1 query removed (c)", "1 query added (d)", "1 query changed (b)",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], ("1 query without judgements that had some (b)", "2 judgements, 3 before")),
        ([Judgement("b", "d1", 1)],
         ("1 query with other judgements (b)", "3 judgements, 3 before")),
        ([JUDGED[2], Judgement("c", "d9", 0)],
         ("1 query with judgements that had none (c)", "4 judgements, 3 before")),
    ],
)  # fmt: skip
def test_judgements_that_came_went_and_changed(more: list[Judgement], said: Sequence[str]) -> None:
    assert changes(inventory(), inventory(judged=(*JUDGED[:2], *more))) == said


# The record of a tuning, and which queries of a decision it has seen


def record(*texts: str) -> TuningRecord:
    seen = digests_of(Query(f"t{at}", text) for at, text in enumerate(texts))
    one = SeenJudgements.model_construct(dataset="a", split="train", words=seen)
    return TuningRecord.model_construct(collections=(one,))


@pytest.mark.parametrize("text", ["Moving average?", "average, moving", "MOVING  average"])
def test_a_query_is_known_by_its_words_and_not_by_its_id_case_or_order(text: str) -> None:
    found = leak("own", record("moving average", "heat"), [Query("x", text), Query("y", "cold")])
    assert (found.seen, found.judged, found.collections) == (1, 2, ("a/train",))
    assert found.said == "own was tuned on 1 of the 2 judged queries (a/train)"
    assert leak("own", record("moving average"), [Query("t0", "moving averages")]).seen == 0
