"""The explorer's columns and page."""

import base64
import hashlib
import re
from dataclasses import replace
from itertools import accumulate, pairwise
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pytest

from harness.core.run import Row, Run, Status
from harness.core.scores import Paired
from harness.measures.decompose import decompose
from harness.report.explorer import hits, to_explorer, values
from harness.report.explorer_stages import holds, stages
from harness.report.html import explore_link
from harness.report.inputs import Apart, ReportInput
from harness.report.page.tables import DEPTH
from harness.report.rounding import for_json
from tests.make import report_inputs
from tests.make.report_inputs import data_of


@pytest.fixture(scope="module")
def found() -> SimpleNamespace:
    return values(report_inputs.report())


def value(found: SimpleNamespace, code: int) -> Any:  # noqa: ANN401  of the page
    return found.reasons[-1 - code] if code < 0 else found.numbers[code]


def test_the_parts_of_a_difference_are_those_of_decompose(found: SimpleNamespace) -> None:
    report = report_inputs.report()
    evidence = report.evidence["tantivy"]
    of = next(each for each in found.compared if each.name == "tantivy")
    pairs = Paired.of(evidence.control.scores["nDCG@10"], evidence.candidate.scores["nDCG@10"])
    moved = [pairs.query_ids[at] for at in np.flatnonzero(pairs.difference)]
    parts = decompose(evidence.control.run, evidence.candidate.run, report.qrels, "nDCG@10", moved)
    shown = dict(zip(found.ids, of.shown, strict=True))
    order = dict(zip(found.ids, of.order, strict=True))
    for at, query_id in enumerate(moved):
        assert value(found, shown[query_id]) == pytest.approx(parts.shown[at], abs=1e-9)
        assert value(found, order[query_id]) == pytest.approx(parts.order[at], abs=1e-9)
    still = set(found.ids) - set(moved)
    assert still
    assert all(shown[query_id] < 0 for query_id in still)


def test_a_query_that_a_run_lacks_was_not_asked() -> None:
    report = report_inputs.report()
    name = "tantivy-default"
    rows = [row for row in report.arms[name].run.rows() if row.query_id != "q03"]
    side = replace(report.arms[name], run=Run.of(name, rows))
    bare: dict[str, Any] = {"evidence": {}, "arms": {**report.arms, name: side}}
    found = values(replace(report, **bare))
    assert found.status[1][3] == Status.NOT_ASKED
    assert found.status[1].count(int(Status.NOT_ASKED)) == 1


@pytest.fixture(scope="module")
def report() -> ReportInput:
    return report_inputs.report()


@pytest.fixture(scope="module")
def found_hits(report: ReportInput) -> SimpleNamespace:
    return hits(report)


def rows(lengths: list[int], flat: list[int]) -> list[list[int]]:
    ends = list(accumulate(lengths, initial=0))
    return [flat[low:high] for low, high in pairwise(ends)]


def test_the_whole_ranking_tells_where_a_hit_stands_in_every_arm(report: ReportInput) -> None:
    queries = list(report.queries)
    found = hits(report)
    firsts = [rows(shown.lengths, shown.docs) for shown in found.shown]
    for side, shown, own in zip(report.arms.values(), found.shown, firsts, strict=True):
        lengths = [found.distinct[at] - len(own[at]) for at in range(len(queries))]
        told = rows(lengths, shown.deeper)
        assert sum(map(len, told)) == len(shown.deeper)
        for at, query_id in enumerate(queries):
            others = dict.fromkeys(doc for first in firsts for doc in first[at])
            ranking = side.run.ranking(query_id)
            names = [found.ids[doc] for doc in others if doc not in own[at]]
            assert told[at] == [ranking.index(n) + 1 if n in ranking else 0 for n in names]
    assert any(rank > DEPTH for shown in found.shown for rank in shown.deeper)
    assert any(rank == 0 for shown in found.shown for rank in shown.deeper)


def test_judgements_of_what_is_shown_and_of_what_is_relevant(
    report: ReportInput, found_hits: SimpleNamespace
) -> None:
    listed = rows(found_hits.lengths, list(range(len(found_hits.judged))))
    for query_id, row in zip(report.queries, listed, strict=True):
        grades = report.qrels.grades[query_id]
        seen = {d for side in report.arms.values() for d in side.run.ranking(query_id, 10)}
        told = {found_hits.ids[found_hits.judged[at]]: found_hits.grades[at] for at in row}
        assert told == {d: g for d, g in grades.items() if g > 0 or d in seen}
        for side, shown in zip(report.arms.values(), found_hits.shown, strict=True):
            ranking = side.run.ranking(query_id)
            for at in row:
                doc_id = found_hits.ids[found_hits.judged[at]]
                rank = ranking.index(doc_id) + 1 if doc_id in ranking else 0
                assert shown.ranks[at] == rank


