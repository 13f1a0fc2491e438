"""Code search as a stack under test: settings, filters as params, and broken parts."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.core.engine import TakesParams
from harness.core.records import Document, Query
from harness.core.run import Status
from harness.policy.load import load_policy
from harness.replay.drive import observe
from harness_engines import registry as arms
from harness_engines.kept.index import built
from harness_engines.lexical.grammar import exact_clauses
from harness_engines.stacks.code import arm as code
from harness_engines.stacks.code import ranking, search, units
from harness_engines.stacks.code.ranking import (
    ContextSettings,
    GraphSettings,
    UnitGraph,
    UnitRelation,
)
from harness_engines.stacks.code.search import CodeSearch, expanded
from harness_engines.stacks.code.units import Facts, Mode, Unit, UnitTexts
from tests.make.code import BLEND, GRAPH, RRF, SETTINGS, documents, opened, stack
from tests.source import ROOT
from tests.thinned import examples

DOCUMENTS = [
    Document("a", "", "def load_prices():\n    return {'price': 4}", {"path": "shop/prices.py"}),
    Document("b", "", "def checkout(price):\n    load_prices()", {"path": "shop/till.py"}),
    Document("c", "Tea", "A shop that sells tea by its price."),
]


def test_params_are_filters(tmp_path: Path, index: Path) -> None:
    made = stack(tmp_path, embedder="hash")
    made.build(DOCUMENTS, index)
    with made.open(index) as searcher:
        assert isinstance(searcher, TakesParams)
        assert {hit.doc_id for hit in searcher.search("price", 10).hits} == {"a", "b", "c"}
        asked = {"path": "till", "calls": "load_prices"}
        assert [hit.doc_id for hit in searcher.search_with("price", 10, asked).hits] == ["b"]
        with pytest.raises(units.InvalidFilter, match="no filter colour"):
            searcher.search_with("price", 10, {"colour": "red"})
        failed = observe(searcher, Query("q", "price", params={"lang": ""}), 10, 10**10)
        assert failed.row.status is Status.FAILED


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"search": {}}, "name one of search.rrf and search.scoreBlend"),
        ({"search": {**RRF, **BLEND}}, "name one of search.rrf and search.scoreBlend"),
        ({"graph": {**GRAPH, "seedK": 3}}, "seedK goes with"),
        ({"boosts": {"definition": 0.5, "export": 1.0, "phrase": 0.0}}, "greater than or equal"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        ranking.CodeSettings.model_validate({**SETTINGS, **changed})


def test_each_question_of_the_policy_differs_in_one_setting(tmp_path: Path) -> None:
    steps = load_policy(ROOT / "policy" / "code.toml").steps
    one = {"parity": "backend", "vectors": "embedder", "blend": "search"}
    one |= {name: name for name in ("boosts", "fields", "graph")}
    assert [step.name for step in steps] == list(one)
    for step in steps:
        pair = [arms.load(name, tmp_path).engine for name in (step.control, step.candidate)]
        left, right = (made.settings.model_dump() for made in pair if isinstance(made, code.Code))
        assert [key for key in left if left[key] != right[key]] == [one[step.name]]


WEIGHTS = {"name": 3, "signature": 1, "doc": 1, "comment": 1, "body": 1}
UNIT = "INSERT INTO unit VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


def test_equal_scores_go_by_row_and_not_by_when_they_were_taken_in(tmp_path: Path) -> None:
    keys = np.array([3, 1, 4, 2])
    with built(tmp_path, search.TABLES) as db:
        for row, key in enumerate(keys.tolist()):
            db.execute(UNIT, (key, "", f"d{row}", "", "", "", "", b""))
            db.execute(search.TERMS, (key, *UnitTexts(name="tea")))
        found = units.StoredWords(db, keys, WEIGHTS)
        tea = units.wanted(exact_clauses("tea"), "none")
        assert [one.row for one in found.search(tea, 3, None)] == [0, 1, 2]
    begun = units.wanted(exact_clauses("readCs*"), "none")
    assert [one.phrases for one in begun] == [(("cs*",),)], "that of its last part"


STACK = ROOT / "engines" / "harness_engines" / "stacks" / "code"
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
    return Unit(name, Mode.CODE, "python", name, UnitTexts(name), facts)


def beside(graph: UnitGraph, row: int) -> list[tuple[str, int]]:
    return [(one.reason.name, one.row) for one in graph.neighbours[row]]


@pytest.mark.slow
def test_neighbours_are_named_by_identity_and_bounded() -> None:
    four = [unit("a.f", calls=("b.g", "c.h")), unit("b.g"), unit("d.g"), unit("d.h")]
    graph = UnitGraph(four)
    assert beside(graph, 0) == [("CALL", 1), ("NAME_FALLBACK", 3)]
    assert beside(graph, 1) == [("CALL", 0)]
    assert beside(graph, 2) == []
    assert len(graph.neighbours[0]) == 2
    both = UnitGraph([unit("a.f", calls=("b.g",), uses=("b.g",)), unit("b.g")])
    assert beside(both, 0) == [("CALL", 1)]
    namesakes = [unit(f"m{at}.run") for at in range(4)]
    assert UnitGraph([unit("a.f", calls=("x.run",)), *namesakes]).neighbours[0] == ()
    assert len(UnitGraph([unit("a.f", calls=("x.run",)), *namesakes[:3]]).neighbours[0]) == 3
    many = [unit(f"m.f{at:03d}", calls=("m.all",)) for at in range(200)]
    graph = UnitGraph([*many, unit("m.all")])
    assert len(graph.neighbours[200]) == ranking.MOST_NEIGHBOURS
    assert [row for _, row in beside(graph, 200)] == list(range(ranking.MOST_NEIGHBOURS))
    chain = UnitGraph([
        unit(f"m.f{at}", calls=tuple(f"m.f{at * 12 + n}" for n in range(1, 13)))
        for at in range(2000)
    ])
    assert len(ranking.distances(chain, [0, 50, 90])) <= ranking.VISITED
    assert max(ranking.distances(chain, [0]).values()) == 2


SEEDS = st.sampled_from([("top1", None), ("topK", 3), ("none", None)])
WEIGHTS_OF_GRAPH = st.builds(
    lambda degree, proximity, seeds: GraphSettings.model_validate({
        "degree": degree, "proximity": proximity, "seedSelection": seeds[0], "seedK": seeds[1],
    }),
    st.floats(0, 1), st.floats(0, 1), SEEDS,
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None)
@given(
    text=st.one_of(st.sampled_from(WORDS), st.text("abc search_", max_size=12)),
    top=st.integers(1, 40),
    name=st.sampled_from([None, *units.NAMES]),
    mode=st.sampled_from(list(Mode)),
    weights=WEIGHTS_OF_GRAPH,
)
def test_the_graph_changes_the_order_and_never_the_membership(  # noqa: PLR0917  drawn by name
    searcher: CodeSearch, text: str, top: int, name: str | None, mode: Mode, weights: GraphSettings
) -> None:
    values = {"lang": "python", "ext": "py", "type": "method", "risk": "medium", "calls": "len"}
    filters = dict(**{name: values.get(name, "e")}) if name else {}
    without, with_graph = (
        replace(searcher, settings=searcher.settings.model_copy(update={"graph": graph})).search(
            text, top, filters, mode
        )
        for graph in (None, weights)
    )
    assert {hit.row for hit in with_graph.hits} == {hit.row for hit in without.hits}
    assert len(with_graph.hits) == len(without.hits)
    assert with_graph.context == without.context
    keys = ("score", "degree", "proximity", "weights", "seedSelection", "seedK")
    for hit in with_graph.hits:
        assert hit.why.graph is not None
        assert tuple(hit.why.graph) == keys


@pytest.mark.slow
def test_a_seed_is_nearest_and_none_means_no_nearness(searcher: CodeSearch) -> None:
    graph = searcher.catalog.graph
    row = next(at for at in range(100) if len(graph.neighbours[at]) > 1)
    neighbour = graph.neighbours[row][0].row
    top1 = GraphSettings.model_validate({"degree": 0.0, "proximity": 1.0, "seedSelection": "top1"})
    why = ranking.ScoreBreakdown({})
    ranked = [ranking.RankedUnit(row, 0.9, why), ranking.RankedUnit(neighbour, 0.1, why)]
    found = {one.row: one for one in ranking.reordered(ranked, graph, top1)}
    assert [(found[at].why.graph or {})["proximity"] for at in (row, neighbour)] == [1.0, 0.5]
    assert found[neighbour].score == pytest.approx((0.1 + 0.5) / 2)
    none = top1.model_copy(update={"seed_selection": "none"})
    (only,) = ranking.reordered(ranked[:1], graph, none)
    assert (only.why.graph or {})["proximity"] == 0.0
    entries = searcher.catalog.entries
    assert [units.entry_of(units.written(entry)) for entry in entries] == entries
    plain = replace(searcher, settings=searcher.settings.model_copy(update={"graph": None}))
    orders = (
        [[hit.row for hit in one.search(text, 20).hits] for one in (plain, searcher)]
        for text in WORDS
    )
    assert any(one != two for one, two in orders)


@pytest.mark.slow
def test_context_comes_behind_is_marked_and_capped(searcher: CodeSearch) -> None:
    for text in WORDS:
        found = searcher.search(text, 5)
        rows = [*(hit.row for hit in found.hits), *(one.row for one in found.context)]
        assert len(set(rows)) == len(rows)
        assert len(found.context) <= 7
        per_hit = [one.of for one in found.context]
        assert max((per_hit.count(of) for of in per_hit), default=0) <= 3
        assert searcher.search(text, 5) == found
    found = searcher.search("search", 3, {"path": "search.py"})
    assert found.hits
    rows = [*(hit.row for hit in found.hits), *(one.row for one in found.context)]
    assert {searcher.catalog.entry(row).unit.file for row in rows} == {"search.py"}


@pytest.mark.slow
def test_context_is_cut_in_the_order_of_reasons_and_says_so() -> None:
    four = [
        unit("a.f", calls=("b.g", "c.x"), uses=("b.h",)),
        unit("b.h"),
        unit("b.g"),
        unit("d.x"),
    ]
    graph = UnitGraph(four)
    all_of, is_cut = expanded([0], graph, ContextSettings(per_hit=3, total=10), None)
    assert [(one.row, one.reason) for one in all_of] == [
        (2, UnitRelation.CALL), (1, UnitRelation.USAGE), (3, UnitRelation.NAME_FALLBACK),
    ]  # fmt: skip
    assert not is_cut
    for caps in (ContextSettings(per_hit=2, total=10), ContextSettings(per_hit=3, total=2)):
        assert expanded([0], graph, caps, None) == (all_of[:2], True)
