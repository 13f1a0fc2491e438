"""Which queries of a set are resampled together, as the set keeps it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.core.errors import BadFile
from harness.core.records import Judgement, Qrels, Query
from harness.corpus import clusters, prepared
from harness.corpus.clusters import (
    CLUSTERS,
    METHOD,
    DataSha256,
    Similar,
    near_duplicates,
    of_queries,
    parted,
)
from harness.corpus.prepared import Prepared

QUERIES = (
    Query("a", "Set the label for the axis"),
    Query("b", "Compute the inverse of a matrix"),
    Query("c", "how to set axis labels"),
    Query("d", "label of an axis, set", intent="axes"),
    Query("e", "draw", intent="axes"),
    Query("f", "Set the label for the axis", params={"language": "de"}),
)
NEAR = [["a", "c", "f"]]


@pytest.fixture
def data(tmp_path: Path) -> Prepared:
    prepared.write(tmp_path / "data", "toy", "test", [], QUERIES, Qrels.of([]))
    return Prepared.open(tmp_path / "data")


def test_queries_without_an_intent_are_clustered_by_their_words(data: Prepared) -> None:
    assert data.clusters() == {
        "a": "like a", "c": "like a", "f": "like a", "d": "intent axes", "e": "intent axes",
    }  # fmt: skip


def test_a_policy_may_ask_for_intents_alone_or_for_nothing(data: Prepared) -> None:
    assert data.clusters("given") == {"d": "intent axes", "e": "intent axes"}
    assert data.clusters("none") == {}


def test_an_intent_is_no_near_duplicate_of_its_name() -> None:
    queries = (Query("q", "x", intent="like a"), Query("a", "y"))
    assert of_queries(queries, [["a", "b"]])["q"] != of_queries(queries, [["a", "b"]])["a"]


def test_the_file_says_how_it_was_made_and_of_which_queries(data: Prepared) -> None:
    assert json.loads((data.folder / CLUSTERS).read_text()) == {
        "method": METHOD,
        "queries_sha256": data.manifest.queries_sha256,
        "qrels_sha256": data.manifest.qrels_sha256,
        "similar": {"model": "none", "least_cosine": 0.85, "queries_sha256": "", "pairs": []},
        "near_duplicates": NEAR,
        "parted": ["d"],
    }


@pytest.mark.parametrize(
    ("was", "now", "says"),
    [
        ('"near_duplicates"', '"near"', "near_duplicates: Field required"),
        ('"wording": 1', '"wording": 0', "of other queries or of another method"),
        ('"qrels_sha256": "', '"qrels_sha256": "0', "of other queries or of another method"),
        ('"queries_sha256": "', '"queries_sha256": "0', "of other queries or of another method"),
    ],
)
def test_clusters_of_something_else_are_refused(
    data: Prepared, was: str, now: str, says: str
) -> None:
    path = data.folder / CLUSTERS
    path.write_text(path.read_text().replace(was, now))
    with pytest.raises(BadFile, match=says):
        data.clusters()


def test_clusters_that_are_not_there_are_missed(data: Prepared) -> None:
    (data.folder / CLUSTERS).unlink()
    with pytest.raises(BadFile, match=r"clusters\.json: no such file. Run: harness stage prepare"):
        clusters.read_clusters(data.folder / CLUSTERS, DataSha256("0", "0"))


def test_near_duplicates_that_intents_part_are_named() -> None:
    many = [Query(f"q{n}", f"{'the ' * n}label of an axis", intent=str(n)) for n in range(9)]
    other = Query("o", "Compute the inverse of a matrix", intent="o")
    assert parted([*many, other]) == [q.query_id for q in many]
    alike = [Query(q.query_id, q.text, intent="one") for q in many]
    assert parted([*alike, other]) == []
    assert parted([Query(q.query_id, q.text) for q in many]) == []


def test_a_policy_that_takes_all_for_independent_asks_no_intent(data: Prepared) -> None:
    assert data.parted() == data.parted("given") == {"d"}
    assert data.parted("none") == frozenset()


def test_the_very_same_text_is_one_query_whatever_intent_it_claims() -> None:
    queries = [
        Query("a", "axis label", intent="two"),
        Query("b", "axis label", intent="one"),
        Query("c", "axis label"),
        Query("d", "the label of an axis"),
        Query("e", "draw", intent="two"),
    ]
    for order in (queries, queries[::-1]):
        found = of_queries(order, near_duplicates(order))
        assert found == {**dict.fromkeys("abcd", "intent one"), "e": "intent two"}
        assert of_queries(order, near_duplicates(order), "given") == {
            "a": "intent two", "b": "intent one", "e": "intent two",
        }  # fmt: skip


def test_judgements_and_pairs_of_a_model_are_found_beside_words(tmp_path: Path) -> None:
    queries = (
        Query("a", "seizures raise the threshold of epilepsy"),
        Query("b", "seizures lower the threshold of epilepsy"),
        Query("c", "cheap flights"),
        Query("d", "low cost airfare"),
    )
    qrels = Qrels.of(Judgement(query, "doc", 1) for query in "ab")
    similar = Similar("some model", 0.85, "of these", (("c", "d", 0.91), ("c", "gone", 0.9)))
    prepared.write(tmp_path / "data", "toy", "test", [], queries, qrels, similar=similar)
    data = Prepared.open(tmp_path / "data")
    assert data.near_duplicates() == [["a", "b"], ["c", "d"]]
    assert data.found().similar == similar
