"""``shadow.json``: the whole of a shadow log's summary for programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import date
from typing import Any

from harness.core.scores import Estimate
from harness.report.rounding import estimate_for_json, for_json, moved
from harness.report.shadow.words import Shadowed, headline
from harness.shadow.watch.alarms import ARMS

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
