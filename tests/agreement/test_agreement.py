"""Agreement of two runs, against formulas and worked values."""

from collections.abc import Sequence

import ir_measures
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from harness import agreement
from harness.agreement import ABSENT, Class, ComparisonTally, Discordance, RankPair, agree, tally
from harness.core.errors import EvidenceError, HarnessError, MismatchedQueries
from harness.core.run import Run, Status
from tests.agreement import reference
from tests.agreement.reference import depths, found, pair_of, rankings, shared_ranks
from tests.make.runs import random_case, run_of

CONTROL = run_of({"p": ["a", "b", "c"], "q": [], "r": ["z"]}, "control")
CANDIDATE = run_of({"r": ["m", "z"], "q": ["a"], "p": ["c", "x", "a"]}, "candidate")


def test_matches_by_query_and_document_whatever_the_order() -> None:
    pair = RankPair.of(CONTROL, CANDIDATE)
    assert pair.query_ids == ("p", "q", "r")
    assert pair.candidate_rows.tolist() == [2, 1, 0]
    assert pair.control_length.tolist() == [3, 0, 1]
    assert pair.candidate_length.tolist() == [3, 1, 2]
    assert pair.rank.tolist() == [[2, ABSENT, 0], [ABSENT] * 3, [1, ABSENT, ABSENT]]


def test_a_cut_takes_both_lists_to_the_same_depth() -> None:
    pair = RankPair.of(CONTROL, CANDIDATE)
    assert pair.shared(3).tolist() == [2, 0, 1]
    assert pair.shared(2).tolist() == [0, 0, 1]
    assert pair.within(1).tolist() == [[ABSENT]] * 3
    assert [lengths.tolist() for lengths in pair.lengths(2)] == [[2, 0, 1], [2, 1, 2]]


def test_other_queries_are_refused() -> None:
    with pytest.raises(MismatchedQueries, match="1 query only on the left, 0 only on the right"):
        RankPair.of(CONTROL, run_of({"p": [], "q": []}))
    with pytest.raises(MismatchedQueries, match="0 queries only on the left, 1 only on the right"):
        RankPair.of(run_of({"p": [], "q": []}), CONTROL)


def classes(control: Run, candidate: Run, depth: int = 10) -> tuple[Class, ...]:
    pair = RankPair.of(control, candidate)
    return agreement.classify(control, candidate, pair, depth=depth, shed=(), stale=())


@pytest.mark.parametrize(
    ("a", "b", "depth", "wanted"),
    [
        ("", "", 10, Class.BOTH_EMPTY),
        ("", "a", 10, Class.SERVING_EMPTY),
        ("a", "", 10, Class.SHADOW_EMPTY),
        ("abc", "abc", 10, Class.EXACT),
        ("abc", "acb", 10, Class.REORDER),
        ("abc", "bacd", 10, Class.EXPANSION),
        ("abc", "ab", 10, Class.TRUNCATION),
        ("abc", "c", 10, Class.TRUNCATION),
        ("abc", "abx", 10, Class.OVERLAP),
        ("abc", "xyz", 10, Class.DISJOINT),
        ("abcd", "abdc", 2, Class.EXACT),
        ("abcd", "abdc", 3, Class.OVERLAP),
        ("abcd", "bacx", 3, Class.REORDER),
        ("abcd", "ab", 2, Class.EXACT),
        ("ab", "abcd", 3, Class.EXPANSION),
    ],
)
def test_how_two_lists_differ(a: str, b: str, depth: int, wanted: Class) -> None:
    """Only what lies within the depth counts."""
    assert classes(run_of({"q": a}), run_of({"q": b}), depth) == (wanted,)


@pytest.mark.parametrize(
    ("control", "candidate", "wanted"),
    [
        ([3, 2, 2, 1], [3, 2, 2, 1], Class.TIE_ORDER),
        ([3, 2, 2, 1], [9, 7, 7, 7], Class.TIE_ORDER),
        ([3, 2, 1, 0], [3, 2, 2, 1], Class.REORDER),
        ([3, 2, 2, 1], [3, 2, 1, 0], Class.REORDER),
        ([3, 3, 2, 2], [3, 3, 2, 2], Class.REORDER),
        ([2, 1, 2, 1], [2, 1, 2, 1], Class.REORDER),
    ],
)
def test_tie_order_is_a_move_among_equals_of_both_arms(
    control: list[float], candidate: list[float], wanted: Class
) -> None:
    a = run_of({"q": "abcd"}, scores={"q": control})
    b = run_of({"q": "acbd"}, scores={"q": candidate})
    assert classes(a, b) == (wanted,)
    a = run_of({"q": "abcd", "p": "abcd"}, scores={"q": control})
    b = run_of({"p": "abcd", "q": "acbd"}, scores={"q": candidate})
    assert classes(a, b) == (wanted, Class.EXACT), "beside another query"


