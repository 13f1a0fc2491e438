"""Command ``load``: an open-loop load test at fixed arrival rates, and its evidence."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from harness.core import digest
from harness.core.errors import BadFile, EvidenceError
from harness.core.evidence import AtRate, Evidence, Load
from harness.core.files import held, write_text
from harness.core.formats import json_file
from harness.core.gate import Verdict
from harness.core.progress import progress
from harness.replay.load_rates import Highest, highest_rate, trials_an_end
from harness.replay.load_trial import PERCENTS, Record, Trial
from harness.report.inputs import LoadReport
from harness.report.load import to_page
from harness.stages.custody.receipts import read_manifest
from harness.stages.experiments import note_timed
from harness.stages.layout import Layout
from harness.stages.load.files import (
    CURVE,
    LOAD_KEY,
    page_of,
    parts_of,
    read_history,
    receipt_of,
    trials_of,
)
from harness.stages.load.trials import SEARCH, Loading, LoadRequest
from harness.stages.params import LoadParams

AGAIN = "Run: harness load"
LOUD, WHOLE = 99.0, 100.0
"""Percent: that two openings of one arm are compared at, and of all."""


def with_load(layout: Layout, evidence: Mapping[str, Evidence]) -> dict[str, Evidence]:
    """Add to each comparison the last load, where it was of these indexes and runs.

    Raises:
        BadFile: its receipt or its trials cannot be read, or are not of one load.
    """
    found = read_load(layout)
    return {name: replace(one, load=found) for name, one in evidence.items()}


def read_load(layout: Layout) -> Load | None:
    """Read the last load; None where none was run, or an arm was indexed or replayed since.

    Raises:
        BadFile: its receipt or its trials cannot be read, or are not of one load.
    """
    if not (receipt_of(layout).is_file() and trials_of(layout).is_file()):
        return None
    receipt = _receipt(layout)
    trials = [one for one in read_history(trials_of(layout)) if one.purpose == CURVE]
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
    """Put the trials of one load together."""
    control = next((one.arm for one in trials if one.twin), "")
    at: dict[str, dict[float, list[Record]]] = {}
    for one in trials:
        if one.rate is not None and not one.twin:
            at.setdefault(one.arm, {}).setdefault(one.rate, []).append(one)
    rates = sorted(at.get(control, {}))
    openings = [
        {
            (one.rate, one.number): in_system_ns(one.trial, LOUD)
            for one in trials
            if one.arm == control and one.twin is twin and not one.objection(params.max_lag)
        }
        for twin in (False, True)
    ]
    both = sorted((r, n) for r, n in openings[0].keys() & openings[1].keys() if r is not None)
    return Load(
        at={
            arm: {rate: _at_rate(records, params.max_lag) for rate, records in rates.items()}
            for arm, rates in at.items()
        },
        noise={
            rate: np.array([openings[1][key] / openings[0][key] for key in both if key[0] == rate])
            for rate in rates
            if any(key[0] == rate for key in both)
        },
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


def _receipt(layout: Layout) -> dict[str, Any]:
    path = receipt_of(layout)
    try:
        found: dict[str, Any] = json_file(path)
    except (OSError, ValueError) as exc:
        raise BadFile(path, f"cannot be read ({exc})", AGAIN) from exc
    return found


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

    Trials are kept one by one, so an interrupted load goes on where it was; when it is done they
    are added to the history, and the page is written.
    Two loads take turns: they would remove each other's trials, and load each other's machine.

    Raises:
        Locked: another load took too long.
        InvalidArm: an arm cannot be opened, or is not the one that was replayed.
        EvidenceError: an arm was not replayed, or gives other answers than its run has.
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
    """Say whether what was measured may be believed, and found.

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
                            " not those of its run, so its times mean nothing. Run: harness replay"
                            f" --arm {arm}, and look whether it answers alike twice"
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
