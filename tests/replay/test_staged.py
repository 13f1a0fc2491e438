"""``harness.replay.drive``: stages of an arm that lead to what it showed, and others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import pytest

from harness.core.engine import Answer, Hit, Manifest, Stage
from harness.core.errors import InvalidArm
from harness.core.records import Query, Scalar
from harness.core.run import Row, Run, Status
from harness.replay.drive import ANSWER, told, trace

QUERIES = (Query("q1", "ab"), Query("q2", "ba"), Query("q3", "cab"))
Lists = Callable[[str], tuple[Stage, ...]]


def hits(docs: str) -> tuple[Hit, ...]:
    return tuple(Hit(doc, 1.0, 1.0) for doc in docs)


def in_stages(text: str) -> tuple[Stage, ...]:
    """Words give the letters in order, vectors backwards, and the answer is what was typed."""
    words = "".join(sorted(text))
    return (
        Stage("lexical", hits(words)),
        Stage("semantic", hits(words[::-1]), beside=True),
        Stage("fused", hits(text)),
    )


@dataclass(frozen=True)
class Arm:
    """Shows the letters of a text."""

    lists: Lists = in_stages
    asked: list[tuple[str, int, Mapping[str, Scalar]]] = field(default_factory=list)
    manifest: Manifest = field(default=Manifest("toy", "1", 3, "c", "s"))

    def search(self, text: str, k: int) -> Answer:
        return Answer(hits(text)[:k], self.manifest.fingerprint)

    def stages(self, text: str, k: int, params: Mapping[str, Scalar]) -> tuple[Stage, ...]:
        self.asked.append((text, k, params))
        return self.lists(text)


def shown(status: Mapping[str, Status] | None = None) -> Run:
    ended = status or {}
    rows = [
        Row(q.query_id, ended[q.query_id])
        if q.query_id in ended
        else Row(q.query_id, Status.ANSWERED, hits(q.text))
        for q in QUERIES
    ]
    return Run.of("toy", rows)


def test_the_way_and_what_stands_beside_it() -> None:
    arm = Arm()
    steps: list[int] = []
    traced = trace(arm, QUERIES, shown(), k=7, advance=steps.append)
    assert [run.arm for run in traced.way] == ["lexical", "fused"]
    assert [run.ranking("q3") for run in traced.way] == [tuple("abc"), tuple("cab")]
    assert [(run.arm, run.ranking("q3")) for run in traced.beside] == [("semantic", tuple("cba"))]
    assert traced.lost == {}
    assert steps == [1, 1, 1]
    assert arm.asked == [(q.text, 7, q.params) for q in QUERIES]


def test_an_arm_without_stages_has_what_it_showed() -> None:
    @dataclass(frozen=True)
    class Plain:
        manifest: Manifest = field(default=Manifest("toy", "1", 3, "c", "s"))

        def search(self, text: str, k: int) -> Answer:
            raise AssertionError(text, k)

    traced = trace(Plain(), QUERIES, shown(), k=7, advance=lambda _: None)
    assert [(run.arm, run.ranking("q2")) for run in traced.way] == [(ANSWER, tuple("ba"))]
    assert not traced.beside


def test_queries_that_fail_or_go_another_way_are_lost_and_say_why() -> None:
    def lists(text: str) -> tuple[Stage, ...]:
        if text == "ba":
            raise RuntimeError("no model")
        return in_stages(text)[2:] if text == "cab" else in_stages(text)

    more = (*QUERIES, Query("q4", "bc"))
    run = Run.of("toy", [Row(q.query_id, Status.ANSWERED, hits(q.text)) for q in more])
    traced = trace(Arm(lists), more, run, k=7, advance=lambda _: None)
    assert traced.lost == {"q2": "RuntimeError: no model", "q3": "went through fused"}
    assert {run.query_ids for run in (*traced.way, *traced.beside)} == {("q1", "q4")}


def test_a_query_that_was_not_answered_is_not_asked() -> None:
    arm = Arm()
    traced = trace(arm, QUERIES, shown({"q2": Status.TIMED_OUT}), k=7, advance=lambda _: None)
    assert traced.lost == {"q2": "was not answered"}
    assert [text for text, *_ in arm.asked] == ["ab", "cab"]


def test_stages_that_lead_elsewhere_are_refused() -> None:
    def other(text: str) -> tuple[Stage, ...]:
        return in_stages("ab" if text == "ba" else text)

    with pytest.raises(InvalidArm, match="toy: query q2: its stage fused is not what it showed"):
        trace(Arm(other), QUERIES, shown(), k=7, advance=lambda _: None)


def test_stages_that_all_stand_beside_are_refused() -> None:
    with pytest.raises(InvalidArm, match="all its stages stand beside"):
        trace(Arm(lambda t: in_stages(t)[1:2]), QUERIES, shown(), k=7, advance=lambda _: None)


def test_an_arm_none_of_whose_queries_has_stages_is_refused() -> None:
    def broken(_: str) -> tuple[Stage, ...]:
        raise RuntimeError("no model")

    with pytest.raises(InvalidArm, match="not one query has stages; the first: RuntimeError: no m"):
        trace(Arm(broken), QUERIES, shown(), k=7, advance=lambda _: None)


def test_stages_that_never_end_are_not_waited_for() -> None:
    """Whether they were a tuple was looked at after the first, the second, and so on."""

    def endless(text: str) -> Any:  # noqa: ANN401  what no engine may give
        return repeat(in_stages(text)[0])

    with pytest.raises(TypeError, match="stages or hits are a repeat instead of a tuple"):
        told(Arm(endless), QUERIES[0], 7)


def test_a_panic_among_the_stages_is_a_failure_and_an_interrupt_is_none() -> None:
    def panics(_: str) -> tuple[Stage, ...]:
        raise BaseException("a panic of Rust")  # noqa: TRY002  so it looks in Python

    with pytest.raises(InvalidArm, match="the first: BaseException: a panic of Rust"):
        trace(Arm(panics), QUERIES, shown(), k=7, advance=lambda _: None)

    def interrupted(_: str) -> tuple[Stage, ...]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trace(Arm(interrupted), QUERIES, shown(), k=7, advance=lambda _: None)
