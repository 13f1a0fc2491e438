"""Command ``load``: an open-loop load test at fixed arrival rates, and what follows from it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median

import psutil

from harness.core import digest
from harness.core.errors import EvidenceError, HarnessError
from harness.core.files import held, write_text
from harness.core.gate import Verdict
from harness.core.progress import progress
from harness.core.records import Query
from harness.core.scores import Estimate
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.load.files import CURVE, LOAD_KEY, TrialFiles, keep
from harness.load.page import to_page
from harness.load.paths import page_of, parts_of
from harness.load.rates import (
    Highest,
    RepeatNoise,
    highest_rate,
    median_of,
    noise,
    ratios,
    trials_an_end,
)
from harness.load.trial import Histogram, LoadReport, RatePoint, Record, summed
from harness.load.workers import Arrivals, Mix, TrialPlan, WorkerPool, poisson, recorded, run_pool
from harness.pipeline.experiments import note_timed
from harness.pipeline.index import Opener, check_index
from harness.pipeline.layout import Layout
from harness.pipeline.params import LoadParams
from harness.pipeline.receipts import check_run, read_manifest
from harness.replay.machine import Reference, folder_bytes, machine
from harness.replay.race import shown
from harness_engines import registry

Place = tuple[str, bool, float | None]


def points(
    records: Sequence[Record], control: str, *, max_lag: float, confidence: float
) -> tuple[RatePoint, ...]:
    """Combine the rounds of each arm at each rate, in the order of arms and rates."""
    places: dict[Place, list[Record]] = {}
    for record in records:
        places.setdefault((record.arm, record.twin, record.rate), []).append(record)
    return tuple(
        _point(place, found, places.get((control, False, place[2]), []), max_lag, confidence)
        for place, found in sorted(
            places.items(), key=lambda each: (*each[0][:2], each[0][2] or 0.0)
        )
    )


def _point(
    place: Place,
    records: Sequence[Record],
    control: Sequence[Record],
    max_lag: float,
    confidence: float,
) -> RatePoint:
    arm, twin, rate = place
    good = tuple(record for record in records if not record.objection(max_lag))
    classes = sorted({name for record in good for name in record.trial.response})
    ours, theirs = _alike(good, control, max_lag)
    return RatePoint(
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
    """Return the p99 of both arms in the rounds in which both count."""
    ours, theirs = (
        {
            record.number: p99
            for record in of
            if not record.objection(max_lag)
            and (p99 := record.trial.overall.percentile(99.0)) is not None
        }
        for of in (records, control)
    )
    both = sorted(ours.keys() & theirs.keys())
    return [ours[number] for number in both], [theirs[number] for number in both]


def noises(
    records: Sequence[Record], control: str, *, max_lag: float, max_noise: float
) -> Mapping[float, RepeatNoise]:
    """Compare the control with itself at each rate at which it was opened twice."""
    rates = sorted({r.rate for r in records if r.arm == control and r.twin and r.rate})
    found = {}
    for rate in rates:
        at = [r for r in records if r.arm == control and r.rate == rate]
        second, first = _alike([r for r in at if r.twin], [r for r in at if not r.twin], max_lag)
        if first:
            found[rate] = noise(first, second, max_noise=max_noise)
    return found


def combine(trials: Sequence[Record], arms: tuple[str, ...], params: LoadParams) -> LoadReport:
    """Combine the trials of one load; the first arm is the control."""
    last, control = trials[-1].about, arms[0]
    return LoadReport(
        dataset=last["dataset"],
        machine=last["machine"],
        loaded_at=max(one.about["at"] for one in trials),
        busy=fmean(float(one.about["busy"]) for one in trials),
        arms=arms,
        workers=f"processes: {last['processes']}, workers in each: {last['threads']}",
        about={},
        points=points(
            [one for one in trials if one.purpose == CURVE],
            control,
            max_lag=params.max_lag,
            confidence=params.confidence,
        ),
        noise=noises(trials, control, max_lag=params.max_lag, max_noise=params.max_noise),
        highest={},
        budget_ns=None,
        index_bytes={one.arm: int(one.about["index_bytes"]) for one in trials},
        command="",
    )


LOOK_S = 0.3
"""How long the machine is looked at before a trial."""
REFERENCES = 5
"""How often the reference work is timed beside a trial."""
SEARCH = "search"
ONCE_AROUND = 1000
"""Fewest queries that a closed loop goes through before it begins again."""


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What was requested on the command line."""

    arms: tuple[str, ...]
    """Names, or paths to TOML files; the others are compared with the first."""
    rates: tuple[float, ...]
    """Arrivals a second; none means those of ``params.yaml``."""
    budget_ns: int | None
    """Look for the highest rate whose p99 keeps this; None means do not."""
    mix: Mapping[str, float]
    arrivals: Path | None
    """Recorded arrivals, instead of rates."""
    command: str