@pytest.mark.parametrize(
    ("b", "control", "candidate", "wanted"),
    [
        ("abxy", [3, 2, 1, 1], [3, 2, 1, 1], Class.TIE_CUT),
        ("abcx", [3, 2, 1, 1], [9, 8, 0, 0], Class.TIE_CUT),
        ("baxy", [3, 3, 1, 1], [9, 9, 0, 0], Class.TIE_CUT),
        ("wxyz", [1, 1, 1, 1], [2, 2, 2, 2], Class.TIE_CUT),
        ("baxy", [3, 2, 1, 1], [3, 2, 1, 1], Class.OVERLAP),
        ("axcd", [3, 2, 1, 1], [3, 2, 1, 1], Class.OVERLAP),
        ("axyz", [3, 2, 1, 1], [3, 1, 1, 1], Class.OVERLAP),
        ("abxy", [3, 2, 1, 0], [3, 2, 1, 1], Class.OVERLAP),
        ("abcx", [4, 3, 2, 1], [4, 3, 2, 1], Class.OVERLAP),
        ("abx", [3, 2, 1, 1], [3, 1, 1], Class.OVERLAP),
    ],
)
def test_a_tie_at_the_cut_is_a_class_of_its_own(
    b: str, control: list[float], candidate: list[float], wanted: Class
) -> None:
    runs = run_of({"q": "abcd"}, scores={"q": control}), run_of({"q": b}, scores={"q": candidate})
    assert classes(*runs, depth=4) == (wanted,)


@pytest.mark.parametrize(
    ("control", "candidate", "wanted"),
    [
        (Status.FAILED, Status.ANSWERED, Class.ERROR),
        (Status.ANSWERED, Status.FAILED, Class.ERROR),
        (Status.FAILED, Status.FAILED, Class.ERROR),
        (Status.TIMED_OUT, Status.FAILED, Class.ERROR),
        (Status.TIMED_OUT, Status.ANSWERED, Class.TIMEOUT),
        (Status.ANSWERED, Status.TIMED_OUT, Class.TIMEOUT),
        (Status.ANSWERED, Status.NOT_ASKED, Class.SKIPPED),
        (Status.NOT_ASKED, Status.FAILED, Class.SKIPPED),
    ],
)
def test_an_arm_that_did_not_answer_is_no_empty_answer(
    control: Status, candidate: Status, wanted: Class
) -> None:
    a, b = (run_of({"q": []}, ended={"q": status}) for status in (control, candidate))
    assert classes(a, b) == (wanted,)


def test_shed_and_stale_queries_are_named_by_who_saw_them() -> None:
    run = run_of({"p": "ab", "q": "ab", "r": "ab"}, ended={"q": Status.FAILED})
    pair = RankPair.of(run, run)
    found = agreement.classify(run, run, pair, depth=10, shed=["q"], stale=["p", "q"])
    assert found == (Class.STALE, Class.SHED, Class.EXACT)
    with pytest.raises(EvidenceError, match="not in the runs"):
        agreement.classify(run, run, pair, depth=10, shed=["x"], stale=())


@settings(deadline=None)
@given(a=rankings, b=rankings)
def test_swapping_the_arms_mirrors_the_class(a: list[str], b: list[str]) -> None:
    mirror = {
        Class.EXPANSION: Class.TRUNCATION,
        Class.TRUNCATION: Class.EXPANSION,
        Class.SERVING_EMPTY: Class.SHADOW_EMPTY,
        Class.SHADOW_EMPTY: Class.SERVING_EMPTY,
    }
    (here,) = classes(run_of({"q": a}), run_of({"q": b}))
    (there,) = classes(run_of({"q": b}), run_of({"q": a}))
    assert there == mirror.get(here, here)


def test_a_skipped_comparison_is_not_an_equal_one() -> None:
    found = [Class.EXACT, Class.BOTH_EMPTY, Class.SKIPPED, Class.STALE, Class.TIMEOUT, Class.SHED]
    assert tally(found) == ComparisonTally(attempted=6, compared=2, errored=1, skipped=2, shed=1)


def test_counts_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(EvidenceError, match="does not add up"):
        tally(["exact", "equalish"])
    with pytest.raises(EvidenceError, match="does not add up"):
        ComparisonTally(attempted=3, compared=3, errored=0, skipped=1, shed=0)


