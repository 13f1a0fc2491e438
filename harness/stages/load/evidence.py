"""The last load test as evidence: its trials as they were, and what follows from them for a gate.

The history of loads only grows, and a decision must rest on something that stands still: the
trials of the last load lie beside it by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from harness.core import digest
from harness.core.errors import BadFile
from harness.core.evidence import Evidence
from harness.core.formats import json_file
from harness.core.load import AtRate, Load
from harness.replay.load.record import Record
from harness.replay.load.trial import PERCENTS, Trial
from harness.stages.custody.proof import read_manifest
from harness.stages.layout import Layout
from harness.stages.load.files import CURVE, LOAD_KEY, read_history, receipt_of, trials_of
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
