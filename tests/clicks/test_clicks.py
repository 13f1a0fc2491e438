"""Clicks: the log, team drafts, mixed lists and preferences of users."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.verdict_families import FAMILIES
from benchmarks.verdicts import cell
from harness.clicks import credit
from harness.core.errors import BadFile, EvidenceError
from tests.make.runs import chance

ARMS = ("fts5", "tantivy")
AT = datetime(2026, 1, 2, tzinfo=UTC)


def shown(name: str, user: str = "s") -> credit.ShownList:
    return credit.ShownList(name, AT, "red “shoes”\n", ARMS, ("a", "b"), (1, 0), user=user)


def written(folder: Path, *records: credit.ShownList | credit.Click) -> Path:
    log = credit.ClickLog(folder)
    for record in records:
        log.add(record)
    log.close()
    return folder


def test_what_is_added_is_read_back(tmp_path: Path) -> None:
    written(tmp_path, shown("1"), credit.Click("1", "a"), credit.Click("1", "a"))
    more = [credit.Click(*one) for one in (("1", "b"), ("2", "z"), ("3", "a"))]
    written(tmp_path, shown("2"), *more)
    found = credit.read(tmp_path)
    assert found.shown == (shown("1"), shown("2"))
    assert found.clicked == {"1": {"a", "b"}}
    assert found.strays == 2
    assert (tmp_path / credit.FILE).stat().st_mode & 0o777 == 0o600


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    written(tmp_path, shown("1"))
    with (tmp_path / credit.FILE).open("a") as out:
        out.write('{"id": "2", "docu\n')
    with pytest.raises(BadFile, match=r"clicks\.jsonl:2: not a record of clicks"):
        credit.read(tmp_path)


@pytest.mark.parametrize(
    ("arms", "failed"), [(("old", "new"), "new: it broke"), (("old",), "")], ids=["failure", "one"]
)
def test_a_failure_or_a_single_arm_shows_the_first_ranking(
    arms: tuple[str, ...], failed: str
) -> None:
    one = credit.drawn(arms, ("abc", "cde")[: len(arms)], 2, 5, query="q", failed=failed)
    assert (one.documents, one.teams, one.user) == (("a", "b"), (0, 0), "")


RANKINGS = st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), min_size=1, max_size=4)


@given(RANKINGS, st.integers(0, 10), st.integers())
def test_each_document_comes_once_and_from_the_ranking_that_is_credited(
    rankings: list[list[str]], length: int, seed: int
) -> None:
    mixed = credit.team_draft(rankings, length, Random(seed))
    every = {document for ranking in rankings for document in ranking}
    assert len(mixed) == min(length, len(every))
    for at, (document, team) in enumerate(mixed.items()):
        before = rankings[team][: rankings[team].index(document)]
        assert {*before} <= {*[*mixed][:at]}


@given(RANKINGS.filter(lambda found: len(found) > 1), st.integers())
def test_teams_take_turns_while_all_have_documents(rankings: list[list[str]], seed: int) -> None:
    rounds = min(map(len, rankings)) // len(rankings)
    mixed = credit.team_draft(rankings, rounds * len(rankings), Random(seed))
    assert {*Counter(mixed.values()).values()} <= {rounds}


def test_clicks_are_credited_once_and_only_to_their_team() -> None:
    mixed = replace(shown("1"), documents=("a", "b", "c"), teams=(1, 0, 1))
    assert credit.credits_of(mixed, ["a", "a", "c", "z"]) == {1: 2}


ALONE = credit.ShownList("alone", AT, "q", ("fts5",), ("a",), (0,), user="s")


def clicks(lists: Iterable[credit.ShownList], on: str = "", strays: int = 0) -> credit.Clicks:
    """Make lists of which all were clicked on one document, where ``on`` names it."""
    given = (*lists,)
    return credit.Clicks(given, {one.id: frozenset(on) for one in given} if on else {}, strays)


def test_all_lists_of_a_user_count_once() -> None:
    lists = (shown("1"), shown("2"), shown("3", "t"), shown("4", "u"))
    on = {"1": frozenset("a"), "2": frozenset("b"), "3": frozenset("a")}
    found = credit.preferences(credit.Clicks(lists, on, 0), confidence=0.95)
    one = found.candidates["tantivy"]
    assert (one.wins, one.losses, one.ties) == (1, 0, 2)
    assert one.estimate.value == pytest.approx(1 / 3)
    assert (found.users, found.lists, found.clicks) == (3, 4, 3)


def test_a_thousand_lists_of_one_user_weigh_no_more_than_one() -> None:
    """Sessions of one user agree, so they are no independent evidence."""
    late = [replace(shown(f"{at}", "eager"), at=AT + timedelta(hours=at)) for at in range(1_000)]
    few = clicks([shown(f"few {at}", f"{at}") for at in range(30)], "a")
    both = credit.Clicks((*few.shown, *late), {**few.clicked, "0": frozenset("a")}, 0)
    eager = credit.preferences(both, confidence=0.95).candidates["tantivy"].estimate
    alike = replace(shown("one", "eager"), at=AT)
    once = credit.Clicks((*few.shown, alike), {**few.clicked, "one": frozenset("a")}, 0)
    assert eager == credit.preferences(once, confidence=0.95).candidates["tantivy"].estimate


def test_failed_and_unmixed_lists_give_no_credit_and_are_counted() -> None:
    failed = replace(shown("2", "t"), failed="tantivy: down", teams=(0, 0))
    on = {"1": frozenset("a"), "2": frozenset("b"), "alone": frozenset("a")}
    lists = (shown("1"), shown("3", "u"), failed, ALONE)
    found = credit.preferences(credit.Clicks(lists, on, 1), confidence=0.95)
    assert (found.users, found.failed, found.unmixed, found.strays) == (2, 1, 1, 1)
    assert found.candidates["tantivy"].losses == 0


def test_several_candidates_are_corrected() -> None:
    arms = ("a0", "a1", "a2")
    lists = [
        credit.ShownList(f"{at}", AT, "q", arms, ("x", "y", "z"), (0, 1, 2), user=f"{at}")
        for at in range(8)
    ]
    found = credit.preferences(clicks(lists, "y"), confidence=0.9)
    won, tied = found.candidates["a1"], found.candidates["a2"]
    assert (won.wins, tied.ties) == (8, 8)
    alone = [replace(one, arms=arms[:2], documents=("x", "y"), teams=(0, 1)) for one in lists]
    pair = credit.preferences(clicks(alone, "y"), confidence=0.95)
    assert won.estimate == pair.candidates["a1"].estimate


def test_robots_are_left_out_by_rate_and_by_pattern() -> None:
    people = [shown(f"p{at}", f"{at}") for at in range(5)]
    fast = [shown(f"f{at}", "fast") for at in range(credit.HOURLY + 1)]
    slow = [
        replace(shown(f"s{at}", "slow"), at=AT + timedelta(hours=at)) for at in range(credit.ALIKE)
    ]
    found = credit.preferences(clicks([*people, *fast, *slow], "a"), confidence=0.95)
    assert found.users == len(people)
    assert dict(found.robots) == {
        "more than 60 lists within an hour": 1,
        "clicks on the same ranks of all lists, 20 or more": 1,
    }
    kept = credit.preferences(clicks([*people, *fast[1:], *slow[1:]], "a"), confidence=0.95)
    assert kept.users == len(people) + 1, "60 lists within an hour, and of the same ranks"
    idle = credit.preferences(credit.Clicks((*people, *slow), {}, 0), confidence=0.95)
    assert not idle.robots, "who clicks nothing prefers neither"


def test_without_users_nothing_is_preferred() -> None:
    lists = [shown(f"{at}", "") for at in range(100)]
    with pytest.raises(EvidenceError, match=r"0 users are known.*log who sees each list: .*user="):
        credit.preferences(clicks(lists, "a"), confidence=0.95)
    some = credit.preferences(
        clicks([*lists, shown("x", "x"), shown("y", "y")], "a"), confidence=0.95
    )
    assert (some.users, some.lists, some.anonymous) == (2, 2, 100)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["five agreeing sessions a user", "a robot, a tenth of the sessions"]
)
def test_sessions_that_agree_are_called_a_preference_as_rarely_as_is_promised(name: str) -> None:
    family = next(one for one in FAMILIES if one.name == name)
    found = cell(family, 300, 200, "test")
    assert found.false <= chance(family.promised, 200)
    assert found.power > 0.5
