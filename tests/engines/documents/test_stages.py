"""The stages by themselves: words and BM25, operators, fusion, projection, and related chunks."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness_engines.stacks.documents import graph
from harness_engines.stacks.documents.graph import (
    MOST_CHUNKS,
    MOST_OF_A_CHUNK,
    ChunkGraph,
    named,
)
from harness_engines.stacks.documents.ranking import (
    DIMENSION,
    Leg,
    as_specified,
    blend_as_specified,
    by_rank,
    fit_projection,
    projected,
    ranks,
)
from harness_engines.stacks.documents.recall import words
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


WIDTH = 96


def vectors(rank: int, count: int = 400) -> NDArray[np.float16]:
    """Draw unit vectors that lie in ``rank`` dimensions."""
    dice = np.random.default_rng(5)
    inner = dice.normal(size=(count, rank)) @ dice.normal(size=(rank, WIDTH))
    return unit(inner.astype(np.float32)).astype(np.float16)


def test_it_keeps_as_much_as_the_best_map_of_that_rank_does() -> None:
    given = vectors(WIDTH)
    singular = np.linalg.svd(given.astype(np.float64), compute_uv=False) ** 2
    best = singular[:DIMENSION].sum() / singular.sum()
    columns = fit_projection(given).astype(np.float64)
    kept = (given.astype(np.float64) @ columns) ** 2
    assert kept.sum() / singular.sum() == pytest.approx(best, abs=1e-4)
    assert np.abs(columns.T @ columns - np.eye(DIMENSION)).max() < 1e-5
    given = vectors(WIDTH)
    one, other = fit_projection(given), fit_projection(given[::-1].copy())
    assert np.abs(one - other).max() < 1e-4
    assert (np.abs(fit_projection(vectors(3))).sum(axis=0) > 0).sum() == 3
    nothing = fit_projection(np.zeros((0, WIDTH), dtype=np.float16))
    assert not projected(vectors(3), nothing).any()


NAMES = ("Ocean Tide", "Board of Trade", "NASA", "read_csv", "DataFrame", "BRCA-1", "np_array")
CHUNKS = st.lists(st.lists(st.sampled_from(NAMES), max_size=5).map(", ".join), max_size=25)


def graph_of(texts: list[str], seed: int = 0) -> ChunkGraph:
    dice = np.random.default_rng(seed)
    drawn = unit(dice.normal(size=(len(texts), 3)).astype(np.float32))
    return ChunkGraph.of([named(one) for one in texts], drawn.astype(np.float16))


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


def test_reading_does_not_grow_with_the_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"Ocean Tide and NAME{n % 40}" for n in range(3_000)]
    network = graph_of(texts)
    assert "ocean tide" not in network.chunks
    held: list[int] = []
    ordered = sorted

    def counted(some: list[object], **rest: object) -> list[object]:
        made = list(some)
        held.append(len(made))
        return ordered(made, **rest)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(graph, "sorted", counted, raising=False)
    assert len(network.expand(range(20), 10)) == 10
    assert max(held) <= max(MOST_OF_A_CHUNK * MOST_CHUNKS, 2 * 10 * 20)


def test_what_shares_an_entity_comes_before_what_only_reads_alike() -> None:
    texts = ["Ocean Tide and NASA and ESA", "nothing", "nothing", "NASA", "nothing"]
    vectors = np.tile(np.array([[1, 0]], dtype=np.float16), (5, 1))
    vectors[3] = [0, 1]
    edges = ChunkGraph.of([named(one) for one in texts], vectors).expand([0], 3)
    assert [(edge.row, edge.shared, edge.weight) for edge in edges] == [
        (3, ("nasa",), 1.0), (1, (), 0.5), (2, (), 0.5),
    ]  # fmt: skip
