"""A shadow log as rows of words and as JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

from harness.agreement import Class
from harness.core.printable import counted, one_line
from harness.core.scores import Estimate
from harness.report.doc import Cell, Table
from harness.report.rounding import estimate_for_json, for_json, moved, number, share, watched
from harness.shadow.alarms import ARMS, Alarm, State
from harness.shadow.divergences import BLOCKING, Judged, Standing, Suppressions, Trace
from harness.shadow.log import Between
from harness.shadow.summary import Summary

REASON = 160
"""Longest text of a reason, in characters."""
UNTIMED = "the control's time is not known: several answers came at once, or one came early"


def troubles(summary: Summary) -> Table:
    """Show degradations, and why queries, attempts and times were not compared."""
    rows = [
        (Cell(f"{arm}: {kind}"), Cell(f"{count:,}"), Cell("degradation"))
        for (arm, kind), count in sorted(
            summary.degradations.items(), key=lambda item: (-item[1], item[0])
        )
    ]
    rows += [
        (Cell("not taken", one_line(cause, REASON)), Cell(f"{count:,}"), Cell("no attempt"))
        for cause, count in sorted(summary.not_taken.items(), key=lambda item: (-item[1], item[0]))
    ]
    rows += [
        (Cell(kind, one_line(reason, REASON)), Cell(f"{count:,}"), Cell("not compared"))
        for (kind, reason), count in sorted(
            summary.reasons.items(), key=lambda item: (-item[1], item[0])
        )
    ]
    if count := summary.untimed:
        rows.append((Cell("time", UNTIMED), Cell(f"{count:,}"), Cell("no time compared")))
    return Table("What went worse than it should have", ("what", "times", "kind"), tuple(rows))


NS_PER_S = 10**9
NOTHING_YET = "nothing yet"
FAILURES_LEAD = 0.01
"""Share of failed attempts of one arm above which the headline begins with it."""
UNKNOWN = Between()


@dataclass(frozen=True, slots=True)
class Shadowed:
    """The state of a log, checked against the suppression list."""

    summary: Summary
    judged: Judged
    suppressions: Suppressions
    between: Between = UNKNOWN

    @property
    def raised(self) -> tuple[Alarm, ...]:
        """Alarms that are raised now."""
        return tuple(one for one in self.summary.alarms if one.state is State.RAISED)

    @property
    def early(self) -> bool:
        """Whether nothing was compared yet, or an alarm has too little to go by."""
        states = {one.state for one in self.summary.alarms}
        return State.EARLY in states or not self.summary.tally.compared


def moment(at: int) -> str:
    """Write nanoseconds since 1970 as a time in UTC, to the second."""
    return f"{datetime.fromtimestamp(at // NS_PER_S, UTC):%Y-%m-%d %H:%M:%S} UTC"


def headline(shadowed: Shadowed) -> str:
    """Say in one line what a reader should know first: alarms, agreement, divergences."""
    said = _failing(shadowed.summary)
    blocking = shadowed.judged.blocking
    if shadowed.raised:
        names = ", ".join(dict.fromkeys(one.name for one in shadowed.raised))
        said.append(f"{counted(len(shadowed.raised), 'alarm')} raised ({names})")
    elif not said and not blocking:
        said.append("No alarm is raised")
    if overlap := shadowed.summary.tracks["overlap"].now:
        said.append(f"mean Jaccard of the first hits {number(overlap.value)}")
    if blocking:
        queries = len({trace.query for trace in blocking})
        times = sum(trace.times for trace in blocking)
        said.append(
            f"{counted(times, 'attempt')} of {counted(queries, 'query')} diverged without"
            " being accepted"
        )
    elif shadowed.summary.tally.compared:
        said.append("every divergence is accepted")
    if count := shadowed.summary.not_taken.total():
        said.append(f"{counted(count, 'served query')} could not be compared")
    said_of = f"{shadowed.between.said}: " if shadowed.between.said else ""
    text = "; ".join(said) + "."
    return said_of + (text[0].lower() if said_of else text[0].upper()) + text[1:]


def _failing(summary: Summary) -> list[str]:
    """State which arm failed in more than ``FAILURES_LEAD`` of the attempts."""
    attempted = summary.tally.attempted
    return [
        f"the {arm} failed in {share(count, attempted)} of {counted(attempted, 'attempt')}"
        for arm, count in summary.failures.items()
        if count > FAILURES_LEAD * attempted
    ]


def title(shadowed: Shadowed) -> str:
    """Name the engines, as far as the log does."""
    control, candidate = shadowed.between
    return f"{candidate or 'The candidate'} in the shadow of {control or 'the control'}"


def span(summary: Summary) -> str:
    """Say from when to when the log is."""
    if summary.first is None or summary.last is None:
        return "No attempt was written down yet."
    return f"{moment(summary.first.at)} to {moment(summary.last.at)}"


def tally(summary: Summary) -> Table:
    """Show the request accounting."""
    of = summary.tally
    parts = {
        "compared": of.compared,
        "errored": of.errored,
        "skipped": of.skipped,
        "shed": of.shed,
    }
    cells = (Cell(f"{count:,}", share(count, of.attempted)) for count in parts.values())
    lost = Cell(f"{summary.missing:,}", "numbered, and not in the log" if summary.missing else "")
    count = summary.not_taken.total()
    other = Cell(f"{count:,}", "served, and no attempts" if count else "")
    row = (Cell(f"{of.attempted:,}"), *cells, lost, other)
    header = ("attempted", *(f"= {name}" if at == 0 else f"+ {name}" for at, name in
                             enumerate(parts)), "lost beside", "not taken")  # fmt: skip
    return Table("Request accounting", header, (row,))


def estimates(summary: Summary) -> Table:
    """Show each estimate with its confidence sequence."""
    bounds = summary.bounds.watch
    names = {
        "overlap": "overlap: mean Jaccard of the first k",
        "failures": "failures: share of the candidate's answers that failed or were too late",
        "slow": f"slow: share of pairs slower than {bounds.slow_ratio:g} times the control",
        "ratio": "time: median of candidate / control",
        "noise": "noise: share of repeated queries that the control answered differently",
    }
    rows = tuple(_estimate(names[name], track.now) for name, track in summary.tracks.items())
    sure = f"{100 * bounds.confidence:g} %"
    caption = f"How sure: {sure} confidence sequences, that hold however often they are read"
    return Table(caption, ("what", "so far", "lies within", "pairs"), rows)


def _estimate(name: str, now: Estimate | None) -> tuple[Cell, ...]:
    if now is None:
        return Cell(name), Cell(NOTHING_YET), Cell(""), Cell("0")
    return Cell(name), Cell(number(now.value)), Cell(watched(now)), Cell(f"{now.n:,}")


def classes(summary: Summary, *, by_slice: bool) -> Table:
    """Count attempts by class, most first; with a column a slice where that is wanted."""
    slices = sorted(summary.by_slice) if by_slice else []
    slices = slices if len(slices) > 1 else []
    found = summary.classes

    def cell(of: Counter[Class], kind: Class) -> Cell:
        return Cell(f"{of[kind]:,}", share(of[kind], of.total())) if of[kind] else Cell("0")

    rows = tuple(
        (Cell(kind), cell(found, kind), *(cell(summary.by_slice[name], kind) for name in slices))
        for kind in sorted(found, key=lambda kind: (-found[kind], kind))
    )
    return Table("Attempts by class", ("class", "all", *slices), rows)


def alarms(shadowed: Shadowed) -> Table:
    """Show every alarm, the raised ones first."""
    order = (State.RAISED, State.EARLY, State.QUIET)
    listed = sorted(shadowed.summary.alarms, key=lambda one: order.index(one.state))
    rows = tuple(
        (
            Cell(f"{one.name} {one.arm}".strip(), one.about),
            Cell(one.state.upper() if one.state is State.RAISED else one.state),
            _measured(one),
            Cell(number(one.bound)),
            Cell("" if one.since is None else f"{one.since:,}"),
        )
        for one in listed
    )
    header = ("alarm", "state", "measured", "bound", "since attempt")
    return Table("Alarms", header, rows)


def _measured(one: Alarm) -> Cell:
    now = one.estimate
    if now is None:
        return Cell(NOTHING_YET, one.note)
    if one.note:
        return Cell(number(now.value), one.note)
    return Cell(number(now.value), f"{watched(now)}, n {now.n:,}")


def divergences(shadowed: Shadowed, limit: int, *, text: int) -> Table:
    """Show the worst queries, blocking ones first; ``text`` characters of each."""
    shown = shadowed.judged.standing[:limit]
    rows = tuple(
        (
            Cell(what_was_typed(trace, text), trace.query),
            Cell(trace.outcome),
            Cell(", ".join(trace.slices)),
            Cell(f"{trace.times:,}"),
            Cell("" if trace.jaccard is None else number(trace.jaccard)),
            Cell(standing),
        )
        for trace, standing in shown
    )
    whole = len(shadowed.judged.standing)
    caption = f"Queries that diverge, the worst {len(rows):,} of {whole:,}"
    header = ("query", "class", "slices", "times", "lowest Jaccard", "register")
    return Table(caption, header, rows)


def what_was_typed(trace: Trace, limit: int) -> str:
    """Give the text of a query on one line, or words where the log has none."""
    if not trace.text:
        return "(its divergence is not in the log)"
    return one_line(trace.text, limit) or "(white space)"


def accepted(shadowed: Shadowed, today: str) -> Table:
    """Show the suppression list: each entry, and whether it still counts."""
    rows = tuple(
        (
            Cell(entry.about, one_line(entry.reason)),
            Cell(one_line(entry.by)),
            Cell(entry.until.isoformat()),
            Cell("expired" if entry.until.isoformat() < today else "counts"),
        )
        for entry in shadowed.suppressions.entries
    )
    return Table("What is accepted", ("what, and why", "by", "until", f"on {today}"), rows)


def who(summary: Summary) -> Table:
    """Show who answered for each arm, by fingerprint."""
    rows = tuple(
        (Cell(arm), Cell(name or "nobody"), Cell(f"{count:,}"))
        for arm in ARMS
        for name, count in summary.served_by[arm].most_common()
    )
    return Table("Who answered", ("arm", "fingerprint", "answers"), rows)


def standing_counts(shadowed: Shadowed) -> str:
    """Say how many diverging attempts the suppression list accepts, and how many it does not."""
    counts = shadowed.judged.counts
    parts = [f"{counts[name]:,} {name}" for name in Standing if counts[name]]
    blocking = sum(counts[name] for name in BLOCKING)
    said = ", ".join(parts) or "none"
    return (
        f"{counted(counts.total(), 'diverging attempt')}: {said}. {blocking:,} block the next step."
    )


FORMAT = 1


def to_json(shadowed: Shadowed, *, today: date, percentiles: Mapping[str, Any]) -> dict[str, Any]:
    """Give the summary; estimates are {value, low, high, n}, with null for what is unbounded.

    Both ends are null where the values have moved while they were watched: no interval holds then.
    """
    summary = shadowed.summary
    first, last = summary.first, summary.last
    return {
        "format": FORMAT,
        "as_of": today.isoformat(),
        "headline": headline(shadowed),
        "from_ns": first.at if first else None,
        "to_ns": last.at if last else None,
        "tally": {**asdict(summary.tally), "missing": summary.missing},
        "classes": {str(kind): count for kind, count in summary.classes.items()},
        "classes_by_slice": {
            name: {str(kind): count for kind, count in counts.items()}
            for name, counts in summary.by_slice.items()
        },
        "confidence": summary.bounds.watch.confidence,
        "estimates": {name: _held(track.now) for name, track in summary.tracks.items()},
        "sequences": {
            name: [{"at_ns": point.at, **(_held(point.estimate) or {})} for point in track.points]
            for name, track in summary.tracks.items()
        },
        "latency_ns": percentiles,
        "alarms": [
            {
                "name": one.name,
                "arm": one.arm,
                "state": str(one.state),
                "bound": one.bound,
                "estimate": estimate_for_json(one.estimate),
                "since": one.since,
                "note": one.note,
            }
            for one in summary.alarms
        ],
        "divergences": [
            {
                "query": trace.query,
                "text": trace.text,
                "class": str(trace.outcome),
                "slices": list(trace.slices),
                "times": trace.times,
                "jaccard": for_json(trace.jaccard),
                "register": str(standing),
            }
            for trace, standing in shadowed.judged.standing
        ],
        "blocking": len(shadowed.judged.blocking),
        "register": [
            {
                "class": str(entry.kind or ""),
                "slice": entry.slice,
                "query": entry.query,
                "reason": entry.reason,
                "by": entry.by,
                "until": entry.until.isoformat(),
            }
            for entry in shadowed.suppressions.entries
        ],
        "failures": summary.failures,
        "degradations": [
            {"arm": arm, "kind": str(kind), "times": count}
            for (arm, kind), count in sorted(summary.degradations.items())
        ],
        "not_compared": [
            {"class": str(kind), "reason": reason, "times": count}
            for (kind, reason), count in sorted(summary.reasons.items())
        ],
        "not_taken": [
            {"cause": cause, "times": count} for cause, count in sorted(summary.not_taken.items())
        ],
        "untimed": summary.untimed,
        "served_by": {arm: dict(summary.served_by[arm]) for arm in ARMS},
    }


def _held(found: Estimate | None) -> dict[str, float | int | None] | None:
    if found is not None and moved(found):
        found = replace(found, low=-math.inf, high=math.inf)
    return estimate_for_json(found)
