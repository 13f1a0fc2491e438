"""All that a gate may look at when it judges one step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.core.engine import Manifest
from harness.core.qrels import Qrels
from harness.core.run import Run
from harness.core.scores import Scores


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One arm, as it was measured."""

    arm: str
    manifest: Manifest
    run: Run
    scores: Mapping[str, Scores]
    """By measure name."""


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """How alike two runs are, query by query; needs no judgements (method, section 3)."""

    query_ids: tuple[str, ...]
    classes: tuple[str, ...]
    """One class a query: ``exact``, ``tie_order``, ``reorder``, ... , ``error``, ``timeout``."""
    scores: Mapping[str, Scores]
    """``Jaccard@10``, ``Jaccard@50``, ``RBO``, ``tau``, ... by name."""


@dataclass(frozen=True, slots=True, eq=False)
class Race:
    """Times of several arms that were asked the same queries, interleaved."""

    query_ids: tuple[str, ...]
    elapsed_ns: Mapping[str, NDArray[np.int64]]
    """By arm, shape (queries, repetitions)."""
    again_ns: Mapping[str, NDArray[np.int64]]
    """The A/A twin of each arm in ``elapsed_ns`` that had one: the same arm, opened twice."""
    verified: Mapping[str, bool]
    """Whether every ranking seen in the race was the one of the arm's run."""
    machine: str
    """One line that names the processor, cores and system."""
    raced_at: str
    """UTC, ISO 8601."""


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """What a candidate did beside the control on live traffic; values in the order they came.

    Only attempts in which the control answered as itself are in the arrays.
    """

    attempted: int
    """Every attempt to compare, also those that came to nothing."""
    passed_over: Mapping[str, int]
    """Attempts that are in no array, by reason: shed, stale, lost, ..."""
    failed: NDArray[np.bool_]
    """Shape (asked,): whether it failed, was too slow, or another one answered for it."""
    failures: Mapping[str, int]
    """How it failed."""
    overlap: Mapping[int, NDArray[np.float64]]
    """Jaccard@k of the pairs that were compared and have one, each of shape (pairs,), by k."""
    control_ns: NDArray[np.int64]
    """Shape (timed,): each on its own clock, as in the next."""
    candidate_ns: NDArray[np.int64]
    """Shape (timed,): one that was given up counts with the time after which it was."""
    since: str
    """When the first attempt was made: UTC, ISO 8601."""
    until: str
    """When the last one was."""


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What was measured for one step: control against candidate on one query set."""

    dataset: str
    control: Side
    candidate: Side
    agreement: Agreement
    noise: Agreement
    """Control against control, replayed once more: what a perfect candidate would show."""
    others: Mapping[str, Side]
    """Further arms that a gate may name, e.g. the floor that a semantic arm must beat."""
    slices: Mapping[str, frozenset[str]]
    """Query ids by slice."""
    intents: Mapping[str, str]
    """Intent by query id, where the query set names one: queries to resample together."""
    race: Race | None
    qrels: Qrels | None = None
    """What was judged; None where nothing was handed on."""
    traffic: Traffic | None = None
    """What live traffic said of these two arms; None where nobody watched."""
