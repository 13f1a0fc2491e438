"""Lists that are mixed from several rankings."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.clicks.credit import Mixed, credits_of, preference_of, team_draft

RANKINGS = st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), min_size=1, max_size=4)


@given(RANKINGS, st.integers(0, 10), st.integers())
def test_each_document_comes_once_and_from_the_ranking_that_is_credited(
    rankings: list[list[str]], length: int, seed: int
) -> None:
    mixed = team_draft(rankings, length, Random(seed))
    every = {document for ranking in rankings for document in ranking}
    assert len(mixed.documents) == len({*mixed.documents}) == min(length, len(every))
    for at, (document, team) in enumerate(zip(*mixed, strict=True)):
        before = rankings[team][: rankings[team].index(document)]
        assert {*before} <= {*mixed.documents[:at]}


@given(RANKINGS.filter(lambda found: len(found) > 1), st.integers())
def test_teams_take_turns_while_all_have_documents(rankings: list[list[str]], seed: int) -> None:
    rounds = min(map(len, rankings)) // len(rankings)
    mixed = team_draft(rankings, rounds * len(rankings), Random(seed))
    assert {*Counter(mixed.teams).values()} <= {rounds}


def test_the_same_ranking_twice_is_itself_with_teams_by_lot() -> None:
    drawn = [team_draft(["abcd", "abcd"], 4, Random(seed)) for seed in range(400)]
    assert {mixed.documents for mixed in drawn} == {tuple("abcd")}
    firsts = Counter(mixed.teams[0] for mixed in drawn)
    assert abs(firsts[0] - firsts[1]) < 80


def test_clicks_are_credited_once_and_only_to_their_team() -> None:
    mixed = Mixed(("a", "b", "c"), (1, 0, 1))
    assert credits_of(mixed, ["a", "a", "c", "z"], 3) == (0, 2, 0)


@pytest.mark.parametrize(
    ("credited", "sign"),
    [([(1, 0)], -1), ([(0, 1), (2, 1)], 0), ([(0, 1), (0, 0)], 1), ([], 0)],
)
def test_a_session_prefers_the_arm_with_more_clicks(
    credited: list[tuple[int, int]], sign: int
) -> None:
    assert preference_of(credited) == sign
