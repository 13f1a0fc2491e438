"""How evidence was kept, as tables and in words for the first screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from harness.core.printable import counted
from harness.corpus.tuning import Leak
from harness.policy.looks import Looks
from harness.report.rounding import minute, percent


@dataclass(frozen=True, slots=True)
class JudgementCoverage:
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

    coverage: JudgementCoverage
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


PREFIX = 12
ORDINALS = {1: "first", 2: "second", 3: "third"}


def lines(found: Custody) -> tuple[str, ...]:
    """Describe all of it for the first screen, a line each."""
    return tuple(_lines(found))


def _lines(found: Custody) -> Iterator[str]:
    yield _coverage(found.coverage)
    yield _pin(found)
    yield from (_tuned(leak, found.tuned_reason) for leak in found.tuned)
    if found.since:
        said = "; ".join(found.since.changes)
        yield f"Since the decision of {minute(found.since.at)}, the last on other evidence: {said}."
    if found.unprobed:
        named = ", ".join(found.unprobed)
        yield f"Identity of {named} is self-reported: its index was not verified."
    if found.raced:
        yield "Times are taken as the file of the race states them; they cannot be derived again."
    again_at = {step: one for step, one in found.looks.items() if one.attempts > 1 or one.before}
    for step, one in again_at.items():
        yield _look(step, one)
    if not again_at:
        yield "Every step is judged for the first time."
    if not again_at and found.earlier:
        before = "; ".join(found.earlier)
        yield f"Earlier in the experiment log, of which this is line {found.number}: {before}."
    if found.number == 1:
        yield "The experiment log begins here, so nothing is known of earlier decisions."


def _pin(found: Custody) -> str:
    pin = found.pinned
    if pin and pin.differences:
        return f"NOT AS PINNED on {pin.at}: {'; '.join(pin.differences)}."
    if pin:
        again = f" ({_ordinal(pin.times)} pin)" if pin.times > 1 else ""
        return f"As pinned on {pin.at}{again}: queries, judgements and race settings."
    if found.pinned_names:
        return (
            "Query set not pinned under this name: the policy has pins of"
            f" {', '.join(found.pinned_names)}. Pins go by the data's name: rename the folder,"
            f" or pin it: {found.command}"
        )
    return f"Query set not pinned: removed queries would go unnoticed. Pin it: {found.command}"


def _tuned(leak: Leak, reason: str) -> str:
    if not leak.seen:
        on = ", ".join(leak.collections)
        return f"{leak.arm} was tuned on {on}, and on none of these queries."
    if reason:
        return f"Allowed by the policy: {leak.said}. Its reason: {reason}."
    return f"INVALID: {leak.said}."


def _coverage(of: JudgementCoverage) -> str:
    said = f"{counted(of.queries, 'query')}, all of them judged"
    if of.unjudged:
        share = percent(of.unjudged / of.queries)
        have = "has" if of.unjudged == 1 else "have"
        said = f"{counted(of.queries, 'query')}: {of.unjudged:,} ({share}) {have} no judgement"
    if of.negative:
        said += f"; {counted(of.negative, 'has')} no relevant document"
    if of.strangers:
        said += f"; {counted(of.strangers, 'judged query is')} not in the query set"
    if of.left_out:
        given = of.queries + of.left_out
        said += f"; without a judgement, and so left out: {of.left_out:,} of {given:,} queries"
    if of.own:
        said += (
            f"; {counted(of.own, 'query is')} also in the corpus: hits of its own id are left out"
        )
    for arm, count in of.unanswered.items():
        said += f"; {arm} left {count:,} unanswered"
    return f"{said}."


def _look(step: str, one: Looks) -> str:
    races = f", {one.unjudged} of them races that no gate judged" if one.unjudged else ""
    resumed = f"; races resumed after a stop: {one.resumed}" if one.resumed else ""
    kinds = f"{one.untimed} at results, {one.timed} at times{races}; the larger counts{resumed}"
    earlier = f" Earlier outcomes: {_outcomes(one.before)}." if one.before else ""
    since = f" Changed since the last look: {'; '.join(one.since)}." if one.since else ""
    return f"{step}: {_ordinal(one.attempts)} look ({kinds}).{earlier}{since}"


def _outcomes(before: Sequence[tuple[str, str]]) -> str:
    """List outcomes from the oldest on; those that follow each other unchanged stand as one."""
    return ", ".join(
        f"{outcome} {len(days)} times, last on {days[-1]}"
        if len(days) > 1
        else f"{outcome} on {days[0]}"
        for outcome, each in groupby(before, key=itemgetter(1))
        if (days := [day for day, _ in each])
    )


def _ordinal(count: int) -> str:
    return ORDINALS.get(count, f"{count}th")
