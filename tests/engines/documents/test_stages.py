"""The stages by themselves: words and BM25, operators, fusion, projection, and related chunks."""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness.core.errors import IndexNotReady
from harness_engines.stacks.documents import graph
from harness_engines.stacks.documents.collection import gate
from harness_engines.stacks.documents.graph import (
    MOST_CHUNKS,
    MOST_OF_A_CHUNK,
    ChunkGraph,
    Entities,
    named,
)
from harness_engines.stacks.documents.models import DIMENSION, Projection
from harness_engines.stacks.documents.ranking import (
    Leg,
    as_specified,
    blend_as_specified,
    by_rank,
    clean,
    ranks,
)
from harness_engines.stacks.documents.recall import STOP_WORDS, best, unbroken, words
from harness_engines.vector.embedder import unit
from tests.engines.documents.small import bm25_of

WORDS = ("moon", "sea", "water", "tide", "salt")
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), max_size=12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What does the Report say", ["what", "does", "report", "say"]),
        ("customer-retention, read_csv/2024", ["customer", "retention", "read", "csv", "2024"]),
        ("Don't 'quote' the dogs' o'clock", ["don't", "quote", "dogs", "o'clock"]),
        ("don\u2019t", ["don't"]),
        ("a b c x 7 42", ["42"]),
        ("\u00c9t\u00e9 \u6771\u4eac", ["ete", "\u6771\u4eac"]),
        ("inter-\nnational trade-\nOff", ["inter", "national", "trade", "off", "international"]),
        ("co\xad\noperate", ["co", "operate", "cooperate"]),
        ("猫 東京大学 β", ["猫", "東京", "京大", "大学"]),
        ("The THE and ' '' _", []),
    ],
)
def test_words_are_those_of_section_3(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@given(st.text(max_size=80))
def test_any_text_gives_words_that_are_no_stop_words_nor_single_letters(text: str) -> None:
    found = words(text)
    for word in found:
        assert len(word) > 1 or word.lower() == word.upper()
        assert word not in STOP_WORDS
        assert not re.search(r"[\s_]", word)
    assert {*words(" ".join(found))} == {*found}  # a name with a sign counts beside its letters


def by_the_formula(texts: list[str], query: str) -> list[float]:
    """BM25 with k1 = 1.2 and b = 0.75, word by word."""
    bags = [Counter(text.split()) for text in texts]
    mean = sum(bag.total() for bag in bags) / len(bags)
    scores = []
    for bag in bags:
        score = 0.0
        for word in query.split():
            having = sum(word in other for other in bags)
            weight = math.log(1 + (len(bags) - having + 0.5) / (having + 0.5))
            length = 1 - 0.75 + 0.75 * bag.total() / mean if mean else 1.0
            score += weight * bag[word] * 2.2 / (bag[word] + 1.2 * length)
        scores.append(score)
    return scores


@given(texts=TEXTS, query=st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join))
def test_scores_and_order_are_those_of_the_formula(texts: list[str], query: str) -> None:
    index = bm25_of(texts)
    found = index.search(query, 5).tolist()
    scores = by_the_formula(texts, query) if texts else []
    assert index.scores(query).tolist() == pytest.approx(scores, abs=1e-8)
    order = sorted(range(len(texts)), key=lambda n: (-round(scores[n], 9), n))
    assert found == [n for n in order if scores[n] > 0][:5]


@given(texts=TEXTS, allowed=st.lists(st.booleans(), min_size=12, max_size=12))
def test_a_filter_hides_and_changes_no_weight(texts: list[str], allowed: list[bool]) -> None:
    mask = np.array(allowed[: len(texts)], dtype=np.bool_)
    index = bm25_of(texts)
    everything = index.search("moon sea", len(texts))
    assert index.search("moon sea", 100, mask).tolist() == [n for n in everything if mask[n]]


def test_a_word_asked_twice_counts_twice() -> None:
    index = bm25_of(["moon moon sea", "sea sea moon salt", "tide"])
    assert index.search("moon sea sea sea", 1).tolist() == [1]
    assert index.search("moon moon moon sea", 1).tolist() == [0]


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), max_size=30), st.integers(1, 10))
def test_the_best_are_those_of_a_full_sort(scores: list[float], limit: int) -> None:
    order = sorted((n for n in range(len(scores)) if scores[n] > 0), key=lambda n: (-scores[n], n))
    assert best(np.array(scores), limit).tolist() == order[:limit]


