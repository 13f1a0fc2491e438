"""The trials of one load combined: for its page, and as evidence."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from harness.core import digest
from harness.core.errors import BadFile
from harness.core.evidence import AtRate, Load
from harness.core.gate import Verdict
from harness.core.scores import Estimate
from harness.load.paths import history_of, receipt_of, trials_of
from harness.load.rates import Highest, RepeatNoise, median_of, noise, ratios
from harness.load.trial import AGAIN, PERCENTS, RECEIPT, TRIALS, Histogram, Record, Trial
from harness.pipeline.layout import Layout
from harness.pipeline.params import LoadParams
from harness.pipeline.receipts import read_manifest

CURVE = "curve"
"""Purpose of a trial that was requested, and not made by a search."""
LOAD_KEY = 16
"""Digits by which a trial names the receipt of its load."""
P99, WHOLE = 99.0, 100.0


@dataclass(frozen=True, slots=True, eq=False)
class RatePoint:
    """All rounds of one arm at one rate."""

    arm: str
    twin: bool
    rate: float | None
    """Arrivals a second; None for a closed loop."""
    records: tuple[Record, ...]
    """Rounds that count."""
    objections: tuple[str, ...]
    """Why others do not, one text a round."""
    response: Mapping[str, Histogram]
    """Response times of all rounds that count, by query class."""
    service: Histogram
    cold: Histogram
    p50: Estimate | None
    """Median over rounds of each round's p50, nanoseconds; None where there are too few."""
    p99: Estimate | None
    ratio: Estimate | None
    """Median over rounds of p99 by the first arm's p99; None where there are too few rounds."""

    @property
    def overall(self) -> Histogram:
        """Response times of all classes."""
        return Histogram.merged(self.response.values())


@dataclass(frozen=True, slots=True, eq=False)
class LoadReport:
    """One load."""

    dataset: str
    machine: str
    loaded_at: str
    busy: float
    """Mean share of the processors that others took just before the trials."""
    arms: tuple[str, ...]
    """The first is the reference of the others."""
    workers: str
    about: Mapping[str, str]
    """Settings, in words."""
    points: tuple[RatePoint, ...]
    noise: Mapping[float, RepeatNoise]
    """The first arm against itself, by rate."""
    highest: Mapping[str, Highest]
    """Highest rate of each arm; empty where it was not asked for."""
    budget_ns: int | None
    index_bytes: Mapping[str, int]
    command: str

    def point(self, arm: str, rate: float | None, *, twin: bool = False) -> RatePoint | None:
        """Find the trials of an arm at a rate."""
        found = (p for p in self.points if (p.arm, p.rate, p.twin) == (arm, rate, twin))
        return next(found, None)

    @property
    def rates(self) -> tuple[float, ...]:
        """Rates of the trials of all arms, ascending."""
        return tuple(sorted({point.rate for point in self.points if point.rate is not None}))

    @property
    def highest_shared(self) -> float | None:
        """The highest rate at which every arm has times; None where there is none."""
        timed = {(p.arm, p.rate) for p in self.points if not p.twin and p.overall.count}
        return max(
            (rate for rate in self.rates if all((arm, rate) in timed for arm in self.arms)),
            default=None,
        )

    def noisy(self, rate: float | None) -> RepeatNoise | None:
        """Return how far the first arm is from itself at a rate, where nothing is concluded."""
        found = self.noise.get(rate) if rate is not None else None
        return found if found and found.verdict is not Verdict.PASS else None


def points(
    records: Sequence[Record], control: str, *, max_lag: float, confidence: float
) -> tuple[RatePoint, ...]:
    """Combine the rounds of each arm at each rate, in the order of arms and rates."""
    places: dict[tuple[str, bool, float | None], list[Record]] = {}
    for record in records:
        places.setdefault((record.arm, record.twin, record.rate), []).append(record)
    found = []
    for arm, twin, rate in sorted(places, key=lambda place: (*place[:2], place[2] or 0.0)):
        every = places[arm, twin, rate]
        good = tuple(record for record in every if not record.objection(max_lag))
        overall = [record.trial.overall for record in good]
        ours, theirs = _alike(good, places.get((control, False, rate), []), max_lag)
        found.append(
            RatePoint(
                arm=arm,
                twin=twin,
                rate=rate,
                records=good,
                objections=tuple(filter(None, (record.objection(max_lag) for record in every))),
                response={
                    name: Histogram.merged(
                        one.trial.response[name] for one in good if name in one.trial.response
                    )
                    for name in sorted({name for one in good for name in one.trial.response})
                },
                service=Histogram.merged(h for one in good for h in one.trial.service.values()),
                cold=Histogram.merged(h for one in good for h in one.trial.cold.values()),
                p50=_median(overall, 50.0, confidence),
                p99=_median(overall, P99, confidence),
                ratio=median_of(ratios(ours, theirs), confidence=confidence) if ours else None,
            )
        )
    return tuple(found)


def _median(rounds: Sequence[Histogram], percent: float, confidence: float) -> Estimate | None:
    found = (one.percentile(percent) for one in rounds)
    return median_of([float(one) for one in found if one is not None], confidence=confidence)


def _alike(
    records: Sequence[Record], control: Sequence[Record], max_lag: float
) -> tuple[list[int], list[int]]:
    """Return the p99 of both arms in the rounds in which both count."""
    ours, theirs = (
        {
            record.number: p99
            for record in of
            if not record.objection(max_lag)
            and (p99 := record.trial.overall.percentile(P99)) is not None
        }
        for of in (records, control)
    )
    both = sorted(ours.keys() & theirs.keys())
    return [ours[number] for number in both], [theirs[number] for number in both]


