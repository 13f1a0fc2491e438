"""Expansion: bounded, without repetition, never a chunk that was found; and what is an entity."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.stacks.documents import graph
from engines.stacks.documents.graph import MOST_CHUNKS, MOST_OF_A_CHUNK, Entities, Graph, named
from engines.vector.embedder import unit

NAMES = ("Ocean Tide", "Board of Trade", "NASA", "read_csv", "DataFrame", "BRCA-1", "np_array")
CHUNKS = st.lists(st.lists(st.sampled_from(NAMES), max_size=5).map(", ".join), max_size=25)


def graph_of(texts: list[str], seed: int = 0) -> Graph:
    dice = np.random.default_rng(seed)
    drawn = unit(dice.normal(size=(len(texts), 3)).astype(np.float32))
    return Graph(Entities.of([named(one) for one in texts]), drawn.astype(np.float16))


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
def test_expansion_is_capped_unique_and_holds_nothing_that_was_found(
    texts: list[str], data: st.DataObject, most: int
) -> None:
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


def test_what_is_looked_at_does_not_grow_with_the_collection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
    alone = Graph(found, None)
    assert alone.expand([0], 5) == []
    assert [edge.row for edge in alone.expand([2], 5)] == [3]


def test_the_rarest_entities_of_a_chunk_count() -> None:
    many = " ".join(f"NAME{n}" for n in range(100, 140))
    found = Entities.of([named(one) for one in [f"{many} RARE1", many, many, "RARE1"]])
    assert len(found.of_chunk[0]) == MOST_OF_A_CHUNK
    assert found.of_chunk[0][0] == "rare1"


def test_what_shares_an_entity_comes_before_what_only_reads_alike() -> None:
    texts = ["Ocean Tide and NASA and ESA", "nothing", "nothing", "NASA", "nothing"]
    vectors = np.tile(np.array([[1, 0]], dtype=np.float16), (5, 1))
    vectors[3] = [0, 1]
    edges = Graph(Entities.of([named(one) for one in texts]), vectors).expand([0], 3)
    assert [(edge.row, edge.shared, edge.weight) for edge in edges] == [
        (3, ("nasa",), 1.0), (1, (), 0.5), (2, (), 0.5),
    ]  # fmt: skip
