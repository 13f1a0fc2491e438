"""How evidence was kept: how complete it is, as pinned or not, and how often it was looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.policy.looks import Looks
from harness.report.rounding import percent

PREFIX = 12
ORDINALS = {1: "first", 2: "second", 3: "third"}


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a query set can be judged on."""

    queries: int
    judged: int
    """Queries with a judgement."""
    negative: int
    """Of these, the ones that no document answers."""
    strangers: int
    """Judged queries that are not in the query set."""
    unanswered: Mapping[str, int]
    """Queries without an answer, by arm; arms that answered all are left out."""
    left_out: int = 0
    """Queries that the import left out, because they have no judgement."""

    @property
    def unjudged(self) -> int:
        """Queries without a judgement."""
        return self.queries - self.judged


@dataclass(frozen=True, slots=True)
class Pinned:
    """The pin of these data, and what is other now."""

    at: str
    """Day of the pin."""
    times: int
    """How often these data were pinned, this one included."""
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Registered:
    """The registration of a plan, and what is other now."""

    file: str
    sha256: str | None
    """None where the policy demands one that is not there."""
    at: str
    """When it was registered; empty where it was not."""
    by: str
    looked: int
    """How often the step looked at most had been looked at by then."""
    demanded: bool
    """Whether the policy names it."""
    departures: tuple[str, ...]
    """In policy and data."""
    today: tuple[str, ...]
    """In the race, and in how often it was looked at."""


@dataclass(frozen=True, slots=True)
class Since:
    """What changed in queries and judgements since the last decision on others."""

    at: str
    """When that was decided."""
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Custody:
    """All of it, of one data set and one decision."""

    coverage: Coverage
    pinned: Pinned | None
    """None without a pin of these data."""
    command: str
    """What to type to pin them."""
    number: int
    """Of the decision's line in the log of experiments."""
    previous: str
    """Digest of the line before it."""
    since: Since | None
    """None where no decision on other queries or judgements is in the log."""
    looks: Mapping[str, Looks]
    """By step."""
    earlier: tuple[str, ...] = ()
    """What the lines before it were, in words."""
    unprobed: tuple[str, ...] = ()
    """Arms whose index no one counted: their identity is their own word."""
    registered: Registered | None = None
    """None where the policy demands no registration and none is beside it."""
    pinned_names: tuple[str, ...] = ()
    """Data sets with pins of the policy, if these data have none."""

    @property
    def attempts(self) -> dict[str, int]:
        """How often each step was judged, this time included."""
        return {step: found.attempts for step, found in self.looks.items()}


def evidence_json(found: Custody) -> dict[str, Any]:
    """Give what is the same from day to day, for machines."""
    of, pin = found.coverage, found.pinned
    return {
        "queries": of.queries,
        "judged": of.judged,
        "unjudged": of.unjudged,
        "negative": of.negative,
        "strangers": of.strangers,
        "unanswered": dict(of.unanswered),
        "unprobed": list(found.unprobed),
        "pin": {
            "command": found.command,
            "pinned_at": pin.at if pin else None,
            "times": pin.times if pin else 0,
            "differences": list(pin.differences) if pin else [],
        },
        "registration": _registration_json(found.registered),
    }


def _registration_json(found: Registered | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "file": found.file,
        "sha256": found.sha256,
        "registered_at": found.at or None,
        "by": found.by,
        "looked_at_before": found.looked,
        "demanded": found.demanded,
        "departures": list(found.departures),
    }


def record_json(found: Custody) -> dict[str, Any]:
    """Give what rests on the log of one place, for machines."""
    return {
        "number": found.number,
        "previous": found.previous,
        "earlier": list(found.earlier),
        "since": {"at": found.since.at, "changes": list(found.since.changes)}
        if found.since
        else None,
        "departures": list(found.registered.today) if found.registered else [],
        "steps": {
            step: {
                "looks": one.attempts,
                "untimed": one.untimed,
                "timed": one.timed,
                "unjudged_races": one.unjudged,
                "since": list(one.since),
                "before": [list(each) for each in one.before],
            }
            for step, one in found.looks.items()
        },
    }


def lines(found: Custody) -> tuple[str, ...]:
    """Say all of it for the first screen, a line each."""
    return tuple(_lines(found))


def _lines(found: Custody) -> Iterator[str]:
    yield _coverage(found.coverage)
    yield _pin(found)
    if found.registered:
        yield _registration(found.registered)
    if found.since:
        said = "; ".join(found.since.changes)
        yield f"Since the decision of {found.since.at}, the last on other evidence: {said}."
    if found.unprobed:
        named = ", ".join(found.unprobed)
        yield f"Identity not checked of {named}: no index was counted, so it is its own word."
    again_at = {step: one for step, one in found.looks.items() if one.attempts > 1 or one.before}
    for step, one in again_at.items():
        yield _look(step, one)
    if not again_at:
        first = "First look at every step"
        if found.earlier:
            before = "; ".join(found.earlier)
            first += f", by line {found.number} of the experiment log. Before it: {before}"
        yield f"{first}."
    if found.number == 1:
        yield "No log of earlier looks: this one begins here, and nothing is known of others."


def _pin(found: Custody) -> str:
    pin = found.pinned
    if pin and pin.differences:
        return f"NOT AS PINNED on {pin.at}: {'; '.join(pin.differences)}."
    if pin:
        again = f" ({_ordinal(pin.times)} pin)" if pin.times > 1 else ""
        return f"As pinned on {pin.at}{again}: queries, judgements and race settings."
    if found.pinned_names:
        return (
            f"NOT PINNED under this name: the policy has pins of {', '.join(found.pinned_names)}."
            " Pins go by the data's name, so a renamed folder loses its own: name it as it was, or"
            f" pin it: {found.command}"
        )
    return f"NOT PINNED: nothing notices a trimmed query set. Pin it: {found.command}"


def _registration(found: Registered) -> str:
    other = "; ".join((*found.departures, *found.today))
    if found.sha256 is None:
        return f"NOT REGISTERED: {other}."
    when = f"on {found.at} by {found.by}, {found.file} {found.sha256[:PREFIX]}"
    late = f", after {found.looked} looks" if found.looked else ""
    if other:
        return f"NOT AS REGISTERED {when}{late}: {other}."
    return f"As registered {when}{late}: gates, margins, queries and looks."


def _coverage(of: Coverage) -> str:
    share = f" ({percent(of.unjudged / of.queries)})" if of.unjudged else ""
    said = f"{of.queries:,} queries: {of.unjudged:,} unjudged{share}, {of.negative:,} negative"
    if of.strangers:
        said += f"; {of.strangers:,} judged queries are not in the query set"
    if of.left_out:
        given = of.queries + of.left_out
        said += f"; {of.left_out:,} of {given:,} queries have no judgement and were left out"
    for arm, count in of.unanswered.items():
        said += f"; {arm} left {count:,} unanswered"
    return f"{said}."


def _look(step: str, one: Looks) -> str:
    races = f", {one.unjudged} of them races that no gate judged" if one.unjudged else ""
    resumed = f"; races resumed after a stop: {one.resumed}" if one.resumed else ""
    kinds = f"{one.untimed} untimed, {one.timed} timed{races}{resumed}"
    before = ", ".join(f"{day} {outcome}" for day, outcome in one.before)
    earlier = f" Before: {before}." if before else ""
    since = f" Other than last time: {'; '.join(one.since)}." if one.since else ""
    return f"{step}: {_ordinal(one.attempts)} look ({kinds}).{earlier}{since}"


def _ordinal(count: int) -> str:
    return ORDINALS.get(count, f"{count}th")
