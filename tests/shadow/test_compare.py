"""Pairs become records by the same classes and measures as a replay."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.agreement import Class, agree
from harness.core.engine import Answer, Hit
from harness.core.records import Scalar
from harness.core.run import Row, Run, Status
from harness.shadow.pair import Attempt, ServedQuery, given_up, not_asked
from harness.shadow.record import DIVERGING, LoggedAnswer, query_key
from harness.shadow.recorder import RecordBatch, judged
from tests.shadow.arms import MANIFEST, hits

PRINT = MANIFEST.fingerprint
G = PRINT[:16]


def pair(
    shown: object = "ab",
    candidate: str | LoggedAnswer | None = "ab",
    *,
    number: int = 1,
    k: int = 10,
    text: str = "red fox",
    params: Mapping[str, Scalar] | None = None,
    error: str = "",
    after: str = G,
    shed: str = "",
) -> Attempt:
    """One pair; letters are the documents that an arm showed."""
    answer = Answer(hits(shown), PRINT) if isinstance(shown, str) else shown
    served = ServedQuery(text, k, params or {}, answer, error, 1_000, G)
    side = found(candidate) if isinstance(candidate, str) else candidate
    return Attempt(number, 10 * number, 7, served, lambda: G, side, after, shed)


def found(ids: str, served_by: str = PRINT, after: str = G) -> LoggedAnswer:
    return LoggedAnswer(Status.ANSWERED, hits(ids), served_by, "", "", 2_000, G, after)


def judge(*pairs: Attempt) -> RecordBatch:
    return judged(pairs, writer="w", persistence=0.9, slices=None)


lists = st.text("abcdefgh", max_size=6)


@settings(deadline=None, max_examples=60)
@given(rows=st.lists(st.tuples(lists, lists, st.sampled_from([1, 3, 10])), min_size=1, max_size=9))
def test_each_pair_is_classified_and_measured_as_in_a_replay(
    rows: list[tuple[str, str, int]],
) -> None:
    made = [pair(a[:k], b[:k], number=n, k=k) for n, (a, b, k) in enumerate(rows, start=1)]
    records = {record.number: record for record in judge(*made).observations}
    for number, (a, b, k) in enumerate(rows, start=1):
        runs = [
            Run.of(arm, [Row("q", Status.ANSWERED, hits(ids[:k]), PRINT)])
            for arm, ids in (("control", a), ("candidate", b))
        ]
        wanted = agree(*runs, depths=[k], p=0.9)
        record = records[number]
        assert record.outcome == wanted.classes[0]
        for value, scores in ((record.jaccard, f"Jaccard@{k}"), (record.rbo, "RBO")):
            same = wanted.scores[scores].values
            assert (value is None) == (len(same) == 0)
            assert value is None or value == pytest.approx(float(same[0]), abs=1e-12)


def test_an_observation_tells_what_both_arms_showed() -> None:
    (record,) = judge(pair("abb", "bacd", params={"limit": 3}, number=4)).observations
    assert (record.number, record.served, record.at, record.writer) == (4, 40, 7, "w")
    assert record.query == query_key("red fox", {"limit": 3})
    assert record.control is not None
    assert record.candidate is not None
    control = record.control
    assert (control.hits, control.duplicates, control.elapsed_ns) == (2, 1, 1_000)
    assert (record.candidate.top, record.candidate.top_raw) == (1.0, 50.0)
    assert record.candidate.served_by == PRINT
    assert record.control.generation == G
    assert record.control.answer != record.candidate.answer
    (same,) = judge(pair("ab", "ab")).observations
    assert same.control is not None
    assert same.candidate is not None
    assert same.control.answer == same.candidate.answer == record.control.answer


ERROR = given_up(Status.FAILED, "ValueError: x", 5)
LATE = given_up(Status.TIMED_OUT, "late", 5)
UNKNOWN = LoggedAnswer(Status.ANSWERED, hits("ab"), PRINT, "", "", 1, "", "")


@pytest.mark.parametrize(
    ("made", "outcome", "reason"),
    [
        (pair(candidate=ERROR), Class.ERROR, "candidate: ValueError: x"),
        (pair(None, error="KeyError: y"), Class.ERROR, "control: KeyError: y"),
        (pair(None, ERROR, error="KeyError: y"), Class.ERROR,
         "control: KeyError: y; candidate: ValueError: x"),
        (pair(["a"]), Class.ERROR, "control: answered list instead of an Answer"),
        (pair("abc", k=2), Class.ERROR, "control: 3 hits were shown, 2"),
        (pair(candidate=LATE), Class.TIMEOUT, "candidate: late"),
        (pair(candidate=not_asked("down")), Class.SKIPPED, "candidate: down"),
        (pair(candidate=None, shed="queue"), Class.SHED, "queue"),
        (pair(after="other"), Class.STALE, f"the index of the control moved from {G} to other"),
        (pair(candidate=found("xy", after="z")), Class.STALE,
         f"the index of the candidate moved from {G} to z"),
        (pair(after=""), Class.STALE, f"the index of the control moved from {G} to unknown"),
        (pair(candidate=UNKNOWN), Class.STALE, "the index of the candidate moved from unknown"),
    ],
)  # fmt: skip
def test_what_was_not_compared_says_why_and_has_no_number(
    made: Attempt, outcome: Class, reason: str
) -> None:
    records = judge(made)
    (record,) = records.observations
    assert record.outcome is outcome
    assert record.reason.startswith(reason)
    assert record.jaccard is None
    assert record.rbo is None
    assert len(records.divergences) == (outcome in DIVERGING)


def test_numbers_of_any_type_and_half_of_a_character_can_be_written() -> None:
    shown = Answer((Hit("\ud800", np.float32(0.5), 3),), PRINT)  # type: ignore[arg-type]
    (record,) = judge(pair(shown, "b", text="\udfff")).divergences
    assert [type(value) for value in record.control.hits[0][1:]] == [float, float]
    assert (record.text, record.control.hits[0].doc_id) == ("\\udfff", "\\ud800")
