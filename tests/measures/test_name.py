"""Names of measures, their columns and their decomposition."""

from collections.abc import Sequence
from itertools import pairwise

import ir_measures
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.core.errors import DatasetError, HarnessError, UnknownName
from harness.core.records import Qrels
from harness.measures import name as names
from harness.measures.columns import EncodedQrels, Lookup, repeats
from harness.measures.decompose import decompose, decompose_way
from harness.measures.quality import score
from tests.make.runs import qrels_of, run_of


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("nDCG@10", ir_measures.nDCG @ 10),
        ("MRR@10", ir_measures.RR @ 10),
        ("P(rel=2)@5", ir_measures.P(rel=2) @ 5),
        ("AP", ir_measures.AP),
        ("nDCG(dcg='exp-log2')", ir_measures.nDCG(dcg="exp-log2")),
        ("nDCG(gains={0: 0, 1: 3}, judged_only=True)@3", None),
        ("IPrec@0.1", ir_measures.IPrec @ 0.1),
        ("Bpref", ir_measures.Bpref),
    ],
)
def test_reads_what_ir_measures_writes(name: str, wanted: ir_measures.Measure | None) -> None:
    if wanted is None:
        wanted = ir_measures.nDCG(gains={0: 0, 1: 3}, judged_only=True) @ 3
    assert names.parse(name) == wanted
    assert names.parse(name).params == wanted.params


UNKNOWN = "|nDCG@0|nDCG@True|P(relevance=2)@5|AP(rel=0)@10|nDCG(gains={0: 0.5})@10"


@pytest.mark.parametrize("name", [*UNKNOWN.split("|"), "__import__('os').getcwd()"])
def test_an_unknown_name_lists_the_common_ones_and_a_hint(name: str) -> None:
    with pytest.raises(UnknownName) as caught:
        names.parse(name)
    message = str(caught.value)
    assert repr(name) in message
    assert all(common in message for common in names.COMMON)
    assert "Measure(key=value)@cutoff" in message


@pytest.mark.parametrize(
    "name", ["alpha_nDCG@10", "\u03b1_nDCG(alpha=0.5)@5", "ERR_IA@20", "MAP_IA", "P_IA@5"]
)
def test_a_measure_over_subtopics_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(HarnessError, match="needs judgements by subtopic") as told:
        names.parse(name)
    assert str(told.value).startswith(name)


def test_exponential_gains_are_written_out() -> None:
    measure = names.as_gains(ir_measures.nDCG(dcg="exp-log2") @ 10, (-1, 0, 1, 2, 3))
    assert measure.params == {"gains": {-1: 0, 0: 0, 1: 1, 2: 3, 3: 7}, "cutoff": 10}


def test_given_gains_are_kept_and_never_negative() -> None:
    measure = names.as_gains(ir_measures.nDCG(gains={1: 5, 2: -3}), (0, 1, 2, 3))
    assert measure.params == {"gains": {0: 0, 1: 5, 2: 0, 3: 3}}


@pytest.mark.parametrize(
    ("measure", "grade"),
    [
        (ir_measures.nDCG @ 10, names.LARGEST + 1),
        (ir_measures.AP, names.LARGEST + 1),
        (ir_measures.nDCG(dcg="exp-log2"), 21),
        (ir_measures.nDCG(gains={1: names.LARGEST + 1}), 1),
    ],
)
def test_gains_that_trec_eval_miscounts_are_refused(
    measure: ir_measures.Measure, grade: int
) -> None:
    with pytest.raises(DatasetError, match="smaller integers"):
        names.as_gains(measure, (0, grade))
    names.as_gains(ir_measures.nDCG(dcg="exp-log2"), (0, 20))


