"""Kernels of measures, and ties."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby, permutations, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.core.run import Status
from harness.core.scores import Scores
from harness.corpus import trec
from harness.measures import kernels
from harness.measures.columns import EncodedQrels
from harness.measures.kernels import Graded, MeasureSpec
from harness.measures.name import parse
from harness.measures.quality import oracle, score
from harness.measures.ties import Tied, count_ties, expected, tie_sensitivity
from tests.make.runs import qrels_of, random_case, run_of

CUT = (
    "P", "P(rel=3)", "P(judged_only=True)", "R", "R(rel=2)", "R(judged_only=True)", "Success",
    "Success(rel=2)", "Success(judged_only=True)",
)  # fmt: skip
EITHER = (
    "nDCG", "nDCG(dcg='exp-log2')", "nDCG(gains={1: 9, 2: 3, 3: -1})", "nDCG(judged_only=True)",
    "RR", "RR(rel=2)", "AP", "AP(rel=2)", "AP(judged_only=True)", "Judged",
)  # fmt: skip
WHOLE = (
    "Rprec", "Rprec(rel=2)", "Rprec(judged_only=True)", "NumRet", "NumRet(rel=2)",
    "RR(judged_only=True)",
)  # fmt: skip
CUTOFFS = (1, 3, 10, 100)
NAMES = (*(f"{name}@{k}" for name, k in product((*CUT, *EITHER), CUTOFFS)), *EITHER, *WHOLE)
REAL = ("cranfield", "r-mailing-lists", "scifact")


def check_equal(found: Mapping[str, Scores], wanted: Mapping[str, Scores]) -> None:
    for name in NAMES:
        assert found[name].by_query == wanted[name].by_query, name
        assert found[name].undefined == wanted[name].undefined, name


@pytest.mark.slow
@pytest.mark.parametrize("lowest", [0, -1, -3])
def test_equals_ir_measures_to_the_last_bit(lowest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums run down the ranks as in trec_eval; 1e-12 would do, and this catches more."""
    assert [name for name in NAMES if MeasureSpec.of(parse(name)) is None] == []
    for seed in range(3):
        run, qrels = random_case(seed, lowest=lowest)
        theirs = oracle(run, qrels, NAMES, run.query_ids)
        for block in (kernels.BLOCK, 7):
            monkeypatch.setattr(kernels, "BLOCK", block)
            check_equal(score(run, qrels, NAMES, run.query_ids), theirs)


def test_equals_ir_measures_where_queries_are_missing_fail_or_are_negative() -> None:
    run = run_of(
        {"good": ["a", "x", "b"], "empty": [], "broke": ["a"], "negative": ["a"], "free": ["a"]},
        ended={"broke": Status.FAILED},
    )
    grades = {"a": 2, "b": 1}
    judged = dict.fromkeys(("good", "empty", "broke", "absent"), grades) | {"negative": {"a": 0}}
    asked = (*run.query_ids, "absent")
    check_equal(*(f(run, qrels_of(judged), NAMES, asked) for f in (score, oracle)))


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_equals_ir_measures_on_real_judgements(name: str, datasets: Path, tmp_path: Path) -> None:
    lines = min((datasets / name).glob("qrels/*.tsv")).read_text().splitlines()[1:]
    (tmp_path / "qrels").write_text("".join("{} 0 {} {}\n".format(*x.split("\t")) for x in lines))
    qrels = trec.qrels(tmp_path / "qrels")
    rng = np.random.default_rng(7)
    documents = sorted({doc for docs in qrels.grades.values() for doc in docs})
    shown = {
        q: list(dict.fromkeys([*list(docs)[::2], *rng.permutation(documents)[:40].tolist()]))
        for q, docs in qrels.grades.items()
    }
    run = run_of({q: rng.permutation(docs).tolist() for q, docs in shown.items()})
    ours, theirs = (f(run, qrels, NAMES, qrels.query_ids) for f in (score, oracle))
    assert 0 < (ours["nDCG@10"].mean or 0) < 1
    check_equal(ours, theirs)


def test_who_was_not_answered_or_not_asked_shows_nothing() -> None:
    run = run_of({"broke": ["a"], "good": ["x", "a"]}, ended={"broke": Status.FAILED})
    qrels = qrels_of({q: {"a": 2} for q in ("absent", "broke", "good")})
    found = Graded.of(run, EncodedQrels.of(qrels))
    assert (found.row.tolist(), found.rank.tolist(), found.grade.tolist()) == ([2], [1], [2])
    assert found.lengths.tolist() == [0, 0, 2]


NAMES_TIES = (*(f"{name}@{k}" for name, k in product((*CUT, *EITHER), (1, 2, 4))), *EITHER, *WHOLE)
ASKED = {name: asked for name in NAMES_TIES if (asked := MeasureSpec.of(parse(name)))}
DOCUMENTS = "abcdefg"


def orders(ranking: Sequence[str], levels: Sequence[float]) -> Iterator[list[str]]:
    """Every order of the documents in which the scores still fall."""
    ties = [
        [doc for _, doc in group]
        for _, group in groupby(zip(levels, ranking, strict=True), lambda pair: pair[0])
    ]
    for parts in product(*(permutations(tie) for tie in ties)):
        yield list(chain.from_iterable(parts))


@settings(deadline=None, max_examples=20)
@example(levels=[0, 0], grades={DOCUMENTS[0]: 0, DOCUMENTS[1]: 1})
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
    qrels = EncodedQrels.of(qrels_of({"q": grades}))
    tied = Tied.of(run, Graded.of(run, qrels))
    every = [Graded.of(run_of({"q": order}), qrels) for order in orders(ranking, falling)]
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


def test_a_thousand_tied_documents() -> None:
    """RR of one relevant document among n in random order is H(n) / n."""
    ranking = [f"d{at}" for at in range(1000)]
    run = run_of({"q": ranking}, scores={"q": [0.5] * 1000})
    graded = Graded.of(run, EncodedQrels.of(qrels_of({"q": {"d7": 1}})))
    found = expected(Tied.of(run, graded), ASKED["RR"])[0]
    assert found == pytest.approx(sum(1 / n for n in range(1, 1001)) / 1000, abs=1e-12)


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
    qrels = qrels_of({"q": {"c": 1}, "p": {"a": 1}, "negative": {"a": 0}})
    found = tie_sensitivity(run, qrels, ("RR@10", "ERR@10"), run.query_ids)
    assert list(found) == ["RR@10"]
    spread = found["RR@10"]
    assert spread.least.by_query == {"q": pytest.approx(1 / 3), "p": 1.0}
    assert spread.expected.by_query == {"q": pytest.approx((1 + 1 / 2 + 1 / 3) / 3), "p": 1.0}
    assert spread.most.by_query == {"q": 1.0, "p": 1.0}
    assert spread.most.undefined == {"negative_query": ("negative",)}
