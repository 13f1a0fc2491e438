"""Command ``load``: an open-loop load test at fixed arrival rates, and what follows from it."""

import random
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from statistics import median

import psutil

from harness.core import digest
from harness.core.errors import BadFile, EvidenceError, HarnessError
from harness.core.files import held, write_text
from harness.core.gate import Verdict
from harness.core.progress import progress
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.load import history_of, page_of, receipt_of, trials_of
from harness.load.page import to_page
from harness.load.rates import Highest, highest_rate, trials_an_end
from harness.load.results import CURVE, LOAD_KEY, LoadReport, combine
from harness.load.trial import RECEIPT, TRIALS, Record, summed
from harness.load.workers import TrialPlan, poisson, run_pool
from harness.pipeline.experiments import note_timed
from harness.pipeline.index import Opener, check_index
from harness.pipeline.layout import Layout, drop_older
from harness.pipeline.params import LoadParams
from harness.pipeline.receipts import check_run, read_manifest
from harness.replay.machine import Reference, folder_bytes, machine
from harness.replay.race import shown
from harness_engines import registry

LOOK_S = 0.3
"""How long the machine is looked at before a trial."""
REFERENCES = 5
"""How often the reference work is timed beside a trial."""
SEARCH = "search"
ONCE_AROUND = 1000
"""Fewest queries that a closed loop goes through before it begins again."""
PERCENT = 99.0
"""Of the arrivals that must be answered within the budget."""
FEWEST_ARRIVALS = 100
"""Of a trial in a search: with fewer, one slow answer is more than one in a hundred."""


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What was requested on the command line."""

    arms: tuple[str, ...]
    """Names, or paths to TOML files; the others are compared with the first."""
    rates: tuple[float, ...]
    """Arrivals a second; none means those of ``params.yaml``."""
    budget_ns: int | None
    """Look for the highest rate whose p99 keeps this; None means do not."""
    command: str


def load(
    layout: Layout, wanted: LoadRequest, cache: Path, params: LoadParams, time_limit_s: float
) -> LoadReport:
    """Try every arm at every rate, round by round, and look for highest rates where asked.

    Trials are kept one by one, so an interrupted load test resumes; when it is done they
    are added to the history, and the page is written.
    Two loads take turns: they would remove each other's trials, and load each other's machine.
    """
    parts = layout.cache / "parts" / "load"
    with held(parts):
        loading = _Loading(layout, wanted, cache, params, time_limit_s, parts)
        loading.run_curve()
        highest = loading.search(wanted.budget_ns) if wanted.budget_ns is not None else {}
        report = replace(loading.report(), highest=highest)
        TRIALS.append(history_of(layout), loading.records)
        write_text(trials_of(layout), TRIALS.text(loading.records))
        RECEIPT.write(receipt_of(layout), loading.receipt)
        shutil.rmtree(loading.folder, ignore_errors=True)
        note_timed(layout, "load", report.arms, datetime.now(UTC))
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


class _Loading:
    """One load: what is queried, of whom, and the trials that were run."""

    def __init__(  # noqa: PLR0917  all of it is the load
        self,
        layout: Layout,
        wanted: LoadRequest,
        cache: Path,
        params: LoadParams,
        time_limit_s: float,
        parts: Path,
    ) -> None:
        """Check that every arm is indexed and replayed as it is now."""
        self._layout, self._wanted, self._params = layout, wanted, params
        arms = [registry.load(name, cache) for name in wanted.arms]
        self._arms = tuple(arm.name for arm in arms)
        if not arms or len({*self._arms}) != len(arms):
            raise HarnessError("name at least one arm, and none twice: --arm NAME --arm OTHER")
        for arm in arms:
            check_run(layout, arm.name)
            check_index(layout, arm)
        self._openers = {
            arm.name: Opener(
                str(arm.path),
                layout.index(arm.name),
                cache,
                read_manifest(layout, arm.name).fingerprint,
            )
            for arm in arms
        }
        self._queries = Prepared.open(layout.data).queries()
        self._limit_ns = int(time_limit_s * 1e9)
        self._expected = {
            name: {r.query_id: shown(r, params.k) for r in read_run(layout.run(name)).rows()}
            for name in self._arms
        }
        self.receipt: dict[str, object] = {
            "arms": {name: opener.fingerprint for name, opener in self._openers.items()},
            "runs": {name: digest.of_file(layout.run(name)) for name in self._arms},
            "queries_sha256": digest.of_queries(self._queries),
            "rates": list(wanted.rates),
            "budget_ns": wanted.budget_ns,
            "params": params.model_dump(mode="json"),
        }
        self.folder = parts / digest.of_json([self.receipt, machine()])[:32]
        """Of the trials that were run, one file each."""
        drop_older(self.folder, params.resume_hours)
        self._records: dict[str, Record] = {}

    @property
    def records(self) -> tuple[Record, ...]:
        """Every trial so far, in the order they were run."""
        return tuple(self._records.values())

    def run_curve(self) -> None:
        """Run all rounds: in each the closed loop and every rate, of every arm in seeded order.

        The first arm comes twice. The closed loop of its first round says what its capacity is.
        """
        entrants = [*((arm, False) for arm in self._arms), (self._arms[0], True)]
        rates = self._wanted.rates
        if not rates:
            capacity = self._trial(self._arms[0], None, 0).trial.rate
            rates = tuple(float(f"{capacity * share:.3g}") for share in self._params.rates)
        places = [(n, rate) for n in range(self._params.rounds) for rate in (None, *rates)]
        with progress("loading", len(places) * len(entrants)) as advance:
            for number, rate in places:
                order = random.Random(f"{self._params.seed} {number} {rate}")
                for arm, twin in order.sample(entrants, len(entrants)):
                    trial = self._trial(arm, rate, number, twin=twin).trial
                    if trial.strays:
                        raise EvidenceError(
                            f"{arm}: {trial.strays} of {trial.arrivals} answers were not those of"
                            " its run, so its times mean nothing. Run:"
                            f" harness stage replay --arm {arm}, and look whether it answers alike"
                            " twice"
                        )
                    advance(1)

    def search(self, budget_ns: int) -> Mapping[str, Highest]:
        """Look for the highest rate of each arm, where the control is like itself."""
        noise = self.report().noise
        loud = [one.reason for one in noise.values() if one.verdict is not Verdict.PASS]
        if loud or not noise:
            reason = "; ".join(loud) or "no round of the control against itself counts"
            unknown = Highest(Verdict.INCONCLUSIVE, f"the machine is too noisy: {reason}", None, ())
            return dict.fromkeys(self._arms, unknown)
        return {arm: self._search(arm, budget_ns) for arm in self._arms}

    def _search(self, arm: str, budget_ns: int) -> Highest:
        params, numbers = self._params, count()
        rounds = (self._trial(arm, None, number) for number in range(params.rounds))
        capacity = median(one.trial.rate for one in rounds)
        total = 2 * trials_an_end(params.confidence) + 8  # to bisect, for the progress bar
        with progress(f"searching {arm}", total) as advance:

            def probe(rate: float) -> bool | None:
                record = self._trial(arm, rate, next(numbers), purpose=SEARCH)
                advance(1)
                if record.trial.strays:
                    return None
                kept = record.trial.keeps(budget_ns, PERCENT)
                return None if not kept and record.objection(params.max_lag) else kept

            return highest_rate(
                probe,
                capacity=capacity,
                floor=FEWEST_ARRIVALS / params.seconds,
                resolution=params.resolution,
                confidence=params.confidence,
                retries=2,  # of a trial that says nothing
            )

    def _trial(
        self, arm: str, rate: float | None, number: int, *, twin: bool = False, purpose: str = CURVE
    ) -> Record:
        """Run one trial, or read it where an interrupted load ran it."""
        at = "closed" if rate is None else f"{rate:.6g}"
        name = f"{purpose}-{number:04}-{at}-{arm}{'-twin' if twin else ''}"
        if name in self._records:
            return self._records[name]
        path = self.folder / f"{name}.json"
        try:
            record = TRIALS.read(path)[0]
        except (BadFile, IndexError):  # none was run, or it was cut off
            record = self._run(arm, rate, number, twin=twin, purpose=purpose)
            write_text(path, TRIALS.text([record]))
        self._records[name] = record
        return record

    def _run(
        self, arm: str, rate: float | None, number: int, *, twin: bool, purpose: str
    ) -> Record:
        params, opener = self._params, self._openers[arm]
        # The same arrivals for all arms in a round; a closed loop goes through enough queries.
        seed = (params.seed, number, int(1000 * (rate or 0)), int(purpose == SEARCH))
        drawn_at = rate or max(ONCE_AROUND, len(self._queries)) / params.seconds
        offsets_ns, picks = poisson(len(self._queries), drawn_at, params.seconds, seed)
        plan = TrialPlan(
            queries=self._queries,
            picks=picks,
            offsets_ns=None if rate is None else offsets_ns,
            seconds=params.seconds,
            k=params.k,
            time_limit_ns=self._limit_ns,
            expected=self._expected[arm],
            warm=params.warm,
        )
        busy = psutil.cpu_percent(LOOK_S) / 100
        reference = Reference()
        parts = run_pool(opener, plan, params.processes, params.threads)
        budgets_ns = () if self._wanted.budget_ns is None else (self._wanted.budget_ns,)
        about = {
            "dataset": self._layout.root.name,
            "machine": machine(),
            "busy": busy,
            "reference_ns": [reference.time_ns() for _ in range(REFERENCES)],
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "load": digest.of_json(self.receipt)[:LOAD_KEY],
            "fingerprint": opener.fingerprint,
            "processes": params.processes,
            "threads": params.threads,
            "k": plan.k,
            "index_bytes": folder_bytes(opener.index),
        }
        trial = summed(plan, parts, budgets_ns=budgets_ns)
        return Record(arm, twin, rate, number, purpose, trial, about)

    def report(self) -> LoadReport:
        """Combine the trials of the curve."""
        params = self._params
        return replace(
            combine(self.records, self._arms, params),
            loaded_at=datetime.now(UTC).isoformat(timespec="seconds"),
            about={
                "trial": f"{params.seconds:g} s",
                "rounds": f"{params.rounds}",
                "hits": f"{params.k}",
            },
            budget_ns=self._wanted.budget_ns,
            command=self._wanted.command,
        )
