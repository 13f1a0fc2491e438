"""What sessions prefer: clicks of each session, credited to the arms of its lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.core.errors import EvidenceError
from harness.shadow.clicks.log import Clicks, ShownList
from harness.shadow.clicks.team_draft import credits_of, preference_of
from harness.stats.holm import adjusted
from harness.stats.sequential.anytime import Preference, preference


@dataclass(frozen=True, slots=True)
class Preferences:
    """Each candidate against the control, over the sessions that saw mixed lists."""

    control: str
    candidates: Mapping[str, Preference]
    """By arm; with several, p-values are corrected after Holm and intervals after Bonferroni."""
    sessions: int
    lists: int
    clicks: int
    failed: int
    """Lists that an arm failed on: the control's own was shown, and no arm gets credit."""
    unmixed: int
    """Lists that were shown while mixing was off."""
    strays: int


def preferences(found: Clicks, *, confidence: float) -> Preferences:
    """Credit clicks to arms, and test each candidate against the control.

    Raises:
        EvidenceError: no list was mixed, or lists of different arms were.
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
    sessions: dict[str, list[tuple[int, ...]]] = {}
    for one in mixed:
        sessions.setdefault(one.session, []).append(_credits(one, found))
    candidates = {
        arm: preference(
            np.array([
                preference_of((each[0], each[at]) for each in lists) for lists in sessions.values()
            ]),
            confidence=1 - (1 - confidence) / (len(arms) - 1),
        )
        for at, arm in enumerate(arms)
        if at
    }
    return Preferences(
        control=arms[0],
        candidates=_corrected(candidates),
        sessions=len(sessions),
        lists=len(mixed),
        clicks=sum(len(found.clicked.get(one.id, ())) for one in mixed),
        failed=sum(bool(one.failed) for one in found.shown),
        unmixed=sum(len(one.arms) == 1 for one in found.shown),
        strays=found.strays,
    )


def _credits(one: ShownList, found: Clicks) -> tuple[int, ...]:
    return credits_of(one.mixed, found.clicked.get(one.id, frozenset()), len(one.arms))


def _corrected(found: Mapping[str, Preference]) -> Mapping[str, Preference]:
    p_values = adjusted(np.array([one.p_value for one in found.values()]))
    return {
        arm: Preference(one.wins, one.losses, one.ties, float(p_value), one.estimate)
        for (arm, one), p_value in zip(found.items(), p_values, strict=True)
    }