@pytest.mark.parametrize(
    ("measure", "loss", "said"),
    [
        ("nDCG@10", 0.02, "one query in 50 loses its whole first page"),
        ("nDCG@20", 0.03, "about one query in 33 loses its whole first 20"),
        ("AP", 0.05, "one query in 20 loses its whole list"),
        ("RR@10", 0.02, "one query in 25 has its first relevant document at rank 2, not 1"),
        ("R@50", 0.02, "one relevant document in 50 is no longer in the first 50"),
        ("Success@5", 0.1, "one query in 10 has no relevant document left in its first 5"),
        ("P@10", 0.02, "one query in 5 has one relevant document less in 10"),
        ("Judged@10", 0.1, "each query has 1 judged document less in 10"),
        ("Empty@10", 0.2, "each query has 2 empty places less in 10"),
        ("nDCG@10", 0.8, "about every query loses its whole first page"),
        ("infAP", 0.02, "one query in 50 loses all of its infAP"),
    ],
)
def test_a_loss_is_said_as_queries(measure: str, loss: float, said: str) -> None:
    assert names.loss_in_words(measure, loss) == said


@pytest.mark.parametrize(
    ("measure", "before", "after", "queries", "loss"),
    [
        ("nDCG@10", "r", "x", 50, 0.02),
        ("RR@10", "rx", "xr", 25, 0.02),
        ("P@10", "rx", "yx", 5, 0.02),
    ],
)
def test_the_words_cost_the_margin(
    measure: str, before: str, after: str, queries: int, loss: float
) -> None:
    """One query in so many changes as the words say, and the mean falls by the margin."""
    ids = [f"q{at:02}" for at in range(queries)]
    old, new = (run_of(dict.fromkeys(ids, before) | {"q00": last}) for last in (before, after))
    qrels = qrels_of({query: {"r": 1} for query in ids})
    means = [score(run, qrels, (measure,), ids)[measure].values.mean() for run in (old, new)]
    assert means[0] - means[1] == pytest.approx(loss)


SHARES = "nDCG@10 nDCG(dcg='exp-log2')@10 RR(rel=2)@10 AP Jaccard@50 nDCG@10-of-serving"


@pytest.mark.parametrize(
    ("measures", "span", "of_difference"),
    [
        (SHARES, (0.0, 1.0), (-1.0, 1.0)),
        ("tau tauAP", (-1.0, 1.0), (-2.0, 2.0)),
        ("NumRet length_difference serving_only@10", None, None),
    ],
    ids=["share", "correlation", "count"],
)
def test_a_share_and_a_correlation_have_a_span_and_a_count_has_none(
    measures: str, span: tuple[float, float] | None, of_difference: tuple[float, float] | None
) -> None:
    for measure in measures.split():
        assert names.span_of(measure) == span, measure
        assert names.span_of_difference(measure) == of_difference, measure


def test_a_pair_that_comes_twice_is_refused() -> None:
    ones = np.ones(3, dtype=np.int32)
    with pytest.raises(DatasetError, match="b is judged twice for query p"):
        EncodedQrels.of_columns(("q", "p"), ("a", "b"), np.array([0, 1, 1]), ones, ones)


def test_pairs_without_a_slot_are_searched_for() -> None:
    docs = np.arange(3000, dtype=np.int32)
    lookup = Lookup.of(np.zeros(3000, dtype=np.int64), docs, 900)
    assert len(lookup.keys) > 0
    asked = np.array([2999, 5, 4000, 17], dtype=np.int32)
    place, pair = lookup.find(np.array([0, 0, 0, 1]), asked)
    assert (place.tolist(), pair.tolist()) == ([0, 1], [2999, 5])


ROWS = st.lists(st.lists(st.integers(0, 12), max_size=9), max_size=9)


@example(rows=[[1, 2, 1], *([] for _ in range(99))])
@given(ROWS)
def test_it_says_what_sets_say(rows: list[list[int]]) -> None:
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    found = repeats(np.array([code for row in rows for code in row], dtype=np.int32), offsets)
    assert found == any(len(set(row)) < len(row) for row in rows)


