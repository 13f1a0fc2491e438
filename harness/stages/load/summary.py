"""What follows from the trials of a load: rounds put together, ratios, noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.core.scores import Estimate
from harness.replay.load.histogram import Histogram
from harness.replay.load.record import Record
from harness.replay.load.rounds import Noise, median_of, noise, ratios
from harness.report.load.inputs import Point

Place = tuple[str, bool, float | None]


def points(
    records: Sequence[Record], control: str, *, max_lag: float, confidence: float
) -> tuple[Point, ...]:
    """Put the rounds of each arm at each rate together, in the order of arms and rates."""
    places: dict[Place, list[Record]] = {}
    for record in records:
        places.setdefault((record.arm, record.twin, record.rate), []).append(record)
    return tuple(
        _point(place, found, places.get((control, False, place[2]), []), max_lag, confidence)
        for place, found in sorted(places.items(), key=lambda each: _order(each[0]))
    )


def _order(place: Place) -> tuple[str, bool, float]:
    return (place[0], place[1], place[2] or 0.0)


def _point(
    place: Place,
    records: Sequence[Record],
    control: Sequence[Record],
    max_lag: float,
    confidence: float,
) -> Point:
    arm, twin, rate = place
    good = tuple(record for record in records if not record.objection(max_lag))
    classes = sorted({name for record in good for name in record.trial.response})
    ours, theirs = _alike(good, control, max_lag)
    return Point(
        arm=arm,
        twin=twin,
        rate=rate,
        records=good,
        objections=tuple(filter(None, (record.objection(max_lag) for record in records))),
        response={
            name: Histogram.merged(
                record.trial.response[name] for record in good if name in record.trial.response
            )
            for name in classes
        },
        service=Histogram.merged(each for record in good for each in record.trial.service.values()),
        cold=Histogram.merged(each for record in good for each in record.trial.cold.values()),
        p50=_median(good, 50.0, confidence),
        p99=_median(good, 99.0, confidence),
        ratio=median_of(ratios(ours, theirs), confidence=confidence) if ours else None,
    )


def _median(records: Sequence[Record], percent: float, confidence: float) -> Estimate | None:
    found = (record.trial.overall.percentile(percent) for record in records)
    return median_of([float(one) for one in found if one is not None], confidence=confidence)


def _alike(
    records: Sequence[Record], control: Sequence[Record], max_lag: float
) -> tuple[list[int], list[int]]:
    """Give the p99 of both arms in the rounds in which both count."""
    theirs = _p99(control, max_lag)
    ours = _p99(records, max_lag)
    both = sorted(ours.keys() & theirs.keys())
    return [ours[number] for number in both], [theirs[number] for number in both]


def _p99(records: Sequence[Record], max_lag: float) -> dict[int, int]:
    found = {
        record.number: record.trial.overall.percentile(99.0)
        for record in records
        if not record.objection(max_lag)
    }
    return {number: p99 for number, p99 in found.items() if p99 is not None}


def noises(
    records: Sequence[Record], control: str, *, max_lag: float, max_noise: float
) -> Mapping[float, Noise]:
    """Hold the control against itself at each rate at which it was opened twice."""
    rates = sorted({r.rate for r in records if r.arm == control and r.twin and r.rate})
    found = {}
    for rate in rates:
        at = [r for r in records if r.arm == control and r.rate == rate]
        second, first = _alike([r for r in at if r.twin], [r for r in at if not r.twin], max_lag)
        if first:
            found[rate] = noise(first, second, max_noise=max_noise)
    return found
