"""Engines that know nothing."""

from __future__ import annotations

from harness.core.engine import Hit
from harness.core.run import Row, Run, Status
from harness.policy.selftest.planted import popular, shuffled


def run(**rankings: str) -> Run:
    return Run.of(
        "fts5",
        [
            Row(query, Status.ANSWERED, tuple(Hit(doc, 0.5, 1.0) for doc in shown), "me")
            for query, shown in rankings.items()
        ],
    )


RUN = run(q1="ab", q2="bc", q3="bd", q4="e")


def test_no_query_keeps_its_own_answer_and_none_is_lost() -> None:
    for seed in range(20):
        found = shuffled(RUN, seed=seed)
        assert found.query_ids == RUN.query_ids
        shown = [found.ranking(query) for query in RUN.query_ids]
        own = [RUN.ranking(query) for query in RUN.query_ids]
        assert sorted(shown) == sorted(own)
        assert all(mine != theirs for mine, theirs in zip(own, shown, strict=True))
    assert [*shuffled(RUN, seed=1).rows()] == [*shuffled(RUN, seed=1).rows()]


def test_what_is_shown_most_is_shown_to_all() -> None:
    found = popular(RUN)
    assert {found.ranking(query) for query in RUN.query_ids} == {("b", "a")}
    assert found.arm == "popular"


def test_a_query_that_failed_stays_a_failure() -> None:
    row = Row("q1", Status.FAILED, error="no")
    assert popular(Run.of("fts5", [row])).count(Status.FAILED) == 1