def test_a_megabyte_without_a_space_is_one_word_and_quick() -> None:
    """Where a line break may part a word was looked for from each of its letters."""
    before = time.process_time()
    assert len(words("b" * 1_000_000)) == 1
    assert unbroken("b" * 1_000_000 + "-\nc") == "b" * 1_000_000 + "c\n"
    assert time.process_time() - before < 5


CONSTRAINED = ("Salt water, and sea-salt.", "Saltwater.", "Water\nand SALT", "the dead\nsea", "")


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("+salt", [0, 2]),
        ("-salt", [1, 3, 4]),
        ('"salt water"', [0]),
        ('"sea salt"', [0]),
        ('"dead sea" -salt', [3]),
        ("+nowhere salt", []),
    ],
)
def test_whole_words_count_in_any_case(query: str, rows: list[int]) -> None:
    found = gate(lambda: CONSTRAINED, query, None)
    assert found is not None
    assert np.flatnonzero(found).tolist() == rows
    even = np.array([True, False, True, False, True])
    both = gate(lambda: CONSTRAINED, query, even)
    assert both is not None
    assert np.flatnonzero(both).tolist() == [row for row in rows if row % 2 == 0]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("A café in the Straße", "+cafe +STRASSE"),
        ("住在東京大学的人", "+東京大学"),
        ("an inter-\nnational line", '+international "international line"'),
        ("ok 👍🏽", "+👍"),
    ],
)
def test_words_count_as_a_word_index_has_them(text: str, query: str) -> None:
    found = gate(lambda: [text, "else"], query, None)
    assert found is not None
    assert found.tolist() == [True, False]


@pytest.mark.parametrize("query", ["salt water", '"salt" OR "sea"', ""])
def test_without_a_constraint_no_text_is_read(query: str) -> None:
    def unread() -> tuple[str, ...]:
        raise AssertionError

    assert gate(unread, query, None) is None


ANY = st.floats(allow_nan=True, allow_infinity=True)
PAIRS = st.lists(st.tuples(ANY, ANY), max_size=20)


def arrays(pairs: list[tuple[float, float]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])


@given(st.floats(0, 1), st.floats(0, 1))
def test_no_score_passes_three_hundredths_as_written(dense: float, sparse: float) -> None:
    legs = [Leg(np.array([dense]), 1.0), Leg(np.array([sparse]), 0.8)]
    assert as_specified(legs, 1)[0] <= 1 / 61 + 0.8 / 61 + 1e-12


def test_by_rank_first_everywhere_is_one_and_equal_scores_share_a_rank() -> None:
    found = by_rank([Leg(np.array([3.0, 2.0, 2.0]), 1.0), Leg(np.array([9.0, 1.0, 5.0]), 0.8)], 3)
    assert found[0] == 1.0
    second, third = 1 / 62 + 0.8 / 63, 1 / 62 + 0.8 / 62
    assert found[1:].tolist() == pytest.approx([second / (1.8 / 61), third / (1.8 / 61)], abs=1e-12)
    assert ranks(np.array([2.0, 5.0, 5.0, math.nan])).tolist() == [3.0, 1.0, 1.0, 4.0]
    dense, sparse = np.array([0.5, 1.0, -0.2, 0.0]), np.array([2.0, 0.0, 4.0, -1.0])
    scores = as_specified([Leg(dense, 1.0), Leg(sparse, 0.8)], 4)
    expected = [1 / (60 + 2) + 0.8 / (60 + 0.5), 1 / 61, 0.8 / (60 + 0.25), 0.0]
    assert scores.tolist() == pytest.approx(expected, abs=1e-12)
    scores = blend_as_specified(np.array([0.02, 0.01]), np.array([0.5, -0.1]))
    assert scores.tolist() == pytest.approx([0.308, 0.004])
    assert by_rank([], 2).tolist() == [0.0, 0.0]
    assert as_specified([], 2).tolist() == [0.0, 0.0]


