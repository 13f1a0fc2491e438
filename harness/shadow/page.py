"""A shadow log as a page, as tables and as JSON."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, date, datetime
from typing import Any

from harness.core.printable import counted, one_line
from harness.core.scores import Estimate
from harness.report import doc, rounding
from harness.report.doc import Block, Cell, Num, Section, TableBlock, Text, Value, table
from harness.report.page.tables import DEPTH, TITLE, instead_of, move
from harness.report.page.tables import QUERY as PAGE_QUERY
from harness.report.rounding import estimate_for_json, number, share, watched
from harness.shadow.divergences import Trace
from harness.shadow.record import Divergence, LoggedAnswer
from harness.shadow.summary import ARMS, AlarmState, LogState, Summary

REASON, QUERY = 160, 100
"""Characters of a reason and of a query that are shown."""
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


def overview(state: LogState, top: int) -> Iterator[Block]:
    """Show how things stand, with the worst ``top`` queries."""
    summary = state.summary
    yield Text(headline(state), "headline")
    if summary.first and summary.last:
        both = summary.first, summary.last
        ends = (datetime.fromtimestamp(one.at // NS_PER_S, UTC) for one in both)
        yield Text(" to ".join(f"{end:%Y-%m-%d %H:%M:%S} UTC" for end in ends), "about")
    tables = (
        tally(summary),
        estimates(summary),
        alarms(state),
        classes(summary),
        divergences(state, top),
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
    if overlap := summary.estimates["overlap"]:
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
    text, between = "; ".join(said) + ".", shadowed.between
    if between.control and between.candidate:
        return f"{between.control} → {between.candidate}: {text[0].lower()}{text[1:]}"
    return text[0].upper() + text[1:]


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
    return table(
        f"How sure: {100 * bounds.confidence:g} % confidence sequences, that hold however often"
        " they are read",
        ("what", "so far", "lies within", "pairs"),
        (
            (names[name], Num(now.value), watched(now), now.n)
            if now
            else (names[name], NOTHING_YET, "", 0)
            for name, now in summary.estimates.items()
        ),
    )


def classes(summary: Summary) -> TableBlock:
    """Count attempts by class and slice, most first."""
    slices = sorted(summary.by_slice) if len(summary.by_slice) > 1 else []
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


def alarms(shadowed: LogState) -> TableBlock:
    """Show every alarm, the raised ones first."""
    order = (AlarmState.RAISED, AlarmState.EARLY, AlarmState.QUIET)
    rows = []
    for one in sorted(shadowed.summary.alarms, key=lambda one: order.index(one.state)):
        state = one.state.upper() if one.state is AlarmState.RAISED else one.state
        found: Value = Cell(NOTHING_YET)
        if now := one.estimate:
            found = Num(now.value, more=f"{watched(now)}, n {now.n:,}")
        since = "" if one.since is None else one.since
        rows.append((Cell(f"{one.name} {one.arm}", one.about), state, found, Num(one.bound), since))
    return table("Alarms", ("alarm", "state", "measured", "bound", "since attempt"), rows)


def divergences(shadowed: LogState, limit: int) -> TableBlock:
    """Show the worst queries, blocking ones first."""
    shown, whole = shadowed.traces[:limit], len(shadowed.traces)
    return table(
        f"Queries that diverge, the worst {len(shown):,} of {whole:,}",
        ("query", "class", "slices", "times", "lowest Jaccard", "register"),
        (
            (
                Cell(what_was_typed(trace), trace.query), trace.outcome,
                ", ".join(trace.slices), trace.times,
                "" if trace.jaccard is None else Num(trace.jaccard), trace.register,
            )
            for trace in shown
        ),
    )  # fmt: skip


def what_was_typed(trace: Trace) -> str:
    """Return the text of a query on one line, or words where the log has none."""
    if not trace.text:
        return "(its divergence is not in the log)"
    return one_line(trace.text, QUERY) or "(white space)"


FORMAT = 1
Percentiles = Mapping[str, Mapping[str, Estimate | None]]


def to_json(shadowed: LogState, *, today: date, times: Percentiles) -> dict[str, Any]:
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
        "estimates": {name: _held(now) for name, now in summary.estimates.items()},
        "latency_ns": {
            arm: {name: estimate_for_json(of) for name, of in row.items()}
            for arm, row in times.items()
        },
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
                "jaccard": rounding.for_json(trace.jaccard),
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
    if found is not None and rounding.moved(found):
        found = replace(found, low=-math.inf, high=math.inf)
    return estimate_for_json(found)


def side_by_side(traces: Sequence[Trace], divergences: Iterable[Divergence]) -> tuple[Section, ...]:
    """Show both rankings of each query, where they are among ``divergences``."""
    wanted = {(trace.writer, trace.number) for trace in traces}
    kept = {where: one for one in divergences if (where := (one.writer, one.number)) in wanted}
    found = []
    for trace in traces:
        about = [trace.register.value, counted(trace.times, "time")]
        if trace.jaccard is not None:
            about.append(f"lowest Jaccard {number(trace.jaccard)}")
        about += [*trace.slices, trace.query]
        rankings: list[Block] = [Text("The log does not hold this divergence.", "instead")]
        if one := kept.get((trace.writer, trace.number)):
            about += [f"{k} = {value}" for k, value in sorted(one.params.items())]
            both = one.control, one.candidate
            rankings = [_ranking("control", *both), _ranking("candidate", *both[::-1])]
        title = f"{trace.outcome}: {what_was_typed(trace)}"
        blocks = Text(" · ".join(about), "meta"), *rankings
        found.append(Section(title, blocks, kind="moved", fold="closed"))
    return tuple(found)


def _ranking(arm: str, side: LoggedAnswer, other: LoggedAnswer) -> Block:
    took = (
        "time unknown"
        if side.elapsed_ns is None
        else f"{rounding.milliseconds(side.elapsed_ns)} ms"
    )
    parts = [took, counted(len(side.hits), "hit"), one_line(side.note, PAGE_QUERY)]
    about = " · ".join(filter(None, parts))
    if not side.hits:
        return Text(f"{arm}: {instead_of(side.status, side.error)} ({about})", "instead")
    ranks = {hit.doc_id: at for at, hit in reversed([*enumerate(other.hits, start=1)])}
    rows = [
        (str(rank), one_line(hit.doc_id, TITLE),
         move(rank, ranks.get(hit.doc_id), candidate=arm == "candidate"), number(hit.score))
        for rank, hit in enumerate(side.hits[:DEPTH], start=1)
    ]  # fmt: skip
    return table(f"{arm}: {about}", ("rank", "document", "move", "score"), rows)


LISTED = 100
"""Queries in the table; all are in the JSON."""
CLOCKS = (
    "Pairs in which both arms were timed, each on its own clock; the control was timed as it"
    " served, the candidate beside it. A candidate that was given up counts with the time after"
    " which it was. Intervals are for one look."
)


def document(
    shadowed: LogState,
    sides: Sequence[Section],
    percentiles: Percentiles,
    today: date,
    commands: Sequence[str],
) -> Section:
    """Describe the state of a log, the answer first."""
    between = shadowed.between
    names = tuple(dict.fromkeys(name for row in percentiles.values() for name in row))
    times = table(
        "Milliseconds per query, each arm on its own clock",
        ("arm", *names),
        [
            (arm, *(doc.time_cell(row.get(name)) for name in names))
            for arm, row in percentiles.items()
        ],
    )
    day = today.isoformat()
    accepted = table(
        "What is accepted",
        ("what, and why", "by", "until", f"on {day}"),
        [
            (Cell(one.about, one_line(one.reason)), one_line(one.by), one.until.isoformat(),
             "expired" if one.until < today else "counts")
            for one in shadowed.suppressions.entries
        ],
    )  # fmt: skip
    blocks = (
        *overview(shadowed, LISTED),
        Section("Latency", (Text(CLOCKS, "lead"), times), "latency"),
        *([Section("Side by side", tuple(sides), "sides")] if sides else []),
        Section(
            f"The register as of {day}",
            (accepted if accepted.rows else Text("Nothing is accepted."),),
            "register",
        ),
        *([Section("To reproduce it", (doc.CodeBlock(tuple(commands)),))] if commands else []),
    )
    candidate, control = between.candidate or "The candidate", between.control or "the control"
    return Section(f"{candidate} in the shadow of {control}", blocks)
