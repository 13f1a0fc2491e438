"""Which engine users prefer: clicks of each user, credited to the arms of the user's lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

import numpy as np

from harness.core.errors import EvidenceError
from harness.core.scores import Estimate
from harness.shadow.clicks.log import Clicks, ShownList
from harness.shadow.clicks.team_draft import credits_of, preference_of
from harness.stats.bounded import Span
from harness.stats.sequential.evalues import evalues_each

HOURLY = 60
"""Lists of one user within an hour; more are a robot's."""
ALIKE = 20
"""Lists of one user; where all have clicks, and at the same ranks, they are a robot's."""
MIN_USERS = 2
SIGNS = Span(-1.0, 1.0)


class Preference(NamedTuple):
    """Users who prefer the candidate, the control, or neither."""

    wins: int
    losses: int
    ties: int
    estimate: Estimate
    """Share of wins minus that of losses."""


@dataclass(frozen=True, slots=True)
class Preferences:
    """Each candidate against the control, over the users who saw mixed lists."""

    control: str
    candidates: Mapping[str, Preference]
    """By arm; with several, intervals are corrected after Bonferroni."""
    users: int
    lists: int
    clicks: int
    failed: int
    """Lists that an arm failed on: the control's own was shown, and no arm gets credit."""
    unmixed: int
    """Lists that were shown while mixing was off."""
    strays: int
    anonymous: int
    """Mixed lists of unknown users; they are left out, as those of robots are."""
    robots: Mapping[str, int]
    """Users that are left out, by reason."""


def preferences(found: Clicks, *, confidence: float) -> Preferences:
    """Credit clicks to arms, and compare each candidate with the control.

    Each user counts once, by the sum of credits over all lists: lists of one user agree.

    Raises:
        EvidenceError: no list was mixed, lists of different arms were, or too few users are known.
    """
    mixed = [one for one in found.shown if len(one.arms) > 1 and not one.failed]
    if not mixed:
        raise EvidenceError(
            "the log shows no mixed list; switch interleaving on (harness migrate interleave)"
        )
    arms = mixed[0].arms
    if other := next((one for one in mixed if one.arms != arms), None):
        raise EvidenceError(
            f"lists of {', '.join(arms)} and of {', '.join(other.arms)} are in one log; write a"
            " log of its own for each set of arms"
        )
    users: dict[str, list[ShownList]] = {}
    robots: Counter[str] = Counter()
    for one in mixed:
        if one.user:
            users.setdefault(one.user, []).append(one)
    for user, lists in [*users.items()]:
        if why := _robot(lists, found):
            robots[why] += 1
            del users[user]
    known = sum(map(len, users.values()))
    if len(users) < MIN_USERS:
        raise EvidenceError(
            f"{len(users)} users are known, and lists of one user are not independent;"
            " log who sees each list: Interleaver.search(..., user=ACCOUNT_OR_LASTING_COOKIE)"
        )
    signs = np.array([_signs(lists, found) for lists in users.values()])
    estimates = evalues_each(
        signs, span=SIGNS, confidence=1 - (1 - confidence) / (len(arms) - 1), clusters=None
    )
    return Preferences(
        control=arms[0],
        candidates={
            arm: Preference(int((of > 0).sum()), int((of < 0).sum()), int((of == 0).sum()), one)
            for arm, of, one in zip(arms[1:], signs.T, estimates, strict=True)
        },
        users=len(users),
        lists=known,
        clicks=sum(len(_clicked(one, found)) for lists in users.values() for one in lists),
        failed=sum(bool(one.failed) for one in found.shown),
        unmixed=sum(len(one.arms) == 1 for one in found.shown),
        strays=found.strays,
        anonymous=sum(not one.user for one in mixed),
        robots=robots,
    )


def _signs(lists: Sequence[ShownList], found: Clicks) -> list[float]:
    """Give 1, -1 or 0 for each candidate, over all lists of a user."""
    each = [credits_of(one.mixed, _clicked(one, found), len(one.arms)) for one in lists]
    return [
        float(preference_of((one[0], one[at]) for one in each)) for at in range(1, len(each[0]))
    ]


def _robot(lists: Sequence[ShownList], found: Clicks) -> str:
    """Say by what a user is a robot; empty where nothing shows it."""
    at = sorted(one.at for one in lists)
    if any(b - a < timedelta(hours=1) for a, b in zip(at, at[HOURLY:], strict=False)):
        return f"more than {HOURLY} lists within an hour"
    ranks = {
        tuple(rank for rank, doc in enumerate(one.documents) if doc in _clicked(one, found))
        for one in lists
    }
    if len(lists) >= ALIKE and len(ranks) == 1 and ranks != {()}:
        return f"clicks on the same ranks of all lists, {ALIKE} or more"
    return ""


def _clicked(one: ShownList, found: Clicks) -> frozenset[str]:
    return found.clicked.get(one.id, frozenset())