class Loading:
    """One load: what is queried, of whom, and the trials that were run."""

    def __init__(
        self,
        layout: Layout,
        wanted: LoadRequest,
        cache: Path,
        params: LoadParams,
        time_limit_s: float,
    ) -> None:
        """Check that every arm is indexed and replayed as it is now."""
        self.layout, self.wanted, self.params = layout, wanted, params
        self.arms = {arm.name: arm for arm in (registry.load(n, cache) for n in wanted.arms)}
        if not self.arms or len(self.arms) != len(wanted.arms):
            raise HarnessError("name at least one arm, and none twice: --arm NAME --arm OTHER")
        self.control = next(iter(self.arms))
        for name, arm in self.arms.items():
            check_run(layout, name)
            check_index(layout, arm)
        self._queries: tuple[Query, ...] = Prepared.open(layout.data).queries()
        self._mix = Mix(self._queries, wanted.mix)
        self._recorded = recorded(wanted.arrivals, self._queries) if wanted.arrivals else None
        self._cache, self._limit_ns = cache, int(time_limit_s * 1e9)
        self._expected = {
            name: {r.query_id: shown(r, params.k) for r in read_run(layout.run(name)).rows()}
            for name in self.arms
        }
        self.receipt = self._receipt()
        key = digest.of_json([self.receipt, machine()])[:32]
        self._parts = TrialFiles(parts_of(layout) / key, params.resume_hours)
        self._records: dict[str, Record] = {}

    def _receipt(self) -> dict[str, object]:
        arrivals = self.wanted.arrivals
        return {
            "arms": {arm: read_manifest(self.layout, arm).fingerprint for arm in self.arms},
            "runs": {arm: digest.of_file(self.layout.run(arm)) for arm in self.arms},
            "queries_sha256": digest.of_queries(self._queries),
            "arrivals_sha256": digest.of_file(arrivals) if arrivals else "",
            "rates": list(self.wanted.rates),
            "mix": dict(self.wanted.mix),
            "budget_ns": self.wanted.budget_ns,
            "params": self.params.model_dump(mode="json"),
        }

    def rates(self) -> tuple[float, ...]:
        """Return the rates of the trials; where none was named, shares of the first arm's capacity.

        The closed loop of the first round says what the capacity is.
        """
        if self._recorded is not None:
            return (self._recorded.rate,)
        if self.wanted.rates:
            return self.wanted.rates
        capacity = self.trial(self.control, None, 0).trial.rate
        return tuple(float(f"{capacity * share:.3g}") for share in self.params.rates)

    def entrants(self, number: int, rate: float | None) -> Sequence[tuple[str, bool]]:
        """Every arm, and the first one twice, in the seeded order of a round."""
        both = [*((arm, False) for arm in self.arms), (self.control, True)]
        return random.Random(f"{self.params.seed} {number} {rate}").sample(both, len(both))

    def trial(
        self,
        arm: str,
        rate: float | None,
        number: int,
        *,
        twin: bool = False,
        purpose: str = CURVE,
    ) -> Record:
        """Run one trial, or read it where an interrupted load ran it."""
        at = "closed" if rate is None else f"{rate:.6g}"
        name = f"{purpose}-{number:04}-{at}-{arm}{'-twin' if twin else ''}"
        if name not in self._records:
            self._records[name] = self._parts.get(
                name, lambda: self._run(arm, rate, number, twin=twin, purpose=purpose)
            )
        return self._records[name]

    @property
    def records(self) -> tuple[Record, ...]:
        """Every trial so far, in the order they were run."""
        return tuple(self._records.values())

    def _run(
        self, arm: str, rate: float | None, number: int, *, twin: bool, purpose: str
    ) -> Record:
        arrivals = self._arrivals(rate, number, purpose)
        plan = TrialPlan(
            queries=self._queries,
            picks=tuple(arrivals.picks.tolist()),
            offsets_ns=None if rate is None else tuple(arrivals.offsets_ns.tolist()),
            seconds=float(arrivals.offsets_ns[-1]) / 1e9
            if rate is not None and arrivals is self._recorded
            else self.params.seconds,
            k=self.params.k,
            time_limit_ns=self._limit_ns,
            expected=self._expected[arm],
            cold=self.params.cold,
            warm=self.params.warm,
        )
        busy = psutil.cpu_percent(LOOK_S) / 100
        reference = Reference()
        fingerprint = read_manifest(self.layout, arm).fingerprint
        opener = Opener(str(self.arms[arm].path), self.layout.index(arm), self._cache, fingerprint)
        pool = WorkerPool(self.params.processes, self.params.threads)
        budget = self.wanted.budget_ns
        trial = summed(
            plan,
            arrivals.classes,
            run_pool(opener, plan, pool),
            budgets_ns=() if budget is None else (budget,),
        )
        about = {
            "dataset": self.layout.root.name,
            "machine": machine(),
            "busy": busy,
            "reference_ns": [reference.time_ns() for _ in range(REFERENCES)],
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "load": digest.of_json(self.receipt)[:LOAD_KEY],
            "fingerprint": fingerprint,
            "processes": pool.processes,
            "threads": pool.threads,
            "k": plan.k,
            "index_bytes": folder_bytes(self.layout.index(arm)),
        }
        return Record(arm, twin, rate, number, purpose, trial, about)

    def _arrivals(self, rate: float | None, number: int, purpose: str) -> Arrivals:
        """Draw what comes; the same for all arms in one round."""
        if rate is not None and self._recorded is not None and purpose == CURVE:
            return self._recorded
        seed = (self.params.seed, number, int(1000 * (rate or 0)), int(purpose == SEARCH))
        drawn_at = rate or max(ONCE_AROUND, len(self._queries)) / self.params.seconds
        return poisson(self._mix, drawn_at, self.params.seconds, seed)

    def report(self, highest: Mapping[str, Highest]) -> LoadReport:
        """Combine the trials."""
        params = self.params
        mix = ", ".join(f"{name} {weight:g}" for name, weight in self.wanted.mix.items())
        combined = combine(self.records, tuple(self.arms), params)
        return replace(
            combined,
            loaded_at=datetime.now(UTC).isoformat(timespec="seconds"),
            about={
                "trial": f"{params.seconds:g} s",
                "rounds": f"{params.rounds}",
                "hits": f"{params.k}",
                "mix": mix or "every query alike",
            },
            highest=highest,
            budget_ns=self.wanted.budget_ns,
            command=self.wanted.command,
        )

    def finish(self) -> None:
        """Add the trials to the history, and let the parts go."""
        keep(self.layout, self.records, self.receipt)
        self._parts.done()