OLD = run_of(
    {"same": "abc", "none": "", "lost": "ab", "new": "", "one": "abc", "broke": "abc", "slow": "a"},
    ended={"broke": Status.FAILED},
)
NEW = run_of(
    {"slow": "", "broke": "abc", "one": "cxy", "new": "a", "lost": "", "none": "", "same": "abc"},
    ended={"slow": Status.TIMED_OUT},
)


def test_values_and_reasons_of_the_worked_example() -> None:
    scores = agree(OLD, NEW, depths=(5, 10), p=0.9).scores
    left_out = {"both_empty": ("none",), "error": ("broke",), "timeout": ("slow",)}
    assert scores["Jaccard@5"].by_query == {"same": 1.0, "lost": 0.0, "new": 0.0, "one": 0.2}
    assert scores["Jaccard@5"].undefined == left_out
    assert scores["RBO"].undefined == left_out
    assert scores["tau"].by_query == {"same": 1.0}
    assert scores["tau"].undefined == left_out | {"below_two_shared": ("lost", "new", "one")}
    assert scores["nDCG@10-of-serving"].undefined == left_out | {"serving_empty": ("new",)}
    assert scores["nDCG@10-of-serving"].by_query["lost"] == 0.0
    assert scores["serving_only@10"].by_query == {"same": 0, "lost": 2, "new": 0, "one": 2}
    assert scores["length_difference"].by_query == {"same": 0, "lost": -2, "new": 1, "one": 0}


def test_shed_and_stale_queries_have_no_value() -> None:
    found = agree(OLD, OLD, depths=(10,), p=0.9, shed={"same"}, stale={"one"})
    assert found.scores["Jaccard@10"].query_ids == ("lost", "slow")
    assert found.scores["Jaccard@10"].undefined["shed"] == ("same",)
    assert found.scores["Jaccard@10"].undefined["stale"] == ("one",)
    counts = tally(found.classes)
    assert (counts.attempted, counts.compared, counts.errored) == (7, 4, 1)
    assert (counts.skipped, counts.shed) == (1, 1)


@settings(deadline=None)
@given(a=rankings, b=rankings, depth=depths)
def test_jaccard_is_the_formula_symmetric_and_between_0_and_1(
    a: list[str], b: list[str], depth: int
) -> None:
    here, there = agreement.jaccard(pair_of(a, b), depth), agreement.jaccard(pair_of(b, a), depth)
    if not a and not b:
        assert not here.defined.any()
        assert not len(here.values)
        return
    assert here.values.tolist() == there.values.tolist()
    assert here.values.tolist() == [pytest.approx(reference.jaccard(a[:depth], b[:depth]))]
    assert 0 <= here.values[0] <= 1
    cut_short = agreement.jaccard(pair_of(list("abcdefghij"), ["a", "b"]), 10)
    assert cut_short.values.tolist() == [0.2], "dividing by the shorter list would give 1"


def value(a: list[str], b: list[str], depth: int = 10, p: float = 0.9) -> float:
    return float(agreement.rbo(pair_of(a, b), depth, p).values[0])


@settings(deadline=None)
@given(a=rankings, b=rankings, depth=depths, p=st.floats(0.05, 0.99))
def test_rbo_is_the_formula_symmetric_and_between_0_and_1(
    a: list[str], b: list[str], depth: int, p: float
) -> None:
    here = agreement.rbo(pair_of(a, b), depth, p)
    if not a and not b:
        assert not here.defined.any()
        return
    assert here.values[0] == pytest.approx(reference.rbo(a[:depth], b[:depth], p), abs=1e-12)
    assert here.values[0] == pytest.approx(value(b, a, depth, p), abs=1e-15)
    assert 0 <= here.values[0] <= 1


def test_worked_example() -> None:
    """X = 0, 2, 2 at depths 1, 2, 3: 0.1 / 0.9 (0.81 + 2 / 3 0.729) + 2 / 3 0.729."""
    wanted = 0.1 / 0.9 * (0.81 + 2 / 3 * 0.729) + 2 / 3 * 0.729
    assert value(["a", "b", "c"], ["b", "a", "x"]) == pytest.approx(wanted, abs=1e-15)
    assert value(["a"], ["b"]) == value(["a"], []) == 0.0


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, 1.1, float("nan")])
def test_a_persistence_outside_0_and_1_is_refused(p: float) -> None:
    with pytest.raises(HarnessError, match="persistence"):
        agreement.rbo(pair_of(["a"], ["a"]), 10, p)


