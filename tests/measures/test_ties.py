"""Ties: expected values, and values under every order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.run import Status
from harness.measures import kernels
from harness.measures.columns import EncodedQrels
from harness.measures.kernels import Graded, MeasureSpec
from harness.measures.name import parse
from harness.measures.quality import score
from harness.measures.ties import Tied, count_ties, expected, tie_sensitivity
from tests.make.runs import qrels_of, random_case, run_of
from tests.measures.test_kernels import CUT, EITHER, WHOLE

NAMES = (*(f"{name}@{k}" for name, k in product((*CUT, *EITHER), (1, 2, 4))), *EITHER, *WHOLE)
ASKED = {name: asked for name in NAMES if (asked := MeasureSpec.of(parse(name)))}
DOCUMENTS = "abcdefg"


def orders(ranking: Sequence[str], levels: Sequence[float]) -> Iterator[list[str]]:
    """Every order of the documents in which the scores still fall."""
    ties = [
        [doc for _, doc in group]
        for _, group in groupby(zip(levels, ranking, strict=True), lambda pair: pair[0])
    ]
    for parts in product(*(permutations(tie) for tie in ties)):
        yield list(chain.from_iterable(parts))


def graded_of(ranking: Sequence[str], grades: Mapping[str, int]) -> Graded:
    return Graded.of(run_of({"q": ranking}), EncodedQrels.of(qrels_of({"q": grades})))


@settings(deadline=None, max_examples=25)
@given(
    levels=st.lists(st.integers(0, 2), min_size=1, max_size=5),
    grades=st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-1, 3), min_size=1),
)
def test_least_mean_and_largest_are_those_over_all_orders(
    levels: list[int], grades: dict[str, int]
) -> None:
    falling = [float(level) for level in sorted(levels, reverse=True)]
    ranking = DOCUMENTS[: len(levels)]
    run = run_of({"q": ranking}, scores={"q": falling})
    graded = Graded.of(run, EncodedQrels.of(qrels_of({"q": grades})))
    tied = Tied.of(run, graded)
    every = [graded_of(order, grades) for order in orders(ranking, falling)]
    for name, asked in ASKED.items():
        values = [kernels.evaluate(one, asked)[0] for one in every]
        seen = tied.condensed(lowest=0) if asked.judged_only else tied
        least, most = (
            kernels.evaluate(seen.ordered(asked, best=best), asked)[0] for best in (False, True)
        )
        assert least == pytest.approx(min(values), abs=1e-12), name
        assert most == pytest.approx(max(values), abs=1e-12), name
        assert expected(tied, asked)[0] == pytest.approx(np.mean(values), abs=1e-12), name


def test_queries_do_not_touch_each_other() -> None:
    """Ties end where a query ends, though the scores go on."""
    rankings = {"p": "xab", "q": "bax", "r": "abx"}
    run = run_of({**rankings, "none": ""}, scores={q: [1.0, 1.0, 1.0] for q in "pqr"})
    grades = {"a": 2, "b": 1}
    qrels = EncodedQrels.of(qrels_of(dict.fromkeys(("r", "q", "p", "absent", "none"), grades)))
    tied = Tied.of(run, Graded.of(run, qrels))
    alone = run_of({"q": "xab"}, scores={"q": [1.0, 1.0, 1.0]})
    one = Tied.of(alone, Graded.of(alone, EncodedQrels.of(qrels_of({"q": grades}))))
    for asked in ASKED.values():
        wanted = expected(one, asked)[0]
        found = dict(zip(qrels.query_ids, expected(tied, asked).tolist(), strict=True))
        assert [found[q] for q in "pqr"] == pytest.approx([wanted] * 3, abs=1e-12)
        assert found["absent"] == found["none"] == 0


def test_without_ties_all_three_are_the_value() -> None:
    run = run_of({"q": "abcdefg"})
    graded = Graded.of(run, EncodedQrels.of(qrels_of({"q": {"b": 1, "e": 3, "f": 0, "z": 2}})))
    tied = Tied.of(run, graded)
    for asked in ASKED.values():
        seen = tied.condensed(lowest=0) if asked.judged_only else tied
        value = kernels.evaluate(graded, asked)[0]
        assert expected(tied, asked)[0] == pytest.approx(value, abs=1e-12)
        for best in (False, True):
            assert kernels.evaluate(seen.ordered(asked, best=best), asked)[0] == value


def test_a_thousand_tied_documents() -> None:
    """RR of one relevant document among n in random order is H(n) / n."""
    ranking = [f"d{at}" for at in range(1000)]
    run = run_of({"q": ranking}, scores={"q": [0.5] * 1000})
    graded = Graded.of(run, EncodedQrels.of(qrels_of({"q": {"d7": 1}})))
    found = expected(Tied.of(run, graded), ASKED["RR"])[0]
    assert found == pytest.approx(sum(1 / n for n in range(1, 1001)) / 1000, abs=1e-12)


QRELS = qrels_of({"q": {"c": 1}, "p": {"a": 1}, "negative": {"a": 0}})


def test_ties_are_counted_within_answered_queries() -> None:
    run = run_of(
        {"q": "abcd", "p": "ab", "broke": "ab", "none": ""},
        ended={"broke": Status.FAILED},
        scores={"q": [2.0, 1.0, 1.0, 1.0], "p": [1.0, 0.5], "broke": [1.0, 1.0]},
    )
    found = count_ties(run)
    assert (found.hits, found.tied, found.only_float64) == (6, 3, 0)
    assert found.share == 0.5
    assert count_ties(run_of({})).share is None


def test_c04_what_only_float64_tells_apart_is_counted() -> None:
    """1 + 1e-9 is 1 in float32: no tie here, and one for a reader that keeps scores shorter."""
    run = run_of({"q": "abc"}, scores={"q": [1 + 1e-9, 1.0, 0.5]})
    found = count_ties(run)
    assert (found.tied, found.only_float64) == (0, 2)
    large = count_ties(run_of({"q": "ab"}, scores={"q": [2e300, 1e300]}))
    assert (large.tied, large.only_float64) == (0, 2)


def test_the_three_means_of_a_tie() -> None:
    run = run_of(
        {"q": "abc", "p": "ab", "negative": "ab"},
        scores={"q": [1.0, 1.0, 1.0], "p": [2.0, 1.0], "negative": [1.0, 1.0]},
    )
    found = tie_sensitivity(run, QRELS, ("RR@10", "ERR@10"), run.query_ids)
    assert list(found) == ["RR@10"]
    spread = found["RR@10"]
    assert spread.least.by_query == {"q": pytest.approx(1 / 3), "p": 1.0}
    assert spread.expected.by_query == {"q": pytest.approx((1 + 1 / 2 + 1 / 3) / 3), "p": 1.0}
    assert spread.most.by_query == {"q": 1.0, "p": 1.0}
    assert spread.most.undefined == {"negative_query": ("negative",)}


def test_without_ties_there_is_nothing_between() -> None:
    run, qrels = random_case(2)
    value = score(run, qrels, ("nDCG@10",), run.query_ids)["nDCG@10"].by_query
    spread = tie_sensitivity(run, qrels, ("nDCG@10",), run.query_ids)["nDCG@10"]
    assert spread.least.by_query == spread.most.by_query == value
    assert spread.expected.by_query == pytest.approx(value, abs=1e-12)