PERCENT = 99.0
"""Of the arrivals that must be answered within the budget."""
FEWEST_ARRIVALS = 100
"""Of a trial in a search: with fewer, one slow answer is more than one in a hundred."""
RETRIES = 2
"""How often a trial that says nothing is run again."""
BISECTION = 8
"""Trials of a search beside those that confirm its ends, for the progress bar."""


def load(
    layout: Layout, wanted: LoadRequest, cache: Path, params: LoadParams, time_limit_s: float
) -> LoadReport:
    """Try every arm at every rate, round by round, and look for highest rates where asked.

    Trials are kept one by one, so an interrupted load test resumes; when it is done they
    are added to the history, and the page is written.
    Two loads take turns: they would remove each other's trials, and load each other's machine.
    """
    with held(parts_of(layout)):
        loading = Loading(layout, wanted, cache, params, time_limit_s)
        _curve(loading)
        highest = _search_all(loading) if wanted.budget_ns is not None else {}
        report = loading.report(highest)
        loading.finish()
        note_timed(layout, "load", tuple(loading.arms), datetime.now(UTC))
        write_text(page_of(layout), to_page(report))
        return report


def verdict(report: LoadReport) -> Verdict:
    """Return whether what was measured may be believed, and found.

    INCONCLUSIVE where the control is not like itself, a trial did not count or a search was too
    noisy; FAIL where no rate keeps the budget.
    """
    said = [one.verdict for one in report.noise.values()]
    said += [one.verdict for one in report.highest.values()]
    if Verdict.FAIL in said:
        return Verdict.FAIL
    quiet = report.noise and not any(point.objections for point in report.points)
    return Verdict.INCONCLUSIVE if Verdict.INCONCLUSIVE in said or not quiet else Verdict.PASS


