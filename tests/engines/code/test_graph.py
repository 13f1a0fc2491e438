"""The graph: neighbours, another order of the same hits, and context behind them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.stacks.code.ranking import (
    MOST_NEIGHBOURS,
    VISITED,
    Context,
    Graph,
    Reason,
    distances,
    reordered,
)
from engines.stacks.code.ranking import GraphSettings as Weights
from engines.stacks.code.reading.documents import understand
from engines.stacks.code.search import MOST_LOOKED_AT, CodeSearch, expanded
from engines.stacks.code.units import NAMES, Facts, Mode, Texts, Unit, entry_of, written
from harness.core.formats import json_of
from tests.make.code import GRAPH, documents, opened, write_shop
from tests.thinned import examples

pytestmark = pytest.mark.slow
STACK = Path(__file__).resolve().parents[3] / "engines" / "stacks" / "code"
"""A package that calls itself a good deal."""
WORDS = ("search", "units", "filter", "score of a hit", "read", "terms", "graph", "documents path")


@pytest.fixture(scope="module")
def searcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CodeSearch]:
    folder = tmp_path_factory.mktemp("graph")
    context = {"per_hit": 3, "total": 7}
    with opened(folder, list(documents(STACK)), graph=GRAPH, context=context) as made:
        yield made


def unit(name: str, *, calls: tuple[str, ...] = (), uses: tuple[str, ...] = ()) -> Unit:
    facts = Facts("function", name.rpartition(".")[2], name, calls=calls, uses=uses)
    return Unit(name, Mode.CODE, "python", name, Texts(name), facts)


def beside(graph: Graph, row: int) -> list[tuple[str, int]]:
    return [(one.reason.name, one.row) for one in graph.neighbours(row)]


def test_an_identity_comes_before_a_bare_name() -> None:
    units = [unit("a.f", calls=("b.g", "c.h")), unit("b.g"), unit("d.g"), unit("d.h")]
    graph = Graph(units)
    assert beside(graph, 0) == [("CALL", 1), ("NAME_FALLBACK", 3)]
    assert beside(graph, 1) == [("CALL", 0)]
    assert beside(graph, 2) == []
    assert graph.degree(0) == 2


def test_the_strongest_reason_counts_and_a_common_name_leads_nowhere() -> None:
    both = Graph([unit("a.f", calls=("b.g",), uses=("b.g",)), unit("b.g")])
    assert beside(both, 0) == [("CALL", 1)]
    namesakes = [unit(f"m{at}.run") for at in range(4)]
    assert Graph([unit("a.f", calls=("x.run",)), *namesakes]).degree(0) == 0
    assert Graph([unit("a.f", calls=("x.run",)), *namesakes[:3]]).degree(0) == 3


def test_the_graph_of_the_shop(tmp_path: Path) -> None:
    units = [understand(one) for one in documents(write_shop(tmp_path))]
    rows = {one.doc_id: at for at, one in enumerate(units)}
    checkout = beside(Graph(units), rows["shop/till.py::checkout"])
    found = {row: reason for reason, row in checkout}
    assert found[rows["shop/prices.py::PriceList"]] == "CALL"
    assert found[rows["shop/prices.py::load_prices"]] == "CALL"
    assert found[rows["shop/README.md#1"]] == "USAGE"
    assert found[rows["shop/till.py::"]] == "EXPORT"
    assert found[rows["shop/prices.py::PriceList.total_price"]] == "NAME_FALLBACK"


def test_neighbours_are_bounded() -> None:
    many = [unit(f"m.f{at:03d}", calls=("m.all",)) for at in range(200)]
    graph = Graph([*many, unit("m.all")])
    assert graph.degree(200) == MOST_NEIGHBOURS
    assert [row for _, row in beside(graph, 200)] == list(range(MOST_NEIGHBOURS))
    chain = Graph([
        unit(f"m.f{at}", calls=tuple(f"m.f{at * 12 + n}" for n in range(1, 13)))
        for at in range(2000)
    ])
    assert len(distances(chain, [0, 50, 90])) <= VISITED
    assert max(distances(chain, [0]).values()) == 2


@settings(max_examples=examples(200), deadline=None)
@given(
    scored=st.lists(
        st.tuples(st.integers(0, 30), st.floats(0, 1)), unique_by=lambda one: one[0]
    ).map(lambda found: sorted(found, key=lambda one: (-one[1], one[0]))),
    degree=st.floats(0, 1),
    proximity=st.floats(0, 1),
    seeds=st.sampled_from([("top1", None), ("topK", 3), ("none", None)]),
)
def test_reordering_keeps_every_row_once(
    searcher: CodeSearch,
    scored: list[tuple[int, float]],
    degree: float,
    proximity: float,
    seeds: tuple[str, int | None],
) -> None:
    graph = searcher.graph
    assert graph is not None
    weights = Weights.model_validate({
        "degree": degree,
        "proximity": proximity,
        "seedSelection": seeds[0],
        "seedK": seeds[1],
    })
    placed = reordered(scored, graph, weights)
    assert sorted(one.row for one in placed) == sorted(row for row, _ in scored)
    assert [(-one.score, one.row) for one in placed] == sorted(
        (-one.score, one.row) for one in placed
    )
    assert all(0 <= one.score <= 1 for one in placed)
    assert reordered(scored, graph, weights) == placed


@settings(max_examples=examples(300), deadline=None)
@given(
    text=st.one_of(st.sampled_from(WORDS), st.text("abc search_", max_size=12)),
    top=st.integers(1, 40),
    name=st.sampled_from([None, *NAMES]),
    mode=st.sampled_from(list(Mode)),
    degree=st.floats(0, 1),
    proximity=st.floats(0, 1),
    seeds=st.sampled_from([("top1", None), ("topK", 2), ("none", None)]),
)
def test_the_graph_changes_the_order_and_never_the_membership(  # noqa: PLR0917  drawn by name
    searcher: CodeSearch,
    text: str,
    top: int,
    name: str | None,
    mode: Mode,
    degree: float,
    proximity: float,
    seeds: tuple[str, int | None],
) -> None:
    weights = Weights.model_validate({
        "degree": degree,
        "proximity": proximity,
        "seedSelection": seeds[0],
        "seedK": seeds[1],
    })
    values = {"lang": "python", "ext": "py", "type": "method", "risk": "medium", "calls": "len"}
    filters = dict(**{name: values.get(name, "e")}) if name else {}
    plain = replace(searcher, settings=searcher.settings.model_copy(update={"graph": None}))
    other = replace(searcher, settings=searcher.settings.model_copy(update={"graph": weights}))
    without, with_graph = (
        plain.search(text, top, filters, mode),
        other.search(text, top, filters, mode),
    )
    ids = [hit.unit.doc_id for hit in without.hits]
    assert sorted(hit.unit.doc_id for hit in with_graph.hits) == sorted(ids)
    assert with_graph.context == without.context
    for hit in with_graph.hits:
        assert hit.why is not None
        assert hit.why.graph is not None
        assert tuple(hit.why.graph) == (
            "score", "degree", "proximity", "weights", "seedSelection", "seedK",
        )  # fmt: skip


def test_the_graph_does_change_an_order(searcher: CodeSearch) -> None:
    plain = replace(searcher, settings=searcher.settings.model_copy(update={"graph": None}))
    moved = [
        [hit.unit.doc_id for hit in one.search(text, 20).hits]
        for text in WORDS
        for one in (plain, searcher)
    ]
    assert any(one != two for one, two in zip(moved[::2], moved[1::2], strict=True))


def test_a_seed_is_nearest_and_none_means_no_nearness(searcher: CodeSearch) -> None:
    graph = searcher.graph
    assert graph is not None
    row = next(at for at in range(100) if graph.degree(at) > 1)
    neighbour = graph.neighbours(row)[0].row
    top1 = Weights.model_validate({"degree": 0.0, "proximity": 1.0, "seedSelection": "top1"})
    found = {one.row: one for one in reordered([(row, 0.9), (neighbour, 0.1)], graph, top1)}
    assert found[row].graph["proximity"] == 1.0
    assert found[neighbour].graph["proximity"] == 0.5
    assert found[neighbour].score == pytest.approx((0.1 + 0.5) / 2)
    none = top1.model_copy(update={"seed_selection": "none"})
    assert {one.graph["proximity"] for one in reordered([(row, 0.9)], graph, none)} == {0.0}


def test_context_comes_behind_is_marked_and_capped(searcher: CodeSearch) -> None:
    for text in WORDS:
        found = searcher.search(text, 5)
        assert all(hit.beside is None and hit.why is not None for hit in found.hits)
        assert all(hit.beside is not None and hit.why is None for hit in found.context)
        ids = [hit.unit.doc_id for hit in (*found.hits, *found.context)]
        assert len(set(ids)) == len(ids)
        assert len(found.context) <= 7
        per_hit = [one.beside.of for one in found.context if one.beside]
        assert max((per_hit.count(of) for of in per_hit), default=0) <= 3
        assert searcher.search(text, 5) == found


def test_context_is_cut_in_the_order_of_reasons_and_says_so() -> None:
    units = [
        unit("a.f", calls=("b.g", "c.x"), uses=("b.h",)),
        unit("b.h"),
        unit("b.g"),
        unit("d.x"),
    ]
    graph = Graph(units)
    all_of, is_cut = expanded([0], graph, Context(per_hit=3, total=10), None)
    assert [(one.row, one.reason) for one in all_of] == [
        (2, Reason.CALL), (1, Reason.USAGE), (3, Reason.NAME_FALLBACK),
    ]  # fmt: skip
    assert not is_cut
    for caps in (Context(per_hit=2, total=10), Context(per_hit=3, total=2)):
        cut, truncated = expanded([0], graph, caps, None)
        assert cut == all_of[:2]
        assert truncated
    assert MOST_LOOKED_AT * 1 < MOST_NEIGHBOURS


def test_context_passes_the_filters_too(searcher: CodeSearch) -> None:
    found = searcher.search("search", 3, {"path": "search.py"})
    assert found.hits
    assert {hit.unit.file for hit in (*found.hits, *found.context)} == {"search.py"}


def test_a_unit_is_read_as_it_was_written(searcher: CodeSearch) -> None:
    entries = searcher.ranker.catalog.entries
    assert [entry_of(*json_of(written(entry))) for entry in entries] == entries
