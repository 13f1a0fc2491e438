"""Which queries of a set are resampled together, as the set keeps it."""

import json
import random
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.core.errors import BadFile
from harness.core.records import Judgement, Qrels, Query
from harness.corpus import clusters, prepared
from harness.corpus.prepared import Prepared

# Which queries of a set are resampled together, as the set keeps it

QUERIES = (
    Query("a", "Set the label for the axis"),
    Query("b", "Compute the inverse of a matrix"),
    Query("c", "how to set axis labels"),
    Query("d", "label of an axis, set", intent="axes"),
    Query("e", "draw", intent="axes"),
    Query("f", "Set the label for the axis", params={"language": "de"}),
)


@pytest.fixture
def data(tmp_path: Path) -> Prepared:
    prepared.write(tmp_path / "data", "toy", "test", [], QUERIES, Qrels.of([]))
    return Prepared.open(tmp_path / "data")


def test_queries_without_an_intent_are_clustered_by_their_words(data: Prepared) -> None:
    assert data.clusters() == {
        "a": "like a", "c": "like a", "f": "like a", "d": "intent axes", "e": "intent axes",
    }  # fmt: skip


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
    path = data.folder / clusters.CLUSTERS
    path.write_text(path.read_text().replace(was, now))
    with pytest.raises(BadFile, match=says):
        data.clusters()


def test_near_duplicates_that_intents_part_are_named() -> None:
    many = [Query(f"q{n}", f"{'the ' * n}label of an axis", intent=str(n)) for n in range(9)]
    other = Query("o", "Compute the inverse of a matrix", intent="o")
    assert clusters.parted([*many, other]) == [q.query_id for q in many]
    alike = [Query(q.query_id, q.text, intent="one") for q in many]
    assert clusters.parted([*alike, other]) == []
    assert clusters.parted([Query(q.query_id, q.text) for q in many]) == []