def _curve(loading: Loading) -> None:
    """Run all rounds: in each the closed loop and every rate, of every arm in seeded order."""
    rates = (None, *loading.rates())
    rounds = loading.params.rounds
    each = len(loading.entrants(0, None))
    with progress("loading", rounds * len(rates) * each) as advance:
        for number in range(rounds):
            for rate in rates:
                for arm, twin in loading.entrants(number, rate):
                    record = loading.trial(arm, rate, number, twin=twin)
                    if record.trial.strays:
                        raise EvidenceError(
                            f"{arm}: {record.trial.strays} of {record.trial.arrivals} answers were"
                            " not those of its run, so its times mean nothing. Run:"
                            f" harness stage replay --arm {arm}, and look whether it answers alike"
                            " twice"
                        )
                    advance(1)


def _search_all(loading: Loading) -> Mapping[str, Highest]:
    report = loading.report({})
    loud = [one.reason for one in report.noise.values() if one.verdict is not Verdict.PASS]
    if loud or not report.noise:
        reason = "; ".join(loud) or "no round of the control against itself counts"
        unknown = Highest(Verdict.INCONCLUSIVE, f"the machine is too noisy: {reason}", None, ())
        return dict.fromkeys(loading.arms, unknown)
    return {arm: _search(loading, arm) for arm in loading.arms}


def _search(loading: Loading, arm: str) -> Highest:
    params, budget_ns = loading.params, loading.wanted.budget_ns or 0
    capacity = median(loading.trial(arm, None, n).trial.rate for n in range(params.rounds))
    total = 2 * trials_an_end(params.confidence) + BISECTION
    with progress(f"searching {arm}", total) as advance:
        return highest_rate(
            _probe(loading, arm, budget_ns, advance),
            capacity=capacity,
            floor=FEWEST_ARRIVALS / params.seconds,
            resolution=params.resolution,
            confidence=params.confidence,
            retries=RETRIES,
        )


def _probe(
    loading: Loading, arm: str, budget_ns: int, advance: Callable[[int], object]
) -> Callable[[float], bool | None]:
    count = iter(range(10_000))

    def probe(rate: float) -> bool | None:
        record = loading.trial(arm, rate, next(count), purpose=SEARCH)
        advance(1)
        if record.trial.strays:
            return None
        kept = record.trial.keeps(budget_ns, PERCENT)
        late = record.objection(loading.params.max_lag)
        return None if late and not kept else kept

    return probe
