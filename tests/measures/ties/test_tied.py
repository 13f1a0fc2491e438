"""Ties against all orders of small rankings, one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.measures import kernels
from harness.measures.columns import EncodedQrels
from harness.measures.kernels import Graded, MeasureSpec
from harness.measures.name import parse
from harness.measures.ties import Tied, expected
from tests.make.runs import qrels_of, run_of
from tests.measures.columnar.test_kernels import CUT, EITHER, WHOLE

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