@given(PAIRS)
def test_whatever_comes_in_what_comes_out_can_be_ordered(pairs: list[tuple[float, float]]) -> None:
    one, other = arrays(pairs)
    legs = [Leg(one, 1.0), Leg(other, 0.8)]
    for found in (
        as_specified(legs, len(pairs)),
        by_rank(legs, len(pairs)),
        blend_as_specified(clean(one), other),
        clean(one),
    ):
        assert np.isfinite(found).all()
        assert ((found >= 0) & (found <= 1)).all()


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=20, unique=True))
def test_one_leg_by_rank_keeps_its_order(scores: list[float]) -> None:
    found = by_rank([Leg(np.array(scores), 1.0)], len(scores))
    assert np.argsort(-found).tolist() == np.argsort(-np.array(scores)).tolist()


WIDTH = 96


def vectors(rank: int, count: int = 400) -> NDArray[np.float16]:
    """Draw unit vectors that lie in ``rank`` dimensions."""
    dice = np.random.default_rng(5)
    inner = dice.normal(size=(count, rank)) @ dice.normal(size=(rank, WIDTH))
    return unit(inner.astype(np.float32)).astype(np.float16)


@pytest.mark.parametrize("rank", [3, DIMENSION])
def test_vectors_of_few_dimensions_keep_their_cosines(rank: int) -> None:
    given = vectors(rank)
    projection = Projection.fit(given)
    short = projection(given).astype(np.float64)
    whole = given.astype(np.float64)
    assert short.shape == (len(given), DIMENSION)
    assert projection.kept == pytest.approx(1.0, abs=1e-5)
    assert np.abs(short @ short.T - whole @ whole.T).max() < 4e-3


def test_it_keeps_as_much_as_the_best_map_of_that_rank_does() -> None:
    given = vectors(WIDTH)
    singular = np.linalg.svd(given.astype(np.float64), compute_uv=False) ** 2
    best = singular[:DIMENSION].sum() / singular.sum()
    projection = Projection.fit(given)
    assert projection.kept == pytest.approx(best, abs=1e-4)
    columns = projection.components.astype(np.float64)
    assert np.abs(columns.T @ columns - np.eye(DIMENSION)).max() < 1e-5
    given = vectors(WIDTH)
    one, other = Projection.fit(given), Projection.fit(given[::-1].copy())
    assert np.abs(one.components - other.components).max() < 1e-4
    projection = Projection.fit(vectors(3))
    assert (np.abs(projection.components).sum(axis=0) > 0).sum() == 3
    nothing = Projection.fit(np.zeros((0, WIDTH), dtype=np.float16))
    assert not nothing(vectors(3)).any()
    assert nothing.kept == 1.0


def test_a_file_gives_back_what_was_written_and_a_broken_one_is_not_ready(tmp_path: Path) -> None:
    path = tmp_path / "projection.npz"
    made = Projection.fit(vectors(WIDTH))
    made.write(path)
    read = Projection.open(path, WIDTH)
    assert (read.components == made.components).all()
    assert read.kept == made.kept
    with pytest.raises(IndexNotReady, match="maps"):
        Projection.open(path, WIDTH + 1)
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(IndexNotReady, match="harness stage index"):
        Projection.open(path, WIDTH)


NAMES = ("Ocean Tide", "Board of Trade", "NASA", "read_csv", "DataFrame", "BRCA-1", "np_array")
CHUNKS = st.lists(st.lists(st.sampled_from(NAMES), max_size=5).map(", ".join), max_size=25)


def graph_of(texts: list[str], seed: int = 0) -> ChunkGraph:
    dice = np.random.default_rng(seed)
    drawn = unit(dice.normal(size=(len(texts), 3)).astype(np.float32))
    return ChunkGraph(Entities.of([named(one) for one in texts]), drawn.astype(np.float16))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Bank of England met Ada Lovelace.", {"the bank of england", "ada lovelace"}),
        ("NASA and BRCA1, COVID-19", {"nasa", "brca1", "covid-19"}),
        ("call read_csv or DataFrame or iterRows", {"read_csv", "dataframe", "iterrows"}),
        ("Nothing here. Another sentence, I think, A", set()),
    ],
)
def test_an_entity_is_what_the_rule_says(text: str, expected: set[str]) -> None:
    assert named(text) == expected