RANKING = st.lists(st.sampled_from("abcdefghij"), max_size=8, unique=True)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    old=RANKING, new=RANKING, good=st.dictionaries(st.sampled_from("abcdefghij"), st.integers(0, 3))
)
def test_the_parts_of_any_two_rankings(
    old: list[str], new: list[str], good: dict[str, int]
) -> None:
    qrels = qrels_of({"q": {"elsewhere": 1, **good}})
    control, candidate = run_of({"q": old}), run_of({"q": new})
    parts = decompose(control, candidate, qrels, "nDCG@5", ["q"])
    values = [score(r, qrels, ["nDCG@5"], ["q"])["nDCG@5"].values for r in (control, candidate)]
    np.testing.assert_allclose(parts.total, values[1] - values[0], rtol=0, atol=1e-12)
    back = decompose(candidate, control, qrels, "nDCG@5", ["q"])
    assert back.shown == pytest.approx(-parts.shown, rel=0, abs=1e-12)
    assert back.order == pytest.approx(-parts.order, rel=0, abs=1e-12)
    if set(old[:5]) == set(new[:5]):
        assert parts.shown[0] == 0
    if [d for d in old[:5] if d in new[:5]] == [d for d in new[:5] if d in old[:5]]:
        assert parts.order[0] == 0


def test_what_entered_is_told_from_what_rose() -> None:
    """RR@2: b rises from 2 to 1, or enters there."""
    qrels = qrels_of({"q": {"b": 1}})
    rose = decompose(run_of({"q": "ab"}), run_of({"q": "ba"}), qrels, "RR@2", ["q"])
    assert (rose.shown[0], rose.order[0]) == (0, 0.5)
    entered = decompose(run_of({"q": "ac"}), run_of({"q": "bc"}), qrels, "RR@2", ["q"])
    assert (entered.shown[0], entered.order[0]) == (1, 0)


def one_at_a_time(old: list[str], new: list[str], qrels: Qrels) -> tuple[float, float]:
    """Return shown and order by going both ways by hand, on plain lists."""

    def value(docs: Sequence[str]) -> float:
        return float(score(run_of({"q": docs}), qrels, ["nDCG@5"], ["q"])["nDCG@5"].values[0])

    def in_order_of(docs: list[str], other: list[str]) -> list[str]:
        shared = [d for d in other if d in docs]
        return [shared.pop(0) if d in other else d for d in docs]

    old, new = old[:5], new[:5]
    first_shown = value(in_order_of(new, old)) - value(old)
    first_order = value(in_order_of(old, new)) - value(old)
    shown = (first_shown + value(new) - value(in_order_of(old, new))) / 2
    return shown, (first_order + value(new) - value(in_order_of(new, old))) / 2


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    rankings=st.lists(RANKING, min_size=2, max_size=5),
    good=st.dictionaries(st.sampled_from("abcdefghij"), st.integers(0, 3)),
)
def test_all_parts_of_a_way_sum_to_the_difference(
    rankings: list[list[str]], good: dict[str, int]
) -> None:
    qrels = qrels_of({"q": {"elsewhere": 1, **good}})
    control, *way = (run_of({"q": ranking}) for ranking in rankings)
    parts = decompose_way(control, way, qrels, "nDCG@5", ["q"])
    ends = [score(run, qrels, ["nDCG@5"], ["q"])["nDCG@5"].values for run in (control, way[-1])]
    total = sum(part.total[0] for part in parts)
    np.testing.assert_allclose(total, (ends[1] - ends[0])[0], rtol=0, atol=1e-12)
    by_hand = [one_at_a_time(old, new, qrels) for old, new in pairwise(rankings)]
    assert [(part.shown[0], part.order[0]) for part in parts] == [
        pytest.approx(pair, rel=0, abs=1e-12) for pair in by_hand
    ]


def test_the_step_that_did_it_is_named() -> None:
    """The words lose b, the fusion brings it back below, and the reranker lifts it."""
    qrels = qrels_of({"q": {"b": 1}})
    way = [run_of({"q": docs}) for docs in ("ac", "ab", "ba")]
    parts = decompose_way(run_of({"q": "ba"}), way, qrels, "RR@2", ["q"])
    assert [(part.shown[0], part.order[0]) for part in parts] == [(-1, 0), (0.5, 0), (0, 0.5)]


def test_a_floor_is_said_as_shared_documents() -> None:
    assert names.floor_in_words("Jaccard@50", 0.8) == "of 50 documents in each list 44.4 are shared"
    assert names.floor_in_words("RBO", 0.8) == "each query agrees to 0.8"
    assert names.one_in(0.01, "query") == "one query in 100"
