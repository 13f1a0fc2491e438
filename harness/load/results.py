"""The trials of one load combined: for its page, and as evidence."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean

import numpy as np

from harness.core import digest
from harness.core.errors import BadFile
from harness.core.evidence import AtRate, Load
from harness.core.gate import Verdict
from harness.core.run import Status
from harness.core.scores import Estimate
from harness.load import receipt_of, trials_of
from harness.load.rates import Highest, RepeatNoise, median_of, noise
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
    response: Histogram
    """Response times of all rounds that count."""
    service: Histogram
    p50: Estimate | None
    """Median over rounds of each round's p50, nanoseconds; None where there are too few."""
    p99: Estimate | None
    ratio: Estimate | None
    """Median over rounds of p99 by the first arm's p99; None where there are too few rounds."""

    @property
    def answered(self) -> int:
        """Answers in all rounds that count."""
        return sum(record.trial.ends[Status.ANSWERED] for record in self.records)


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
    points: tuple[RatePoint, ...]
    noise: Mapping[float, RepeatNoise]
    """The first arm against itself, by rate."""
    index_bytes: Mapping[str, int]
    about: Mapping[str, str] = field(default_factory=dict)
    """Settings, in words."""
    highest: Mapping[str, Highest] = field(default_factory=dict)
    """Highest rate of each arm; empty where it was not asked for."""
    budget_ns: int | None = None
    command: str = ""

    @property
    def rates(self) -> tuple[float, ...]:
        """Rates of the trials of all arms, ascending."""
        return tuple(sorted({point.rate for point in self.points if point.rate is not None}))

    def noisy(self, rate: float | None) -> RepeatNoise | None:
        """Return how far the first arm is from itself at a rate, where nothing is concluded."""
        found = self.noise.get(rate) if rate is not None else None
        return found if found and found.verdict is not Verdict.PASS else None


Place = tuple[str, bool, float | None]
"""Arm, whether it is its second opening, and rate."""


def by_place(records: Iterable[Record]) -> dict[Place, list[Record]]:
    """Group trials by arm, opening and rate; arms and rates ascend."""
    places: dict[Place, list[Record]] = {}
    for record in records:
        places.setdefault((record.arm, record.twin, record.rate), []).append(record)
    return dict(sorted(places.items(), key=lambda each: (*each[0][:2], each[0][2] or 0.0)))


def points(
    records: Sequence[Record], control: str, *, max_lag: float, confidence: float
) -> tuple[RatePoint, ...]:
    """Combine the rounds of each arm at each rate, in the order of arms and rates."""
    places, found = by_place(records), []
    for (arm, twin, rate), every in places.items():
        good = tuple(record for record in every if not record.objection(max_lag))
        trials = [record.trial for record in good]
        ratios = _ratios(every, places.get((control, False, rate), []), max_lag, _p99)
        found.append(
            RatePoint(
                arm=arm,
                twin=twin,
                rate=rate,
                records=good,
                objections=tuple(filter(None, (record.objection(max_lag) for record in every))),
                response=Histogram.merged(trial.response for trial in trials),
                service=Histogram.merged(trial.service for trial in trials),
                p50=_median(trials, 50.0, confidence),
                p99=_median(trials, P99, confidence),
                ratio=median_of(ratios, confidence=confidence),
            )
        )
    return tuple(found)


def _median(trials: Sequence[Trial], percent: float, confidence: float) -> Estimate | None:
    found = (trial.response.percentile(percent) for trial in trials)
    return median_of([float(one) for one in found if one is not None], confidence=confidence)


def _p99(trial: Trial) -> float | None:
    return trial.response.percentile(P99)


def _ratios(
    above: Sequence[Record],
    below: Sequence[Record],
    max_lag: float,
    time_of: Callable[[Trial], float | None],
) -> list[float]:
    """Divide the times of two openings in the rounds in which both count and have one."""
    ours, theirs = (
        {
            record.number: time_ns
            for record in of
            if not record.objection(max_lag) and (time_ns := time_of(record.trial)) is not None
        }
        for of in (above, below)
    )
    return [ours[number] / theirs[number] for number in sorted(ours.keys() & theirs.keys())]


def twin_ratios(
    records: Sequence[Record], max_lag: float, time_of: Callable[[Trial], float | None]
) -> dict[float, list[float]]:
    """Compare the control's two openings, round by round, at each rate."""
    places = by_place(records)
    found = {
        rate: _ratios(every, places.get((arm, False, rate), []), max_lag, time_of)
        for (arm, twin, rate), every in places.items()
        if twin and rate is not None
    }
    return {rate: ratios for rate, ratios in found.items() if ratios}


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
        points=points(curve, arms[0], max_lag=params.max_lag, confidence=params.confidence),
        noise={
            rate: noise(ratios, max_noise=params.max_noise)
            for rate, ratios in twin_ratios(curve, params.max_lag, _p99).items()
        },
        index_bytes={one.arm: int(one.about["index_bytes"]) for one in trials},
    )


def last(layout: Layout) -> tuple[list[Record], LoadParams] | None:
    """Read trials and settings of the last load; None where an arm was indexed or replayed since.

    Searches for a highest rate are left to the page of the load.
    """
    if not (receipt_of(layout).is_file() and trials_of(layout).is_file()):
        return None
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
    known = {
        key: value for key, value in receipt["params"].items() if key in LoadParams.model_fields
    }
    return trials, LoadParams.model_validate(known)


def load_of(trials: Sequence[Record], params: LoadParams) -> Load:
    """Combine the trials of one load as evidence."""
    at: dict[str, dict[float, AtRate]] = {}
    for (arm, twin, rate), records in by_place(trials).items():
        if rate is None or twin:
            continue
        good = [one for one in records if not one.objection(params.max_lag)]
        at.setdefault(arm, {})[rate] = AtRate(
            system_ns={
                name: np.array([in_system_ns(one.trial, percent) for one in good])
                for name, percent in PERCENTS.items()
            },
            busy=np.array([float(one.about["busy"]) for one in good]),
            objections=tuple(filter(None, (one.objection(params.max_lag) for one in records))),
            arrivals=min((one.trial.arrivals for one in good), default=0),
        )
    noise = twin_ratios(trials, params.max_lag, partial(in_system_ns, percent=P99))
    return Load(
        at=at,
        noise={rate: np.array(ratios) for rate, ratios in noise.items()},
        reference_ns=np.array([ns for one in trials for ns in one.about["reference_ns"]]),
        machine=trials[-1].about["machine"],
        loaded_at=min(one.about["at"] for one in trials),
    )


def in_system_ns(trial: Trial, percent: float) -> float:
    """Time within which ``percent`` of all arrivals were answered; infinite where fewer were."""
    of_answered = percent * trial.arrivals / max(trial.response.count, 1)
    found = trial.response.percentile(of_answered) if of_answered <= WHOLE else None
    return math.inf if found is None else float(found)
