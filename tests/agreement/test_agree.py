"""Agreement of two whole runs."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.agreement import agree, tally
from harness.core.errors import EvidenceError, HarnessError, MismatchedQueries
from harness.core.run import Run, Status
from tests.agreement import reference
from tests.agreement.strategies import rankings
from tests.make.runs import random_case, run_of

NAMES = {
    "Jaccard@5",
    "serving_only@5",
    "shadow_only@5",
    "Jaccard@10",
    "serving_only@10",
    "shadow_only@10",
    "RBO",
    "tau",
    "tauAP",
    "nDCG@10-of-serving",
    "length_difference",
}

CONTROL = run_of(
    {"same": "abc", "none": "", "lost": "ab", "new": "", "one": "abc", "broke": "abc", "slow": "a"},
    ended={"broke": Status.FAILED},
)
CANDIDATE = run_of(
    {"slow": "", "broke": "abc", "one": "cxy", "new": "a", "lost": "", "none": "", "same": "abc"},
    ended={"slow": Status.TIMED_OUT},
)


def test_every_query_has_a_class_and_a_value_or_a_reason() -> None:
    found = agree(CONTROL, CANDIDATE, depths=(5, 10), p=0.9)
    assert found.query_ids == CONTROL.query_ids
    assert found.classes == (
        "exact",
        "both_empty",
        "shadow_empty",
        "serving_empty",
        "overlap",
        "error",
        "timeout",
    )
    assert set(found.scores) == NAMES
    for name, scores in found.scores.items():
        assert scores.measure == name
        reasons = [q for ids in scores.undefined.values() for q in ids]
        assert sorted([*scores.query_ids, *reasons]) == sorted(CONTROL.query_ids)
        assert np.isfinite(scores.values).all()


def test_values_and_reasons_of_the_worked_example() -> None:
    scores = agree(CONTROL, CANDIDATE, depths=(5, 10), p=0.9).scores
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
    found = agree(CONTROL, CONTROL, depths=(10,), p=0.9, shed={"same"}, stale={"one"})
    assert found.scores["Jaccard@10"].query_ids == ("lost", "slow")
    assert found.scores["Jaccard@10"].undefined["shed"] == ("same",)
    assert found.scores["Jaccard@10"].undefined["stale"] == ("one",)
    counts = tally(found.classes)
    assert (counts.attempted, counts.compared, counts.errored) == (7, 4, 1)
    assert (counts.skipped, counts.shed) == (1, 1)


def test_equals_the_formulas_on_random_runs() -> None:
    control, candidate = random_case(1, queries=60)[0], random_case(2, queries=60)[0]
    scores = agree(control, candidate, depths=(10, 25), p=0.8).scores
    for query_id in control.query_ids:
        a, b = control.ranking(query_id, 25), candidate.ranking(query_id, 25)
        wanted = {
            "Jaccard@10": reference.jaccard(a[:10], b[:10]),
            "Jaccard@25": reference.jaccard(a, b),
            "RBO": reference.rbo(a, b, 0.8),
            "nDCG@10-of-serving": reference.pseudo_ndcg(a, b, 10),
        }
        for name, value in wanted.items():
            assert scores[name].by_query[query_id] == pytest.approx(value, abs=1e-12)


@settings(deadline=None, max_examples=50)
@given(
    lists=st.lists(st.tuples(rankings, rankings), min_size=1, max_size=6),
    shuffle=st.randoms(use_true_random=False),
)
def test_the_order_of_queries_changes_nothing(
    lists: list[tuple[list[str], list[str]]], shuffle: Random
) -> None:
    control = run_of({f"q{at}": a for at, (a, _) in enumerate(lists)})
    candidate = run_of({f"q{at}": b for at, (_, b) in enumerate(lists)})
    rows = list(candidate.rows())
    shuffle.shuffle(rows)
    plain = agree(control, candidate, depths=(5, 10), p=0.9)
    mixed = agree(control, Run.of("candidate", rows), depths=(5, 10), p=0.9)
    assert plain.classes == mixed.classes
    for name, scores in plain.scores.items():
        assert scores.by_query == mixed.scores[name].by_query
        assert scores.undefined == mixed.scores[name].undefined


def test_documents_after_the_deepest_cutoff_change_only_the_lengths() -> None:
    control, candidate = run_of({"q": list("abcdefghij")}), run_of({"q": list("bacxefghij")})
    longer = run_of({"q": list("bacxefghijd")})
    plain = agree(control, candidate, depths=(5, 10), p=0.9)
    more = agree(control, longer, depths=(5, 10), p=0.9)
    assert plain.classes == more.classes
    for name in NAMES - {"length_difference"}:
        assert plain.scores[name].by_query == more.scores[name].by_query
    assert more.scores["length_difference"].by_query == {"q": 1.0}


def test_other_queries_no_query_and_no_depth_are_refused() -> None:
    with pytest.raises(MismatchedQueries):
        agree(CONTROL, run_of({"same": "abc"}), depths=(10,), p=0.9)
    with pytest.raises(EvidenceError, match="no query to compare"):
        agree(run_of({}), run_of({}), depths=(10,), p=0.9)
    with pytest.raises(HarnessError, match="no depth"):
        agree(CONTROL, CANDIDATE, depths=(), p=0.9)
    with pytest.raises(HarnessError, match="holds no rank"):
        agree(CONTROL, CANDIDATE, depths=(0, 10), p=0.9)


def test_mutant_4_empty_with_empty_is_no_divergence() -> None:
    """Mutant 4: where both find nothing, the mean must not fall (nor rise)."""
    control = run_of({"q": "abc", **{f"none{at}": "" for at in range(9)}})
    candidate = run_of({"q": "abx", **{f"none{at}": "" for at in range(9)}})
    found = agree(control, candidate, depths=(10,), p=0.9)
    assert found.scores["Jaccard@10"].mean == 0.5
    assert len(found.scores["Jaccard@10"].undefined["both_empty"]) == 9
    assert found.classes.count("both_empty") == 9
    assert tally(found.classes).compared == 10


def test_mutant_5_an_undefined_tau_is_counted_and_not_0() -> None:
    """Mutant 5: one document is shared; a tau of 0 would halve the mean."""
    control = run_of({"q": "abc", "r": "abc"})
    candidate = run_of({"q": "abc", "r": "axy"})
    tau = agree(control, candidate, depths=(10,), p=0.9).scores["tau"]
    assert tau.mean == 1.0
    assert tau.undefined == {"below_two_shared": ("r",)}


def test_mutant_14_a_truncation_is_seen() -> None:
    """Mutant 14: overlap over the smaller list says 1 for a candidate that lost 8 of 10 hits."""
    control, candidate = run_of({"q": "abcdefghij"}), run_of({"q": "ab"})
    smaller = len(set("abcdefghij") & set("ab")) / min(10, 2)
    found = agree(control, candidate, depths=(10,), p=0.9)
    assert smaller == 1.0
    assert found.scores["Jaccard@10"].mean == 0.2
    assert found.classes == ("truncation",)
    assert found.scores["serving_only@10"].mean == 8
    assert found.scores["length_difference"].mean == -8


def test_mutant_15_rank_correlation_stays_within_its_range() -> None:
    """Mutant 15: shared documents at the top of one list and at the end of the other."""
    control = run_of({"q": ["s", "t", *(f"a{at}" for at in range(48))]})
    candidate = run_of({"q": [*(f"b{at}" for at in range(48)), "t", "s"]})
    tau = agree(control, candidate, depths=(50,), p=0.9).scores["tau"]
    assert tau.by_query == {"q": -1.0}
