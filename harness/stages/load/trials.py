"""One load under way: what is queried, of whom, and the trials that were run."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

import psutil

from engines import registry
from harness.core import digest
from harness.core.errors import HarnessError
from harness.core.records import Query
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.replay.load.arrivals import Arrivals, Mix, poisson, recorded
from harness.replay.load.highest_rate import Highest
from harness.replay.load.loop import Plan
from harness.replay.load.record import Record
from harness.replay.load.trial import summed
from harness.replay.load.worker_pool import WorkerPool, run_pool
from harness.replay.machine import machine
from harness.replay.memory import folder_bytes
from harness.replay.race import Expected, shown
from harness.replay.reference import Reference
from harness.report.load.inputs import LoadReport
from harness.stages.custody.proof import check_run, read_manifest
from harness.stages.index import check_index
from harness.stages.layout import Layout
from harness.stages.load.files import CURVE, LOAD_KEY, Parts, keep, parts_of
from harness.stages.load.opener import Opener
from harness.stages.load.summary import noises, points
from harness.stages.params import LoadParams

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
        """Check that every arm is indexed and replayed as it is now.

        Raises:
            HarnessError: no arm is named, or two have one name.
            InvalidArm, EvidenceError: an arm has no index or no run, or they changed since.
        """
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
        self._expected = {name: self._shown(name) for name in self.arms}
        self.receipt = self._receipt()
        key = digest.of_json([self.receipt, machine()])[:32]
        self._parts = Parts(parts_of(layout) / key, params.resume_hours)
        self._records: dict[str, Record] = {}

    def _shown(self, arm: str) -> dict[str, Expected]:
        rows = read_run(self.layout.run(arm)).rows()
        return {row.query_id: shown(row, self.params.k) for row in rows}

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
        """Give the rates of the trials; where none was named, shares of the first arm's capacity.

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
        plan = Plan(
            queries=self._queries,
            picks=tuple(arrivals.picks.tolist()),
            offsets_ns=None if rate is None else tuple(arrivals.offsets_ns.tolist()),
            seconds=self._length(arrivals, rate),
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
            confidence=self.params.confidence,
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

    def _length(self, arrivals: Arrivals, rate: float | None) -> float:
        if rate is not None and arrivals is self._recorded:
            return float(arrivals.offsets_ns[-1]) / 1e9
        return self.params.seconds

    def report(self, highest: Mapping[str, Highest]) -> LoadReport:
        """Put the trials together."""
        params = self.params
        return LoadReport(
            dataset=self.layout.root.name,
            machine=machine(),
            loaded_at=datetime.now(UTC).isoformat(timespec="seconds"),
            busy=fmean(float(record.about["busy"]) for record in self.records),
            arms=tuple(self.arms),
            workers=f"processes: {params.processes}, workers in each: {params.threads}",
            about={
                "trial": f"{params.seconds:g} s",
                "rounds": f"{params.rounds}",
                "hits": f"{params.k}",
                "mix": ", ".join(f"{n} {w:g}" for n, w in self.wanted.mix.items())
                or "every query alike",
            },
            points=points(
                [one for one in self.records if one.purpose == CURVE],
                self.control,
                max_lag=params.max_lag,
                confidence=params.confidence,
            ),
            noise=noises(
                self.records,
                self.control,
                max_lag=params.max_lag,
                max_noise=params.max_noise,
            ),
            highest=highest,
            budget_ns=self.wanted.budget_ns,
            index_bytes={one.arm: int(one.about["index_bytes"]) for one in self.records},
            command=self.wanted.command,
        )

    def finish(self) -> None:
        """Add the trials to the history, and let the parts go."""
        keep(self.layout, self.records, self.receipt)
        self._parts.done()
