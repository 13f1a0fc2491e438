"""In a race an arm is asked when it is its turn, and by nobody else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from harness.core.engine import Answer, Hit, Manifest
from harness.core.errors import EvidenceError
from harness.core.printable import many
from harness.core.records import Scalar
from harness.core.run import Row, Run, Status
from harness.pipeline.replay import Tally, check_turns, remarks

MANIFEST = Manifest("toy", "1", 1, "c", "s")


class Searcher:
    """Answers with what it was asked."""

    manifest = MANIFEST

    def search(self, text: str, k: int) -> Answer:
        return Answer((Hit(text, 1.0, float(k)),), "me")


def test_a_tally_answers_as_its_searcher() -> None:
    tally = Tally(Searcher())
    assert tally.manifest == MANIFEST
    assert tally.search("x", 7) == Searcher().search("x", 7)
    assert tally.asked == 1


class Filtering(Searcher):
    """Answers with its filter too."""

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        return Answer((Hit(f"{text} {params['level']}", 1.0, float(k)),), "me")


def test_a_tally_hands_filters_on_to_who_takes_them() -> None:
    deaf, filtering = Tally(Searcher()), Tally(Filtering())
    asked = {"level": "high"}
    assert filtering.search_with("x", 7, asked) == Filtering().search_with("x", 7, asked)
    assert deaf.search_with("x", 7, asked) == Searcher().search("x", 7)
    assert (deaf.asked, filtering.asked) == (1, 1)


@pytest.mark.parametrize("asked", [1, 3])
def test_more_or_fewer_questions_than_turns_are_named(asked: int) -> None:
    fair, unfair = Tally(Searcher()), Tally(Searcher())
    fair.asked, unfair.asked = 2, asked
    check_turns({"a": fair}, 2, 7)
    with pytest.raises(EvidenceError, match=rf"b received {many(asked, 'query')} .* gave it 2"):
        check_turns({"a": fair, "b": unfair}, 2, 7)


def test_an_arm_that_is_asked_for_fewer_hits_in_a_race_is_named() -> None:
    fair, unfair = Tally(Searcher()), Tally(Searcher())
    fair.search("x", 7)
    unfair.search("x", 3)
    with pytest.raises(EvidenceError, match="b received requests for 3 hits in a race over 7"):
        check_turns({"a": fair, "b": unfair}, 1, 7)


def test_queries_without_an_answer_are_told_with_the_first_error() -> None:
    fine = Row("q1", Status.ANSWERED, [Hit("d1", 1.0, 1.0)])
    assert list(remarks(Run.of("half", [fine]))) == []
    broken = Row("q2", Status.FAILED, error="ValueError: no kitchen")
    (said,) = remarks(Run.of("half", [fine, broken, Row("q3", Status.TIMED_OUT)]))
    assert said == ("half: 2 of 3 queries have no answer; the first, q2: ValueError: no kitchen")
    (said,) = remarks(replace(Run.of("half", [fine]), retries=3))
    assert said == "half: 3 attempts failed and were repeated; their time is in the latencies"
    (said,) = remarks(replace(Run.of("half", [fine]), retries=3, rate_limited=2))
    assert said.endswith(". The server limited the rate of 2 of them: set rate_per_s")
