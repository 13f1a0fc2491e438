"""Interleaved lists, their clicks, and which engine users prefer."""

import json
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from secrets import token_hex
from typing import NamedTuple

import numpy as np

from harness.core.errors import BadFile, EvidenceError
from harness.core.formats import Moment
from harness.core.printable import counted
from harness.core.scores import Estimate
from harness.core.store import Journal, JsonLines
from harness.stats.bounded import ValueRange
from harness.stats.sequential import evalues_each


def team_draft(rankings: Sequence[Sequence[str]], length: int, coins: Random) -> dict[str, int]:
    """Mix rankings into at most ``length`` documents, each with the number of its ranking."""
    documents: dict[str, int] = {}
    rest = [iter(ranking) for ranking in rankings]
    playing = [*range(len(rankings))]
    while playing and len(documents) < length:
        coins.shuffle(playing)
        for team in (*playing,):
            fresh = next((one for one in rest[team] if one not in documents), None)
            if fresh is None:
                playing.remove(team)
            elif len(documents) < length:
                documents[fresh] = team
    return documents


FILE = "clicks.jsonl"


@dataclass(frozen=True, slots=True)
class ShownList:
    """A list that was shown."""

    id: str
    at: Moment
    query: str
    arms: tuple[str, ...]
    """The control first; the control alone where lists were not mixed."""
    documents: tuple[str, ...]
    teams: tuple[int, ...]
    """For each document the place of its arm in ``arms``."""
    failed: str = ""
    """What an arm raised, so that the control's list was shown as it is."""
    user: str = ""
    """Who saw it, in all sessions and as no one else; empty where that is unknown."""


@dataclass(frozen=True, slots=True)
class Click:
    """A click on a document of a list."""

    id: str
    document: str


CLICKS: Journal[ShownList | Click] = JsonLines(
    "a record of clicks",
    ShownList | Click,
    partial(json.dumps, ensure_ascii=False),
    remedy="Remove the line: a writer that was killed may have cut it off.",
)


class ClickLog:
    """Adds records to the log in a folder; a record is one write, so that writers may share it."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, record: ShownList | Click) -> None:
        """Add a record."""
        os.write(self._file, CLICKS.text([record]).encode("utf-8", "replace"))

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


@dataclass(frozen=True, slots=True)
class Clicks:
    """A log as it was read."""

    shown: tuple[ShownList, ...]
    clicked: Mapping[str, frozenset[str]]
    """Documents that were clicked, by the id of their list."""
    strays: int
    """Clicks on a list or a document that the log does not show; they count for nothing."""


def read(folder: Path) -> Clicks:
    """Read the log in a folder."""
    path = folder / FILE
    shown: dict[str, ShownList] = {}
    clicks: list[Click] = []
    for number, _, one in CLICKS.lines(path):
        if isinstance(one, Click):
            clicks.append(one)
        elif one.id in shown:
            hint = "Keep one of the two lines."
            raise BadFile(path, f"the list {one.id} comes twice", hint, number)
        elif len(one.documents) != len(one.teams) or not {*one.teams} <= {*range(len(one.arms))}:
            problem = "its teams are not those of its documents and arms"
            raise BadFile(path, problem, "Restore the line, or remove it.", number)
        else:
            shown[one.id] = one
    kept = [one for one in clicks if one.id in shown and one.document in shown[one.id].documents]
    clicked: dict[str, frozenset[str]] = {}
    for click in kept:
        clicked[click.id] = clicked.get(click.id, frozenset()) | {click.document}
    return Clicks(tuple(shown.values()), clicked, len(clicks) - len(kept))


def drawn(
    arms: tuple[str, ...],
    rankings: Sequence[Sequence[str]],
    k: int,
    seed: int,
    *,
    query: str,
    user: str = "",
    failed: str = "",
) -> ShownList:
    """Return a list of at most ``k`` documents, drawn by team draft from the seed and its own id.

    It is the first ranking's own for a single arm, and where an arm failed.
    """
    key, mixed = token_hex(8), dict.fromkeys(rankings[0][:k], 0)
    if len(arms) > 1 and not failed:
        mixed = team_draft(rankings, k, Random(f"{seed} {key}"))
    documents, teams = tuple(mixed), tuple(mixed.values())
    return ShownList(key, datetime.now(UTC), query, arms, documents, teams, failed, user)


HOURLY = 60
"""Lists of one user within an hour; more are a robot's."""
ALIKE = 20
"""Lists of one user; where all have clicks, and at the same ranks, they are a robot's."""
MIN_USERS = 2
SIGNS = ValueRange(-1.0, 1.0)


class Preference(NamedTuple):
    """Users who prefer the candidate, the control, or neither."""

    wins: int
    losses: int
    ties: int
    estimate: Estimate


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
    strays: int
    anonymous: int
    """Mixed lists of unknown users; they are left out, as those of robots are."""
    robots: Mapping[str, int]

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def sentences(self) -> Iterator[str]:
        """Write who is preferred and how surely, and what was left out."""
        yield (
            f"{counted(self.users, 'user')} saw {counted(self.lists, 'mixed list')} and clicked"
            f" {counted(self.clicks, 'document')}"
        )
        for arm, one in self.candidates.items():
            of = one.estimate
            verdict = (
                f"{arm} is preferred" if of.low > 0
                else f"{self.control} is preferred" if of.high < 0
                else "open: the interval holds no preference"
            )  # fmt: skip
            yield (
                f"{arm} against {self.control}: {of.value:+.3f} [{of.low:+.3f}, {of.high:+.3f}]"
                f" of users ({one.wins:,} to {one.losses:,}, {one.ties:,} ties): {verdict}"
            )
        failed = (
            "the control's own, because an arm failed: they count for no arm, and a candidate that"
            " fails on hard queries looks better than it is"
        )
        for count, counts, why in (
            (self.failed, "list was", failed),
            *((many, "user is", f"left out as robots: {why}") for why, many in self.robots.items()),
            (self.anonymous, "list is", "left out: its user is unknown"),
            (self.unmixed, "list was", "shown while mixing was off"),
            (self.strays, "click is", "on no list or document of the log"),
        ):
            if count:
                yield f"{counted(count, counts)} {why}"


def preferences(found: Clicks, *, confidence: float) -> Preferences:
    """Credit clicks to arms, and compare each candidate with the control."""
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
        lists=sum(map(len, users.values())),
        clicks=sum(len(_clicked(one, found)) for lists in users.values() for one in lists),
        failed=sum(bool(one.failed) for one in found.shown),
        unmixed=sum(len(one.arms) == 1 for one in found.shown),
        strays=found.strays,
        anonymous=sum(not one.user for one in mixed),
        robots=robots,
    )


def credits_of(shown: ShownList, clicked: Collection[str]) -> Counter[int]:
    """Count the clicked documents of each arm; a document that is clicked twice counts once."""
    by = zip(shown.documents, shown.teams, strict=True)
    return Counter(team for document, team in by if document in clicked)


def _signs(lists: Sequence[ShownList], found: Clicks) -> list[float]:
    """Return for each candidate whether the user clicked more on it than on the control."""
    each = Counter[int]()
    for one in lists:
        each += credits_of(one, _clicked(one, found))
    return [float(np.sign(each[at] - each[0])) for at in range(1, len(lists[0].arms))]


def _robot(lists: Sequence[ShownList], found: Clicks) -> str:
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
