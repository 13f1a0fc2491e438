"""How evidence was kept: how complete it is, as pinned or not, and how often it was looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.corpus.tuning import Leak
from harness.policy.looks import Looks
from harness.report.rounding import for_json


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
    own: int = 0
    """Queries that are also documents, and whose own hit was taken out of each run."""

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
    pinned_names: tuple[str, ...] = ()
    """Data sets with pins of the policy, if these data have none."""
    tuned: tuple[Leak, ...] = ()
    """Arms with a tuning record, and how many of these queries it has seen."""
    tuned_reason: str = ""
    """Why the policy allows queries that it has seen; empty where it does not."""
    raced: bool = False
    """Whether times of a race are part of the evidence."""


def evidence_json(custody: Custody) -> dict[str, Any]:
    """Give what is the same from day to day, for machines."""
    of, pin = custody.coverage, custody.pinned
    return {
        "queries": of.queries,
        "judged": of.judged,
        "unjudged": of.unjudged,
        "negative": of.negative,
        "strangers": of.strangers,
        "unanswered": dict(of.unanswered),
        "unprobed": list(custody.unprobed),
        "pin": {
            "command": custody.command,
            "pinned_at": pin.at if pin else None,
            "times": pin.times if pin else 0,
            "differences": list(pin.differences) if pin else [],
        },
        **({"tuned": [leak._asdict() for leak in custody.tuned]} if custody.tuned else {}),
    }


def record_json(custody: Custody) -> dict[str, Any]:
    """Give what rests on the log of one place, for machines."""
    return {
        "number": custody.number,
        "previous": custody.previous,
        "earlier": list(custody.earlier),
        "since": {"at": custody.since.at, "changes": list(custody.since.changes)}
        if custody.since
        else None,
        "steps": {
            step: {
                "looks": one.attempts,
                "spent": for_json(one.spent),
                "untimed": one.untimed,
                "timed": one.timed,
                "unjudged_races": one.unjudged,
                "since": list(one.since),
                "before": [list(each) for each in one.before],
            }
            for step, one in custody.looks.items()
        },
    }