@given(texts=CHUNKS, data=st.data(), most=st.integers(0, 8))
def test_expansion_is_capped_and_new(texts: list[str], data: st.DataObject, most: int) -> None:
    found = data.draw(st.lists(st.sampled_from(range(len(texts))))) if texts else []
    edges = graph_of(texts).expand(found, most)
    rows = [edge.row for edge in edges]
    assert len(rows) <= most
    assert len(set(rows)) == len(rows)
    assert not set(rows) & set(found)
    assert [(-edge.weight, edge.row) for edge in edges] == sorted(
        (-edge.weight, edge.row) for edge in edges
    )
    assert all(0 < edge.weight <= 1 for edge in edges)
    for edge in edges:
        for entity in edge.shared:
            assert entity in named(texts[edge.row])
            assert any(entity in named(texts[row]) for row in found)


@given(texts=CHUNKS, data=st.data(), most=st.integers(1, 8))
def test_the_strongest_edge_of_all_leads(texts: list[str], data: st.DataObject, most: int) -> None:
    found = data.draw(st.lists(st.sampled_from(range(len(texts))), max_size=3)) if texts else []
    network = graph_of(texts)
    weights: dict[int, float] = {}
    for row in found:
        for other in range(len(texts)):
            if other in found:
                continue
            own = network.entities.of_chunk.get(row, ())
            whole = sum(network.entities.weight(entity) for entity in own)
            some = [e for e in own if e in named(texts[other])]
            share = sum(map(network.entities.weight, some)) / whole if whole else 0.0
            assert network.vectors is not None
            pair = network.vectors[[row, other]].astype(np.float64)
            cosine = float(pair[0] @ pair[1])
            alike = cosine / 2 if cosine >= graph.LEAST_ALIKE else 0.0
            weight = (1 + share) / 2 if share > 0 else alike
            weights[other] = max(weights.get(other, 0.0), weight)
    best = sorted((w for w in weights.values() if w > 1e-6), reverse=True)[:most]
    assert [e.weight for e in network.expand(found, most)] == pytest.approx(best, abs=1e-5)


def test_reading_does_not_grow_with_the_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"Ocean Tide and NAME{n % 40}" for n in range(3_000)]
    network = graph_of(texts)
    assert "ocean tide" not in network.entities.chunks
    held: list[int] = []
    ordered = sorted

    def counted(some: list[object], **rest: object) -> list[object]:
        made = list(some)
        held.append(len(made))
        return ordered(made, **rest)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(graph, "sorted", counted, raising=False)
    assert len(network.expand(range(20), 10)) == 10
    assert max(held) <= max(MOST_OF_A_CHUNK * MOST_CHUNKS, 2 * 10 * 20)


def test_an_entity_of_every_chunk_or_of_one_connects_nothing() -> None:
    found = Entities.of([named(one) for one in ["NASA ESA", "NASA", "NASA JAXA", "NASA JAXA"]])
    assert set(found.chunks) == {"nasa", "jaxa"}
    assert found.weight("nasa") == 0.0
    alone = ChunkGraph(found, None)
    assert alone.expand([0], 5) == []
    assert [edge.row for edge in alone.expand([2], 5)] == [3]
    many = " ".join(f"NAME{n}" for n in range(100, 140))
    found = Entities.of([named(one) for one in [f"{many} RARE1", many, many, "RARE1"]])
    assert len(found.of_chunk[0]) == MOST_OF_A_CHUNK
    assert found.of_chunk[0][0] == "rare1"


def test_what_shares_an_entity_comes_before_what_only_reads_alike() -> None:
    texts = ["Ocean Tide and NASA and ESA", "nothing", "nothing", "NASA", "nothing"]
    vectors = np.tile(np.array([[1, 0]], dtype=np.float16), (5, 1))
    vectors[3] = [0, 1]
    edges = ChunkGraph(Entities.of([named(one) for one in texts]), vectors).expand([0], 3)
    assert [(edge.row, edge.shared, edge.weight) for edge in edges] == [
        (3, ("nasa",), 1.0), (1, (), 0.5), (2, (), 0.5),
    ]  # fmt: skip
