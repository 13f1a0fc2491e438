"""Rankings, judgements and times of the explorer are those of the runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np
import pytest

from harness.core.records import Document
from harness.core.run import Row, Run, Status
from harness.report.explorer import EXCERPT, Hits, hits
from harness.report.inputs import ReportInput
from harness.report.page.queries import DEPTH
from tests.make import report_inputs


@pytest.fixture(scope="module")
def report() -> ReportInput:
    return report_inputs.report()


@pytest.fixture(scope="module")
def found(report: ReportInput) -> Hits:
    return hits(report)


def rows(lengths: list[int], flat: list[int]) -> list[list[int]]:
    ends = list(accumulate(lengths, initial=0))
    return [flat[low:high] for low, high in pairwise(ends)]


def test_the_first_ten_of_every_arm(report: ReportInput, found: Hits) -> None:
    for side, shown in zip(report.arms.values(), found.shown, strict=True):
        for query_id, row in zip(report.queries, rows(shown.lengths, shown.docs), strict=True):
            assert tuple(found.ids[doc] for doc in row) == side.run.ranking(query_id, 10)
        assert shown.found == side.run.lengths.tolist()


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
    report: ReportInput, found: Hits
) -> None:
    listed = rows(found.lengths, list(range(len(found.judged))))
    for query_id, row in zip(report.queries, listed, strict=True):
        grades = report.qrels.grades[query_id]
        seen = {d for side in report.arms.values() for d in side.run.ranking(query_id, 10)}
        told = {found.ids[found.judged[at]]: found.grades[at] for at in row}
        assert told == {d: g for d, g in grades.items() if g > 0 or d in seen}
        for side, shown in zip(report.arms.values(), found.shown, strict=True):
            ranking = side.run.ranking(query_id)
            for at in row:
                doc_id = found.ids[found.judged[at]]
                rank = ranking.index(doc_id) + 1 if doc_id in ranking else 0
                assert shown.ranks[at] == rank


def test_each_document_is_stored_once_and_cut(found: Hits) -> None:
    assert len(found.ids) == len(set(found.ids)) == len(found.texts) == len(found.titles)
    texts = [text for text in found.texts if text is not None]
    assert max(map(len, texts)) == EXCERPT
    assert found.texts[found.ids.index("d007")] is None


def test_documents_are_asked_for_once(report: ReportInput) -> None:
    asked: list[frozenset[str]] = []

    def documents(ids: frozenset[str]) -> Mapping[str, Document]:
        asked.append(ids)
        return {}

    found = hits(replace(report, documents=documents))
    assert asked == [frozenset(found.ids)]
    assert set(found.texts) == {None}


def test_a_failure_is_told_in_words(found: Hits) -> None:
    hybrid = found.shown[2]
    assert hybrid.instead[5].startswith("failed: disk I/O <b>error</b> | ␀")
    assert hybrid.instead[11] == "found nothing"
    assert sorted(hybrid.instead) == [5, 11]


def test_late_and_never_asked_are_not_the_same(report: ReportInput) -> None:
    run = Run.of("fts5-default", [Row("q00", Status.TIMED_OUT), Row("q01", Status.NOT_ASKED)])
    side = replace(report.arms["fts5-default"], run=run)
    shown = hits(replace(report, arms={"fts5-default": side})).shown[0]
    assert [shown.instead[at] for at in (0, 1, 2)] == [
        "timed out",
        "was not asked",
        "was not asked",
    ]
    assert len(shown.found) == len(report.queries)
    assert shown.deeper == []


def test_times_are_medians_of_arms_that_were_verified(report: ReportInput, found: Hits) -> None:
    assert report.latency is not None
    race = report.latency.race
    assert [one.arm for one in found.times] == [0, 1]
    assert found.unverified == [2]
    first, second = found.times
    times = race.elapsed_ns["fts5-default"]
    assert first.median == [int(value) for value in np.median(times, axis=0)]
    assert first.low == times.min(axis=0).tolist()
    assert first.high == times.max(axis=0).tolist()
    again = [int(v) for v in np.median(race.repeated_ns["fts5-default"], axis=0)]
    assert first.again == again + [0] * (len(first.median) - len(again))
    assert len(second.again) == len(second.median)
    assert first.processes == 4


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


def test_without_a_race_there_is_no_time(report: ReportInput) -> None:
    found = hits(replace(report, latency=None))
    assert (found.times, found.unverified, found.machine) == ([], [], "")
