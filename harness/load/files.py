"""What a load leaves, and what its workers open."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.core import digest
from harness.core.errors import BadFile
from harness.core.evidence import AtRate, Load
from harness.core.files import write_text
from harness.core.store import Artifact, Journal, Json
from harness.load.paths import history_of, receipt_of, trials_of
from harness.load.trial import PERCENTS, Record, Trial
from harness.pipeline.layout import Layout, drop_older
from harness.pipeline.params import LoadParams
from harness.pipeline.receipts import read_manifest

AGAIN = "Run: harness load --arm ARM"
CURVE = "curve"
"""Purpose of a trial that was requested, and not made by a search."""
LOAD_KEY = 16
"""Digits by which a trial names the receipt of its load."""


TRIALS = Journal("a trial", Record.of_line, Record.line, remedy=AGAIN)
RECEIPT: Artifact[dict[str, Any]] = Json("a receipt of a load", dict[str, Any], remedy=AGAIN)


class TrialFiles:
    """Trials of a load that is under way, one file each."""

    def __init__(self, folder: Path, resume_hours: float) -> None:
        """Keep what is younger than ``resume_hours``, and remove the rest."""
        self._folder = folder
        drop_older(folder, resume_hours)

    def get(self, name: str, make: Callable[[], Record]) -> Record:
        """Read the part called ``name``, or make it and write it."""
        path = self._folder / f"{name}.json"
        if path.is_file():
            try:
                return TRIALS.read(path)[0]
            except (BadFile, IndexError):
                path.unlink()  # as good as none
        record = make()
        write_text(path, TRIALS.text([record]))
        return record

    def done(self) -> None:
        """Remove them all."""
        shutil.rmtree(self._folder, ignore_errors=True)


def keep(layout: Layout, records: Sequence[Record], receipt: Mapping[str, object]) -> None:
    """Add the trials of a load that is done to the history, and put them by themselves too."""
    TRIALS.append(history_of(layout), records)
    write_text(trials_of(layout), TRIALS.text(records))
    RECEIPT.write(receipt_of(layout), dict(receipt))


LOUD, WHOLE = 99.0, 100.0
"""Percent: that two openings of one arm are compared at, and of all."""


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
    """Combine the trials of one load."""
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