def test_late_and_never_asked_are_not_the_same(report: ReportInput) -> None:
    run = Run.of("fts5-default", [Row("q00", Status.TIMED_OUT), Row("q01", Status.NOT_ASKED)])
    side = replace(report.arms["fts5-default"], run=run)
    shown = hits(replace(report, arms={"fts5-default": side})).shown[0]
    assert shown.instead[0] == "timed out"
    assert shown.instead[1] == shown.instead[2] == "was not asked"
    assert len(shown.found) == len(report.queries)
    assert shown.deeper == []


def test_a_raced_query_keeps_its_own_row(report: ReportInput) -> None:
    assert report.latency is not None
    race = replace(
        report.latency.race,
        query_ids=("q07", "left", "q02"),
        elapsed_ns={"fts5-default": np.array([[7, 1, 2], [7, 1, 4]])},
        repeated_ns={"fts5-default": np.array([[5], [5]])},
        verified={"fts5-default": True},
    )
    (times,) = hits(replace(report, latency=replace(report.latency, race=race))).times
    assert (times.queries, times.median, times.high) == ([7, 2], [7, 3], [7, 4])
    assert times.again == [5, 0]


@pytest.fixture(scope="module")
def page() -> str:
    return to_explorer([report_inputs.report("mail"), report_inputs.compared_only("<i>bare</i>")])


def test_only_our_script_may_run_and_nothing_is_asked_for(page: str) -> None:
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert len(scripts) == 1
    assert policy is not None
    assert policy[1].startswith("default-src 'none';")
    assert f"script-src 'sha256-{digest}';" in policy[1]
    assert not re.findall(r"\s(?:src|srcset|action|on\w+)=", page.split("<script", maxsplit=1)[0])
    assert re.findall(r'href="([^"]*)"', page.split("<script", maxsplit=1)[0]) == [
        "#list", "index.html", "index.html",
    ]  # fmt: skip
    assert "innerHTML" not in page
    assert "@import" not in page
    assert "url(" not in page


def test_nothing_hostile_leaves_the_packed_data(page: str) -> None:
    assert not set("\x00\x07\x1b\u202e\u2028") & set(page)
    assert "<script>alert" not in page
    texts = data_of(page)["values-0"]["texts"]
    assert texts[0] == "<script>alert('query')</script>"
    assert "⟨U+202E⟩" in texts[2]
    assert "�" in texts[3]


def test_a_link_holds_what_it_names_and_nothing_else() -> None:
    hostile = 'a&b="<x>" #%\ud800\u202e'
    link = explore_link("mail", "fts5", hostile, "q 1+2")
    page, state = link.split("#", maxsplit=1)
    assert page == "explore.html"
    assert parse_qs(state) == {
        "d": ["mail"], "a": ["fts5"], "b": ['a&b="<x>" #%\ufffd⟨U+202E⟩'], "q": ["q 1+2"],
    }  # fmt: skip
    assert not set('"<> +') & set(state)
    assert "q=" not in explore_link("mail", "a", "b")


ARMS = ("tantivy-default", "hybrid-rrf")


def apart(**change: Any) -> Apart:  # noqa: ANN401  any field
    report = report_inputs.report()
    sides = [report.arms[arm].scores["nDCG@10"].by_query for arm in ARMS]
    ids = [query_id for query_id in ("q09", "q02") if all(query_id in side for side in sides)]
    values = {q: (for_json(sides[0][q]), for_json(sides[1][q])) for q in ids}
    steps = {q: ((0.1 * at, 0.0), (-0.2, 0.05)) for at, q in enumerate(ids)}
    made = Apart(*ARMS, "nDCG@10", ("lexical", "fused"), values, steps)  # type: ignore[arg-type]
    return replace(made, **change)


def test_the_steps_of_each_query_stand_in_columns() -> None:
    (found,) = hits(replace(report_inputs.report(), apart=(apart(),))).apart
    assert (found.control, found.candidate, found.measure) == (1, 2, "nDCG@10")
    assert found.stages == ["lexical", "fused"]
    assert found.queries == [9, 2]
    assert found.shown == [[0.0, 0.1], [-0.2, -0.2]]
    assert found.order == [[0.0, 0.0], [0.05, 0.05]]


OTHERS: list[dict[str, Any]] = [
    {"values": {"q09": (0.123, 0.456)}}, {"values": {"gone": (0.1, 0.2)}},
    {"candidate": "gone"}, {"measure": "AP"},
]  # fmt: skip


@pytest.mark.parametrize("change", OTHERS, ids=["value", "query", "arm", "measure"])
def test_what_no_longer_holds_is_left_out(change: dict[str, Any]) -> None:
    report = report_inputs.report()
    assert holds(report, apart())
    assert not holds(report, apart(**change))
    assert stages(replace(report, apart=(apart(**change),))) == []
