"""A shadow log as rows of words and as JSON."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, date, datetime
from typing import Any

from harness.core.printable import counted, one_line
from harness.core.scores import Estimate
from harness.report.doc import Block, Cell, Num, TableBlock, Text, Value, table
from harness.report.rounding import estimate_for_json, for_json, moved, number, share, watched
from harness.shadow.divergences import BLOCKING, SuppressionStatus, Trace
from harness.shadow.summary import ARMS, Alarm, AlarmState, LogState, Summary

REASON = 160
UNTIMED = "the control's time is not known: the proxy of 0.1 got several answers at once"


def troubles(summary: Summary) -> TableBlock:
    """Show degradations, and why queries, attempts and times were not compared."""
    rows: list[tuple[Cell | str, int, str]] = [
        (f"{arm}: {kind}", count, "degradation")
        for (arm, kind), count in sorted(summary.degradations.items(), key=_most)
    ]
    rows += [
        (Cell("not taken", one_line(cause, REASON)), count, "no attempt")
        for cause, count in sorted(summary.not_taken.items(), key=_most)
    ]
    rows += [
        (Cell(kind, one_line(reason, REASON)), count, "not compared")
        for (kind, reason), count in sorted(summary.reasons.items(), key=_most)
    ]
    if count := summary.untimed:
        rows.append((Cell("time", UNTIMED), count, "no time compared"))
    return table("What went worse than it should have", ("what", "times", "kind"), rows)


def _most(item: tuple[object, int]) -> tuple[int, object]:
    return -item[1], item[0]


NS_PER_S = 10**9
NOTHING_YET = "nothing yet"
FAILURES_LEAD = 0.01
"""Share of failed attempts of one arm above which the headline begins with it."""


def overview(state: LogState, top: int, *, text: int, narrow: bool) -> Iterator[Block]:
    """Show how things stand, with the worst ``top`` queries, of each so many characters."""
    summary = state.summary
    tone = "bad" if state.raised else "open" if state.blocking else "good"
    yield Text(headline(state), tone)
    yield Text(span(summary), "about")
    tables = (
        tally(summary),
        estimates(summary),
        alarms(state, narrow=narrow),
        classes(summary, by_slice=not narrow),
        divergences(state, top, text=text),
        troubles(summary),
    )
    yield from (one for one in tables if one.rows)


def headline(shadowed: LogState) -> str:
    """Describe in one line what a reader should know first: alarms, agreement, divergences."""
    summary, blocking = shadowed.summary, shadowed.blocking
    attempted = summary.tally.attempted
    said = [
        f"the {arm} failed in {share(count, attempted)} of {counted(attempted, 'attempt')}"
        for arm, count in summary.failures.items()
        if count > FAILURES_LEAD * attempted
    ]
    if shadowed.raised:
        names = ", ".join(dict.fromkeys(one.name for one in shadowed.raised))
        said.append(f"{counted(len(shadowed.raised), 'alarm')} raised ({names})")
    elif not said and not blocking:
        early = "not yet decided: alarms have too little to go by"
        said.append(early if shadowed.early else "no alarm is raised")
    if overlap := summary.tracks["overlap"].now:
        said.append(f"mean Jaccard of the first hits {number(overlap.value)}")
    if blocking:
        queries = len({trace.query for trace in blocking})
        times = sum(trace.times for trace in blocking)
        said.append(
            f"{counted(times, 'attempt')} of {counted(queries, 'query')} diverged without"
            " being accepted"
        )
    elif summary.tally.compared:
        said.append("every divergence is accepted")
    if count := summary.not_taken.total():
        said.append(f"{counted(count, 'served query')} could not be compared")
    said_of = f"{shadowed.between.said}: " if shadowed.between.said else ""
    text = "; ".join(said) + "."
    return said_of + (text[0].lower() if said_of else text[0].upper()) + text[1:]


def title(shadowed: LogState) -> str:
    """Name the engines, as far as the log does."""
    between = shadowed.between
    candidate, control = between.candidate or "The candidate", between.control or "the control"
    return f"{candidate} in the shadow of {control}"


def span(summary: Summary) -> str:
    """Return from when to when the log is."""
    if summary.first is None or summary.last is None:
        return "No attempt was written down yet."
    ends = (
        datetime.fromtimestamp(one.at // NS_PER_S, UTC) for one in (summary.first, summary.last)
    )
    return " to ".join(f"{end:%Y-%m-%d %H:%M:%S} UTC" for end in ends)


def tally(summary: Summary) -> TableBlock:
    """Show the request accounting."""
    of, other = summary.tally, summary.not_taken.total()
    parts = {"= compared": of.compared, "+ errored": of.errored, "+ skipped": of.skipped,
             "+ shed": of.shed}  # fmt: skip
    cells = (Num(n, "count", more=share(n, of.attempted)) for n in parts.values())
    lost = "numbered, and not in the log" if summary.missing else ""
    return table(
        "Request accounting; shed: not sent to the candidate, to spare the machine",
        ("attempted", *parts, "lost beside", "not taken"),
        [(of.attempted, *cells, Num(summary.missing, "count", more=lost),
          Num(other, "count", more="served, and no attempts" if other else ""))],
    )  # fmt: skip


def estimates(summary: Summary) -> TableBlock:
    """Show each estimate with its confidence sequence."""
    bounds = summary.bounds.watch
    names = {
        "overlap": "overlap: mean Jaccard of the first k",
        "failures": "failures: share of the candidate's answers that failed or were too late",
        "slow": f"slow: share of pairs slower than {bounds.slow_ratio:g} times the control",
        "ratio": "time: median of candidate / control",
        "noise": "noise: share of repeated queries that the control answered differently;"
        f" {counted(summary.beyond_noise, 'pair')} of them differ where it did not",
    }
    found = {name: track.now for name, track in summary.tracks.items()}
    return table(
        f"How sure: {100 * bounds.confidence:g} % confidence sequences, that hold however often"
        " they are read",
        ("what", "so far", "lies within", "pairs"),
        (
            (names[name], Num(now.value), watched(now), now.n)
            if now
            else (names[name], NOTHING_YET, "", 0)
            for name, now in found.items()
        ),
    )


def classes(summary: Summary, *, by_slice: bool) -> TableBlock:
    """Count attempts by class, most first; with a column a slice where that is wanted."""
    slices = sorted(summary.by_slice) if by_slice and len(summary.by_slice) > 1 else []
    columns = [summary.classes, *(summary.by_slice[name] for name in slices)]
    kinds = sorted(summary.classes, key=lambda kind: (-summary.classes[kind], kind))
    return table(
        "Attempts by class: how the candidate's list differs from the control's",
        ("class", "all", *slices),
        (
            (kind, *(Num(of[kind], "count", more=share(of[kind], of.total()) if of[kind] else "")
                     for of in columns))
            for kind in kinds
        ),
    )  # fmt: skip


def alarms(shadowed: LogState, *, narrow: bool = False) -> TableBlock:
    """Show every alarm, the raised ones first; without what it is about on a narrow terminal."""
    order = (AlarmState.RAISED, AlarmState.EARLY, AlarmState.QUIET)
    return table(
        "Alarms",
        ("alarm", "state", "measured", "bound", "since attempt"),
        (
            (
                Cell(f"{one.name} {one.arm}".strip(), "" if narrow else one.about),
                one.state.upper() if one.state is AlarmState.RAISED else one.state,
                _measured(one), Num(one.bound), "" if one.since is None else one.since,
            )
            for one in sorted(shadowed.summary.alarms, key=lambda one: order.index(one.state))
        ),
    )  # fmt: skip


def _measured(one: Alarm) -> Value:
    now = one.estimate
    if now is None:
        return Cell(NOTHING_YET, one.note)
    return Num(now.value, more=one.note or f"{watched(now)}, n {now.n:,}")


def divergences(shadowed: LogState, limit: int, *, text: int) -> TableBlock:
    """Show the worst queries, blocking ones first; ``text`` characters of each."""
    shown, whole = shadowed.traces[:limit], len(shadowed.traces)
    return table(
        f"Queries that diverge, the worst {len(shown):,} of {whole:,}",
        ("query", "class", "slices", "times", "lowest Jaccard", "register"),
        (
            (
                Cell(what_was_typed(trace, text), trace.query), trace.outcome,
                ", ".join(trace.slices), trace.times,
                "" if trace.jaccard is None else Num(trace.jaccard), trace.register,
            )
            for trace in shown
        ),
    )  # fmt: skip


def what_was_typed(trace: Trace, limit: int) -> str:
    """Return the text of a query on one line, or words where the log has none."""
    if not trace.text:
        return "(its divergence is not in the log)"
    return one_line(trace.text, limit) or "(white space)"


def accepted(shadowed: LogState, today: str) -> TableBlock:
    """Show the suppression list: each entry, and whether it still counts."""
    return table(
        "What is accepted",
        ("what, and why", "by", "until", f"on {today}"),
        (
            (Cell(one.about, one_line(one.reason)), one_line(one.by), one.until.isoformat(),
             "expired" if one.until.isoformat() < today else "counts")
            for one in shadowed.suppressions.entries
        ),
    )  # fmt: skip


def who(summary: Summary) -> TableBlock:
    """Show who answered for each arm, by fingerprint."""
    return table(
        "Who answered",
        ("arm", "fingerprint", "answers"),
        (
            (arm, name or "nobody", count)
            for arm in ARMS
            for name, count in summary.served_by[arm].most_common()
        ),
    )


def standing_counts(shadowed: LogState) -> str:
    """Return how many diverging attempts the suppression list accepts, and how many it does not."""
    counts: Counter[SuppressionStatus] = Counter()
    for trace in shadowed.traces:
        counts[trace.register] += trace.times
    parts = [f"{counts[name]:,} {name}" for name in SuppressionStatus if counts[name]]
    blocking = sum(counts[name] for name in BLOCKING)
    said = ", ".join(parts) or "none"
    return (
        f"{counted(counts.total(), 'diverging attempt')}: {said}. {blocking:,} block the next step."
    )


FORMAT = 1


def to_json(shadowed: LogState, *, today: date, percentiles: Mapping[str, Any]) -> dict[str, Any]:
    """Return the summary; estimates are {value, low, high, n}, with null for what is unbounded."""
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
            {**asdict(one), "estimate": estimate_for_json(one.estimate)} for one in summary.alarms
        ],
        "divergences": [
            {
                "query": trace.query,
                "text": trace.text,
                "class": str(trace.outcome),
                "slices": list(trace.slices),
                "times": trace.times,
                "jaccard": for_json(trace.jaccard),
                "register": str(trace.register),
            }
            for trace in shadowed.traces
        ],
        "blocking": len(shadowed.blocking),
        "register": [
            {**entry.model_dump(mode="json", by_alias=True), "class": entry.kind or ""}
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