@settings(deadline=None)
@given(a=rankings, b=rankings, depth=depths)
def test_equals_scipy_and_is_undefined_below_two_shared(
    a: list[str], b: list[str], depth: int
) -> None:
    ours = agreement.tau(Discordance.of(pair_of(a, b), depth))
    ranks = shared_ranks(a[:depth], b[:depth])
    if len(ranks[0]) < 2:
        assert ours.defined.tolist() == [False]
        assert ours.values.tolist() == []
        return
    assert ours.values[0] == pytest.approx(kendalltau(*ranks, variant="b").statistic, abs=1e-12)
    assert -1 <= ours.values[0] <= 1


@pytest.mark.parametrize(
    ("a", "b", "wanted"), [("abcd", "abcd", 1.0), ("abcd", "dcba", -1.0), ("abc", "acb", 1 / 3)]
)
def test_worked_examples(a: str, b: str, wanted: float) -> None:
    found = agreement.tau(Discordance.of(pair_of(list(a), list(b)), 10))
    assert found.values.tolist() == [pytest.approx(wanted)]


def one_way(a: Sequence[str], b: Sequence[str]) -> float:
    """2 / (N - 1) sum of C(i) / (i - 1), less 1, as the paper writes it."""
    total = 0.0
    for i in range(1, len(a)):
        total += sum(b.index(above) < b.index(a[i]) for above in a[:i]) / i
    return 2 / (len(a) - 1) * total - 1


@settings(deadline=None)
@given(a=rankings, b=rankings, depth=depths)
def test_is_the_formula_both_ways_and_symmetric(a: list[str], b: list[str], depth: int) -> None:
    pairs = pair_of(a, b), pair_of(b, a)
    ours, swapped = (agreement.tau_ap(Discordance.of(pair, depth)) for pair in pairs)
    here = [d for d in a[:depth] if d in b[:depth]]
    there = [d for d in b[:depth] if d in a[:depth]]
    if len(here) < 2:
        assert ours.defined.tolist() == [False]
        return
    wanted = (one_way(here, there) + one_way(there, here)) / 2
    assert ours.values[0] == pytest.approx(wanted, abs=1e-12)
    assert swapped.values[0] == pytest.approx(wanted, abs=1e-12)
    assert -1 - 1e-12 <= ours.values[0] <= 1


def test_many_queries_are_what_each_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    control, candidate = random_case(1)[0], random_case(2)[0]
    whole = agreement.tau_ap(Discordance.of(RankPair.of(control, candidate), 20)).values.tolist()
    monkeypatch.setattr(agreement, "BLOCK", 50)
    assert (
        agreement.tau_ap(Discordance.of(RankPair.of(control, candidate), 20)).values.tolist()
        == whole
    )


@settings(deadline=None)
@given(control=found, candidate=rankings, depth=depths)
def test_is_the_formula_between_0_and_1(
    control: list[str], candidate: list[str], depth: int
) -> None:
    ours = agreement.pseudo_ndcg(pair_of(control, candidate), depth).values[0]
    assert ours == pytest.approx(reference.pseudo_ndcg(control, candidate, depth), abs=1e-12)
    assert 0 <= ours <= 1


def test_equals_ir_measures_with_the_serving_list_as_judgements() -> None:
    control, candidate = list("abcdefghijkl"), list("caxbedyklj")
    judged = [ir_measures.Qrel("q", d, 10 - at) for at, d in enumerate(control[:10])]
    shown = [ir_measures.ScoredDoc("q", d, -at) for at, d in enumerate(candidate)]
    theirs = next(iter(ir_measures.iter_calc([ir_measures.nDCG @ 10], judged, shown))).value
    ours = agreement.pseudo_ndcg(pair_of(control, candidate), 10).values
    assert ours.tolist() == [pytest.approx(theirs, abs=1e-12)]


def test_an_empty_serving_list_judges_nothing() -> None:
    assert agreement.pseudo_ndcg(pair_of([], ["a"]), 10).defined.tolist() == [False]
    assert agreement.pseudo_ndcg(pair_of(["a"], []), 10).values.tolist() == [0.0]


def test_worked_example_of_counts() -> None:
    runs = (run_of({"q": docs}) for docs in ("abcde", "bcx"))
    found = {
        name: of.values.tolist() for name, of in agree(*runs, depths=(2, 10), p=0.9).scores.items()
    }
    assert found["serving_only@10"] == [3.0]
    assert found["shadow_only@10"] == found["serving_only@2"] == found["shadow_only@2"] == [1.0]
    assert found["length_difference"] == [-2.0]