def noises(
    records: Sequence[Record], control: str, *, max_lag: float, max_noise: float
) -> Mapping[float, RepeatNoise]:
    """Compare the control with itself at each rate at which it was opened twice."""
    found = {}
    for rate in sorted({r.rate for r in records if r.arm == control and r.twin and r.rate}):
        at = [r for r in records if r.arm == control and r.rate == rate]
        second, first = _alike([r for r in at if r.twin], [r for r in at if not r.twin], max_lag)
        if first:
            found[rate] = noise(first, second, max_noise=max_noise)
    return found


def combine(trials: Sequence[Record], arms: tuple[str, ...], params: LoadParams) -> LoadReport:
    """Combine the trials of one load; the first arm is the control."""
    last = trials[-1].about
    curve = [one for one in trials if one.purpose == CURVE]
    return LoadReport(
        dataset=last["dataset"],
        machine=last["machine"],
        loaded_at=max(one.about["at"] for one in trials),
        busy=fmean(float(one.about["busy"]) for one in trials),
        arms=arms,
        workers=f"processes: {last['processes']}, workers in each: {last['threads']}",
        about={},
        points=points(curve, arms[0], max_lag=params.max_lag, confidence=params.confidence),
        noise=noises(trials, arms[0], max_lag=params.max_lag, max_noise=params.max_noise),
        highest={},
        budget_ns=None,
        index_bytes={one.arm: int(one.about["index_bytes"]) for one in trials},
        command="",
    )


def last_load(layout: Layout, fingerprints: Mapping[str, str]) -> LoadReport | None:
    """Combine the trials of the last load; None where none was run, or of other indexes.

    ``fingerprints`` are those of the arms as they are now. Searches for a highest rate are left
    to the page of the load.
    """
    receipt = RECEIPT.read(receipt_of(layout))
    if any(fingerprints.get(arm) != of for arm, of in receipt["arms"].items()):
        return None
    key = digest.of_json(receipt)[:LOAD_KEY]
    trials = {  # of the same load run again, the last
        (one.arm, one.twin, one.rate, one.number): one
        for one in TRIALS.read(history_of(layout))
        if one.about["load"] == key and one.purpose == CURVE
    }
    if not trials:
        return None
    control = next(arm for arm, twin, *_ in trials if twin)
    arms = tuple(dict.fromkeys((control, *sorted(arm for arm, *_ in trials))))
    return combine(tuple(trials.values()), arms, LoadParams.model_validate(receipt["params"]))


def read_load(layout: Layout) -> Load | None:
    """Read the last load; None where an arm was indexed or replayed since."""
    receipt = RECEIPT.read(receipt_of(layout))
    trials = [one for one in TRIALS.read(trials_of(layout)) if one.purpose == CURVE]
    key = digest.of_json(receipt)[:LOAD_KEY]
    if not trials or any(one.about["load"] != key for one in trials):
        raise BadFile(trials_of(layout), f"is not of the load in {receipt_of(layout)}", AGAIN)
    for arm, run in receipt["runs"].items():
        own = layout.run(arm)
        if not own.is_file() or digest.of_file(own) != run:
            return None
        if read_manifest(layout, arm).fingerprint != receipt["arms"][arm]:
            return None
    return load_of(trials, LoadParams.model_validate(receipt["params"]))


def load_of(trials: Sequence[Record], params: LoadParams) -> Load:
    """Combine the trials of one load as evidence."""
    control = next((one.arm for one in trials if one.twin), "")
    at: dict[str, dict[float, list[Record]]] = {}
    openings: dict[bool, dict[tuple[float, int], float]] = {False: {}, True: {}}
    for one in trials:
        if one.rate is None:
            continue
        if not one.twin:
            at.setdefault(one.arm, {}).setdefault(one.rate, []).append(one)
        if one.arm == control and not one.objection(params.max_lag):
            openings[one.twin][one.rate, one.number] = in_system_ns(one.trial, P99)
    noise: dict[float, list[float]] = {}
    for rate, number in sorted(openings[False].keys() & openings[True].keys()):
        first, second = openings[False][rate, number], openings[True][rate, number]
        noise.setdefault(rate, []).append(second / first)
    return Load(
        at={
            arm: {rate: _at_rate(records, params.max_lag) for rate, records in rates.items()}
            for arm, rates in at.items()
        },
        noise={rate: np.array(found) for rate, found in noise.items()},
        reference_ns=np.array([ns for one in trials for ns in one.about["reference_ns"]]),
        machine=trials[-1].about["machine"],
        loaded_at=min(one.about["at"] for one in trials),
    )


def _at_rate(records: Sequence[Record], max_lag: float) -> AtRate:
    good = [one for one in records if not one.objection(max_lag)]
    return AtRate(
        system_ns={
            name: np.array([in_system_ns(one.trial, percent) for one in good])
            for name, percent in PERCENTS.items()
        },
        busy=np.array([float(one.about["busy"]) for one in good]),
        objections=tuple(filter(None, (one.objection(max_lag) for one in records))),
        arrivals=min((one.trial.arrivals for one in good), default=0),
    )


def in_system_ns(trial: Trial, percent: float) -> float:
    """Time within which ``percent`` of all arrivals were answered; infinite where fewer were."""
    of_answered = percent * trial.arrivals / max(trial.overall.count, 1)
    found = trial.overall.percentile(of_answered) if of_answered <= WHOLE else None
    return math.inf if found is None else float(found)