def test_the_very_same_text_is_one_query_whatever_intent_it_claims() -> None:
    queries = [
        Query("a", "axis label", intent="two"),
        Query("b", "axis label", intent="one"),
        Query("c", "axis label"),
        Query("d", "the label of an axis"),
        Query("e", "draw", intent="two"),
    ]
    for order in (queries, queries[::-1]):
        found = clusters.of_queries(order, clusters.near_duplicates(order))
        assert found == {**dict.fromkeys("abcd", "intent one"), "e": "intent two"}
        assert clusters.of_queries(order, clusters.near_duplicates(order), "given") == {
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
    pairs = (("c", "d", 0.91), ("c", "gone", 0.9))
    similar = clusters.Similar("some model", 0.85, "of these", pairs)
    prepared.write(tmp_path / "data", "toy", "test", [], queries, qrels, similar=similar)
    data = Prepared.open(tmp_path / "data")
    assert data.near_duplicates() == [["a", "b"], ["c", "d"]]
    assert data.found().similar == similar


# Which queries put one need in other words

WORDS = st.lists(st.sampled_from(("alpha", "beta", "gamma", "7", "not", "the")), max_size=5)
DOCUMENTS = st.frozensets(st.sampled_from("pqrstuvwxyz"), max_size=6)
QUERIES_NEAR_DUPLICATES = st.lists(st.tuples(WORDS.map(" ".join), DOCUMENTS), max_size=14)
PAIRS = st.lists(st.tuples(st.integers(0, 13), st.integers(0, 13)), max_size=5)
Given = list[tuple[str, frozenset[str]]]
Pairs = list[tuple[int, int]]


def grouped(given_: Given, pairs: Pairs) -> set[frozenset[int]]:
    """Return the places of each cluster."""
    pairs = [(a, b) for a, b in pairs if max(a, b) < len(given_)]
    texts, documents = [text for text, _ in given_], [docs for _, docs in given_]
    firsts = clusters.stars(texts, documents, pairs).tolist()
    assert all(firsts[first] == first for first in firsts)
    return {frozenset(at for at, it in enumerate(firsts) if it == own) for own in set(firsts)}


def by_hand(given_: Given, pairs: Pairs) -> set[frozenset[int]]:
    """Do the same, each wording beside every leader, as the first lines of the module say it."""
    places: dict[str, list[int]] = {}
    for at, (text, _) in enumerate(given_):
        places.setdefault(clusters.wording(text).signature, []).append(at)

    def of(sign: str) -> clusters.Wording:
        return clusters.wording(given_[places[sign][0]][0])

    def one_need(a: str, b: str) -> bool:
        if of(a).parted(of(b)):
            return False
        if any({x, y} & {*places[a]} and {x, y} & {*places[b]} for x, y in pairs):
            return True
        like = of(a).like(of(b))
        sets = [(given_[x][1], given_[y][1]) for x in places[a] for y in places[b]]
        return any(
            p and q and Fraction(len(p & q), len(p | q)) >= clusters.LEAST_JUDGED
            and like >= float(clusters.LEAST_WORDS[len(p & q) == 1])
            for p, q in sets
        )  # fmt: skip

    stars_: dict[str, list[str]] = {}
    for sign in sorted(places, key=lambda it: (len(of(it).words), it)):
        near = [leader for leader in stars_ if one_need(sign, leader)]
        best = max((of(sign).like(of(leader)) for leader in near), default=None)
        leader = next((it for it in near if of(sign).like(of(it)) == best), sign)
        stars_.setdefault(leader, []).append(sign)
    return {frozenset(at for sign in own for at in places[sign]) for own in stars_.values()}


@example([("the alpha beta", frozenset()), ("beta alpha", frozenset())], [], 2)
@example([("alpha beta", frozenset("pq")), ("alpha beta gamma", frozenset("pqrstuvwx"))], [], 2)
@given(QUERIES_NEAR_DUPLICATES, PAIRS, st.sampled_from((0, 2, 32)))
def test_clusters_are_those_found_by_hand(given_: Given, pairs: Pairs, few: int) -> None:
    with mock.patch.object(clusters, "FEW", few):
        found = grouped(given_, pairs)
    assert found == by_hand(given_, [p for p in pairs if max(p) < len(given_)])


@given(QUERIES_NEAR_DUPLICATES, PAIRS, st.randoms(use_true_random=False))
def test_the_order_of_the_queries_changes_no_cluster(
    given_: Given, pairs: Pairs, dice: random.Random
) -> None:
    order = list(range(len(given_)))
    dice.shuffle(order)
    place = {old: new for new, old in enumerate(order)}
    pairs = [pair for pair in pairs if max(pair) < len(given_)]
    moved = grouped([given_[at] for at in order], [(place[a], place[b]) for a, b in pairs])
    assert {frozenset(order[at] for at in own) for own in moved} == grouped(given_, pairs)


ONE, TWO, FIVE = frozenset("p"), frozenset("pq"), frozenset("pqrst")


@pytest.mark.parametrize(
    ("other", "docs", "own", "clustered"),
    [
        ("febrile seizures reduce the threshold for epilepsy", TWO, TWO, 1),
        ("febrile seizures reduce the threshold for epilepsy", ONE, ONE, 1),
        ("fever and epilepsy, seizures", ONE, ONE, 2),
        ("fever and epilepsy, seizures", TWO, TWO, 1),
        ("fever and epilepsy, seizures", ONE, TWO, 2),
        ("fever and epilepsy, seizures", FIVE, FIVE - ONE, 1),
        ("fever and epilepsy, seizures", FIVE, TWO, 2),
        ("febrile seizures do not increase the threshold for epilepsy", TWO, TWO, 2),
        ("febrile seizures increase the threshold for epilepsy 2", TWO, TWO, 2),
        ("treatment of a cold", TWO, TWO, 2),
    ],
)
def test_judged_documents_join_texts_that_are_alike(
    other: str, docs: frozenset[str], own: frozenset[str], clustered: int
) -> None:
    text = "Febrile seizures increase the threshold for epilepsy"
    assert len(grouped([(text, docs), (other, own)], [])) == clustered


def test_a_pair_of_a_model_is_one_need_unless_names_or_numbers_differ() -> None:
    alike = [("cheap flights to Paris", ONE), ("low cost airfare to paris", TWO)]
    assert len(grouped(alike, [])) == 2
    assert len(grouped(alike, [(0, 1)])) == 1
    no_name = [*alike, ("cheap flights to paris", ONE), ("cheap tickets", TWO)]
    assert len(grouped(no_name, [(0, 3)])) == 2, "one text writes it without a capital letter"
    numbered = [("iphone 12", ONE), ("iphone 13", TWO)]
    assert len(grouped(numbered, [(0, 1)])) == 2


def test_a_chain_is_no_cluster() -> None:
    """Each is alike the next one, and the last has nothing of the first."""
    words = [f"word{chr(97 + at // 26)}{chr(97 + at % 26)}x" for at in range(40)]
    chain = [(" ".join(words[at : at + 6]), TWO) for at in range(34)]
    found = grouped(chain, [])
    assert max(map(len, found)) <= 9
    assert found == by_hand(chain, [])


def test_a_text_joins_the_first_one_that_it_is_most_like() -> None:
    less, more = ("alpha bravo wind", TWO), ("bravo charlie delta echo", TWO)
    both = ("alpha bravo charlie delta echo", TWO)
    assert grouped([less, more, both], []) == {frozenset({0}), frozenset({1, 2})}


# Pairs of queries that a model found, kept beside a data set

VECTORS = np.array([[1, 0], [0.8449, 0.535], [0.846, 0.5332], [0, 1]], dtype=np.float32)


@pytest.mark.parametrize("rows", [1, 3, 1_024])
def test_cosines_are_compared_as_they_are_kept(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "ROWS", rows)
    found = clusters.Similar.between("abcd", VECTORS, "a model", "of these")
    pairs = (("a", "c", 0.85), ("b", "c", 1.0))
    assert found == clusters.Similar("a model", 0.85, "of these", pairs)


def test_pairs_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert clusters.read_similar(tmp_path, "of these") is clusters.NONE
    found = clusters.Similar.between("abcd", VECTORS, "a model", "of these")
    (tmp_path / clusters.SIMILAR).write_text(json.dumps(asdict(found)))
    assert clusters.read_similar(tmp_path, "of these") == found
    with pytest.raises(BadFile, match=r"similar\.json: its pairs are of other queries"):
        clusters.read_similar(tmp_path, "of others")
    (tmp_path / clusters.SIMILAR).write_text("{}")
    with pytest.raises(BadFile, match="model: Field required"):
        clusters.read_similar(tmp_path, "of these")


# Which texts are the same words


SAME_WORDING = [
    ("how do I reset my password", "password reset steps"),
    ("Resetting passwords", "reset the password?"),
    ("colour organised by centre", "organized centers by color"),
    ("men's shoes", "shoe for men"),
    ("ÜBER uns", "über uns!"),
    ("1,000 genomes", "1000 genome"),
    ("I don't sync", "not to sync"),
    ("***", " *** "),
    ("to be", "To be"),
]
OTHER_WORDING = [
    ("iphone 12", "iphone 13"),
    ("version 2 to 3", "version 3 to 2"),
    ("men shoes", "women shoes"),
    ("expression", "suppression"),
    ("json.loads", "json.load"),
    ("C++ string", "C string"),
    ("Set the label for the x-axis", "set the label for the y-axis"),
    ("log in", "log out"),
    ("when was it built", "where was it built"),
    ("sync with a password", "sync without a password"),
    ("***", '"""'),
    ("", "a"),
]


@pytest.mark.parametrize(("one", "other"), [*SAME_WORDING, *OTHER_WORDING])
def test_numbers_names_negations_and_words_make_a_wording_and_no_form_or_order_does(
    one: str, other: str
) -> None:
    same = clusters.wording(one).signature == clusters.wording(other).signature
    assert same is ((one, other) in SAME_WORDING)


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ("weather in Paris", "weather in London", 1),
        ("weather in Paris", "will it rain in paris", 0),
        ("galaxy S22 case", "cover of a galaxy S23", 1),
        ("remove a file", "do not remove a file", 1),
        ("remove a file", "delete a file", 0),
    ],
)
def test_names_numbers_and_negations_part_texts_that_are_alike(
    one: str, other: str, apart: int
) -> None:
    assert clusters.wording(one).parted(clusters.wording(other)) == apart
    assert clusters.wording(other).parted(clusters.wording(one)) == apart


def test_a_stem_loses_the_inflection_alone() -> None:
    forms = {"shoes": "shoe", "queries": "query", "movies": "movie", "caches": "cache"}
    forms |= {"strings": "string", "planning": "plan", "planned": "plan"}
    assert {form: clusters.stem(form) for form in forms} == {
        form: clusters.stem(of) for form, of in forms.items()
    }
    assert clusters.stem("expression") != clusters.stem("express")
