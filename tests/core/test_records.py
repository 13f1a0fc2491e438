"""Queries, names, runs, scores, manifests, verdicts, messages: what each keeps and refuses."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from pydantic import TypeAdapter, ValidationError

from harness.core import errors
from harness.core import progress as module
from harness.core.digest import of_json, of_queries
from harness.core.engine import Hit, Manifest
from harness.core.gate import OF_VERDICT, Cause, Finding, Outcome, StepDecision, Verdict
from harness.core.names import LONGEST, Name, check_distinct, checked
from harness.core.progress import progress
from harness.core.records import Judgement, Qrels, Query
from harness.core.run import Row, Run, Status
from harness.core.scores import Dependence, Paired, Scores, codes, independent
from tests.make.runs import rows


def test_a_query_without_params_has_the_digest_it_had_before_there_were_any() -> None:
    queries = [Query("q", "why", ("a", "b"), "need"), Query("p", "how")]
    before = of_json([["q", "why", ["a", "b"], "need"], ["p", "how", [], None]])
    assert of_queries(queries) == before
    assert of_queries([Query("p", "how", params={})]) == of_queries([Query("p", "how")])


def test_params_are_part_of_the_question() -> None:
    every = [Query("q", "why", params=params)
             for params in ({}, {"importance": "high"}, {"importance": "low"})]  # fmt: skip
    assert len({*every}) == len({of_queries([query]) for query in every}) == 3


# A name is one word that a file can be called by; whatever else is refused, and says why

HOSTILE = [
    "", "..", "a/b", ".hidden", "--force", "a b", "a=b", "a\0b", "a\nb", "e\u0301", "\ud800",
    "x" * (LONGEST + 1), "ö" * 51,
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_name_is_refused_with_its_reason(name: str) -> None:
    with pytest.raises(errors.BadName, match="it may have letters") as refused:
        checked("a split", name)
    assert "is not a name of a split: " in str(refused.value)
    assert str(refused.value).endswith("Give another name")
    with pytest.raises(ValidationError):
        TypeAdapter(Name).validate_python(name)


def test_names_that_differ_by_their_case_are_one() -> None:
    check_distinct("an arm", "fts5", ["fts5", "tantivy"])
    with pytest.raises(errors.BadName, match="FTS5 differs from it only by its case"):
        check_distinct("an arm", "fts5", ["FTS5"])


# Runs keep what was shown, and refuse what cannot be

FEW = [
    Row("q1", Status.ANSWERED, (Hit("b", 1.0, 9.0), Hit("a", 0.5, 4.5)), "me"),
    Row("q2", Status.ANSWERED, (), "me"),
    Row("q3", Status.FAILED, error="ValueError: no"),
    Row("q4", Status.TIMED_OUT, error="late"),
    Row("q5", Status.NOT_ASKED),
]


def test_some_queries_keep_their_hits_and_scores() -> None:
    before = Row("p", Status.ANSWERED, (Hit("z", 3.0, 30.0), Hit("b", 2.0, 20.0)), "me")
    some = Run.of("arm", [before, *FEW]).only(["q3", "q1"])
    assert some.vocabulary == ("a", "b")
    assert [*some.rows()] == [FEW[0], FEW[2]]


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("place", ["score", "raw_score"])
def test_a_score_that_is_no_number_is_refused(score: float, place: str) -> None:
    hit = Hit("a", score, 0.5) if place == "score" else Hit("a", 0.5, score)
    with pytest.raises(errors.RunError, match="query q: the score of a"):
        Run.of("arm", [Row("q", Status.ANSWERED, (Hit("b", 1.0, 1.0), hit))])


@given(rows())
def test_rows_go_in_and_out(given_rows: Sequence[Row]) -> None:
    run = Run.of("arm", given_rows)
    out = list(run.rows())
    assert [row.query_id for row in out] == [row.query_id for row in given_rows]
    for before, after in zip(given_rows, out, strict=True):
        shown = list(dict.fromkeys(hit.doc_id for hit in before.hits))
        assert [hit.doc_id for hit in after.hits] == shown
        assert set(after.hits) <= set(before.hits)
        repeated = len(before.hits) - len(shown)
        assert after.duplicates == before.duplicates + repeated
        assert after[3:5] == before[3:5]
        assert run.ranking(before.query_id) == tuple(shown)
    again = Run.of("arm", out)
    assert list(again.rows()) == out


# Judgements in rows


def test_a_query_of_grades_of_zero_and_below_is_negative() -> None:
    rows = ("a", "d", 0), ("a", "e", 2), ("b", "d", 0), ("c", "d", -1)
    qrels = Qrels.of([Judgement(*row) for row in rows])
    assert (qrels.answerable, qrels.negative) == (("a",), ("b", "c"))


# Scores of queries, and pairs of them by id


def scores(values: Mapping[str, float], undefined: Mapping[str, str] | None = None) -> Scores:
    """Make values of queries, and for each reason the letters of those without one."""
    gone = {why: tuple(ids) for why, ids in (undefined or {}).items()}
    found = np.array(list(values.values()), dtype=float)
    return Scores("nDCG@10", tuple(values), found, gone)


def test_a_mean_is_of_what_is_defined() -> None:
    assert scores({"a": 1.0, "b": 0.0}, {"failed": "c"}).mean == 0.5
    assert scores({}, {"failed": "c"}).mean is None


def test_a_slice_keeps_order_and_reasons() -> None:
    some = scores({"a": 1.0, "b": 2.0, "c": 3.0}, {"failed": "de"}).only(["e", "c", "a", "x"])
    assert (some.query_ids, some.by_query) == (("a", "c"), {"a": 1.0, "c": 3.0})
    assert (some.undefined, some.measure) == ({"failed": ("e",)}, "nDCG@10")


def test_pairs_go_by_id_and_not_by_place() -> None:
    one, other = {"a": 0.1, "b": 0.2, "c": 0.3}, {"c": 1.3, "a": 1.1, "b": 1.2}
    paired = Paired.of(scores(one), scores(other))
    assert (paired.query_ids, paired.unpaired) == (("a", "b", "c"), ())
    assert paired.difference == pytest.approx([1.0, 1.0, 1.0])


def test_a_query_that_one_arm_has_no_value_for_is_lost_and_not_zero() -> None:
    control = scores({"a": 1.0, "b": 0.5}, {"failed": "c", "negative_query": "n"})
    candidate = scores({"c": 1.0, "b": 0.5}, {"timed_out": "a", "negative_query": "n"})
    paired = Paired.of(control, candidate)
    assert (paired.query_ids, paired.unpaired) == (("b",), ("a", "c"))
    assert paired.difference.tolist() == [0.0]


@pytest.mark.parametrize("why", ["failed", "timed_out", "not_asked"])
def test_a_query_that_neither_arm_answered_is_lost_and_no_tie(why: str) -> None:
    control = scores({"a": 1.0}, {why: "b", "negative_query": "n", "unjudged": "u"})
    candidate = scores({"a": 1.0}, {"failed": "b", "negative_query": "n", "unjudged": "u"})
    assert Paired.of(control, candidate).unpaired == ("b",)


@pytest.mark.parametrize(
    ("left", "right", "says"),
    [("ab", "a", "1 query only on the left, 0 only on the right"),
     ("a", "ab", "0 queries only on the left, 1 only on the right")],
)  # fmt: skip
def test_other_queries_are_refused_on_either_side(left: str, right: str, says: str) -> None:
    with pytest.raises(errors.MismatchedQueries, match=says):
        Paired.of(*(scores(dict.fromkeys(ids, 1.0)) for ids in (left, right)))


# Codes of clusters, and what clusters cost


def test_queries_of_one_cluster_share_a_code() -> None:
    found = codes(["a", "b", "c", "d"], {"a": "x", "c": "x", "elsewhere": "y"})
    assert found is not None
    assert found.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize(("ids", "count"), [("abcd", 3), ("bd", 2), ("", 0)])
def test_independent_queries_are_counted(ids: str, count: int) -> None:
    assert independent(list(ids), {"a": "x", "c": "x"}) == count


@pytest.mark.parametrize(("effect", "effective"), [(2.0, 50.0), (1.0, 100.0), (0.5, 100.0)])
def test_queries_are_never_worth_more_than_there_are(effect: float, effective: float) -> None:
    assert Dependence(100, 60, 4, effect).effective == effective


# A manifest's fingerprint is its identity

MANIFEST = Manifest("sqlite-fts5", "3.40.1", 2, "c0", "5e")


def test_the_fingerprint_is_the_same_from_day_to_day() -> None:
    assert MANIFEST.fingerprint == (
        "9d12318b9713fba50f6cabf67d454dc21e8bcaacd659155552d1e8290c65c803"
    )


@pytest.mark.parametrize(
    "changed",
    [{"engine": "tantivy"}, {"version": "3.40.2"}, {"documents": 3}, {"corpus_sha256": "c1"},
     {"settings_sha256": "5f"}],
)  # fmt: skip
def test_every_part_of_a_manifest_counts(changed: dict[str, Any]) -> None:
    assert replace(MANIFEST, **changed).fingerprint != MANIFEST.fingerprint


# Verdicts have no truth value, and a step is decided by all of them

PASS, FAIL, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE


def finding(verdict: Verdict, gate: str = "gate") -> Finding:
    cause = OF_VERDICT[verdict]
    return Finding(gate, "rule", verdict, cause, "because", "a bound", None, None, "share")


def step(*verdicts: Verdict, taken: bool = False, blocked_by: str = "") -> StepDecision:
    found = tuple(finding(verdict, f"gate {at}") for at, verdict in enumerate(verdicts))
    return StepDecision("tantivy", "fts5", "tantivy", taken, found, blocked_by)


@pytest.mark.parametrize(("verdict", "cause"), list(product(Verdict, Cause)))
def test_a_cause_belongs_to_one_verdict(verdict: Verdict, cause: Cause) -> None:
    own = {Cause.KEPT: Verdict.PASS, Cause.BROKEN: Verdict.FAIL}.get(cause, OPEN)
    if own is verdict:
        assert replace(finding(own), verdict=verdict, cause=cause).cause is cause
    else:
        with pytest.raises(ValueError, match=f"gate: {verdict} has the cause {cause}"):
            replace(finding(own), verdict=verdict, cause=cause)


@pytest.mark.parametrize("verdict", Verdict)
def test_a_verdict_is_neither_true_nor_false(verdict: Verdict) -> None:
    with pytest.raises(TypeError, match="neither true nor false"):
        assert not verdict


@pytest.mark.parametrize("verdicts", list(product(Verdict, repeat=3)))
def test_one_fail_fails_and_one_open_leaves_open(verdicts: tuple[Verdict, ...]) -> None:
    (worst,) = [one for one in (FAIL, OPEN, PASS) if one in verdicts][:1]
    assert step(*verdicts).verdict is worst


@pytest.mark.parametrize(
    ("verdicts", "taken", "blocked_by", "outcome"),
    [([PASS, PASS], False, "", Outcome.PROMOTE), ([PASS, PASS], True, "", Outcome.PROMOTE),
     ([PASS, FAIL], False, "", Outcome.HOLD), ([PASS, FAIL], True, "", Outcome.ROLLBACK),
     ([OPEN, FAIL], True, "", Outcome.ROLLBACK), ([FAIL], True, "shadow", Outcome.ROLLBACK),
     ([PASS, OPEN], False, "", Outcome.HOLD), ([PASS, OPEN], True, "", Outcome.HOLD),
     ([PASS], False, "shadow", Outcome.HOLD), ([], False, "", Outcome.HOLD),
     ([], True, "", Outcome.HOLD)],
)  # fmt: skip
def test_what_follows(
    verdicts: list[Verdict], *, taken: bool, blocked_by: str, outcome: Outcome
) -> None:
    assert step(*verdicts, taken=taken, blocked_by=blocked_by).outcome is outcome


# Errors are one tree, and say where and what to do


def test_a_message_is_one_printable_line_of_some_length() -> None:
    """Names, ids and texts of strangers are in messages, and a terminal obeys what it shows."""
    said = str(errors.HarnessError("an id \x1b[31m\u202e\u2028\x9b\n of a stranger"))
    assert said.isprintable()
    assert said.endswith(" of a stranger")
    assert "U+2028" in said
    long = str(errors.HarnessError("x" * 10_000 + " the remedy"))
    assert (len(long), long[-10:]) == (errors.LONGEST, "the remedy")
    assert len(str(errors.BadFile("file", "x" * 10_000, "the remedy"))) < errors.PROBLEM + 30


# A bar for people, and a line now and then for a log


def test_a_pipe_sees_nothing_of_short_work(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("asking", 3) as advance:
        advance(1)
        advance(2)
    assert capsys.readouterr() == ("", "")


def test_a_pipe_sees_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 20.0, 35.0, 50.0, 400.0, 401.0])
    monkeypatch.setattr(module, "monotonic", lambda: next(clock))
    with progress("embedding", 2_000) as advance:
        for steps in (100, 100, 200, 100, 1_500):
            advance(steps)
    assert capsys.readouterr().err.splitlines() == [
        "embedding: 200 of 2,000 (10%), about 5 min left",
        "embedding: 500 of 2,000 (25%), about 20 min left",
    ]
