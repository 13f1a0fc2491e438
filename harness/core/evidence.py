"""All that a gate may look at when it judges one step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from harness.core.engine import Manifest
from harness.core.load import Load
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
    index_sha256: str | None = None
    """Of the index's files, as the harness counted them before it asked; None where it did not."""


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """How alike two runs are, query by query; needs no judgements (method, section 3)."""

    query_ids: tuple[str, ...]
    classes: tuple[str, ...]
    """One class a query: ``exact``, ``tie_order``, ``reorder``, ... , ``error``, ``timeout``."""
    scores: Mapping[str, Scores]
    """``Jaccard@10``, ``Jaccard@50``, ``RBO``, ``tau``, ... by name."""
    depth: int | None = None
    """Hits of each list that RBO, the taus and the classes look at; None where it is unknown."""


@dataclass(frozen=True, slots=True)
class Stolen:
    """What the system took from the answers of one arm, over all processes of a race; shares."""

    waited: float
    """Of the answers' wall time: ready and not running."""
    others: float
    """Of the time of all processors: used by other programs."""
    steal: float
    """Of the time that processors were wanted: given to other machines by the hypervisor."""
    throttled: float
    """Of wall time: held back by a quota."""
    preempted: float
    """How often an answer was taken off its processor, on average."""
    worked: float
    """Processor time over wall time of the answers."""

    @property
    def share(self) -> float:
        """The largest of the shares, each of which alone makes times those of another machine."""
        return max(self.waited, self.others, self.steal, self.throttled)

    @property
    def shares(self) -> Mapping[str, float]:
        """All of it by name, ``share`` too."""
        return {"share": self.share, **asdict(self)}

    @property
    def by(self) -> str:
        """Name what took it, in words."""
        taken = {
            "its answers waited for a processor": self.waited,
            "other programs used the processors": self.others,
            "the hypervisor held the processors back": self.steal,
            "a quota held the processors back": self.throttled,
        }
        return max(taken, key=lambda name: taken[name])


@dataclass(frozen=True, slots=True, eq=False)
class Race:
    """Times of several arms that were asked the same texts, interleaved, in several processes."""

    query_ids: tuple[str, ...]
    elapsed_ns: Mapping[str, NDArray[np.int64]]
    """First answers, to texts that the process had not seen: by arm, shape (processes, queries)."""
    lost_ns: Mapping[str, NDArray[np.int64]]
    """What each first answer lost at most by waiting for a processor; the same shape."""
    turns: Mapping[str, NDArray[np.int64]]
    """How many arms of the process had the text before this one; the same shape."""
    repeated_ns: Mapping[str, NDArray[np.int64]]
    """Answers to the first of the texts when they came again, shape (processes, repeated)."""
    unseen_ns: Mapping[str, NDArray[np.int64]]
    """Answers to variants of the first of the texts, which nobody asked before (processes, few)."""
    reference_ns: NDArray[np.int64]
    """The reference work of ``harness.replay.reference``, shape (processes, times)."""
    stolen: Mapping[str, Stolen]
    """By arm, of its first answers."""
    verified: Mapping[str, bool]
    """Whether every ranking seen in the race was the one of the arm's run."""
    machine: str
    """One line that names the processor, cores and system."""
    raced_at: str
    """When its first process began: UTC, ISO 8601."""


LOST = "lost by the log"
"""Of ``Traffic.passed_over``: attempts that were numbered, and are not in the log."""
SHED = "shed"
"""The same: attempts that were not made, to spare the machine."""


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """What a candidate did beside the control on live traffic; values in the order they came.

    Only attempts in which the control answered as itself are in the arrays.
    """

    attempted: int
    """Every attempt to compare, also those that came to nothing."""
    passed_over: Mapping[str, int]
    """Attempts that are in no array, by reason: shed, stale, lost, ..."""
    asked: NDArray[np.int64]
    """Shape (queries,): attempts that count of each different query, the most asked first."""
    failed: NDArray[np.bool_]
    """Shape (asked,): whether it failed, was too slow, or another one answered for it."""
    failed_at: NDArray[np.int64]
    """Shape (asked,): when each was attempted, nanoseconds since 1970 in UTC, as in the next."""
    failures: Mapping[str, int]
    """How it failed."""
    overlap: Mapping[int, NDArray[np.float64]]
    """Jaccard@k of the pairs that were compared and have one, each of shape (pairs,), by k."""
    overlap_at: Mapping[int, NDArray[np.int64]]
    """When each of these was attempted, shape (pairs,), by k."""
    control_ns: NDArray[np.int64]
    """Shape (timed,): each on its own clock, as in the next."""
    candidate_ns: NDArray[np.int64]
    """Shape (timed,): one that was given up counts with the time after which it was."""
    timed_at: NDArray[np.int64]
    """Shape (timed,): when each was attempted."""
    since: str
    """When the first attempt was made: UTC, ISO 8601."""
    until: str
    """When the last one was."""

    @property
    def evenly(self) -> float:
        """How many queries, each asked as often, would be as varied (inverse Simpson index)."""
        return float(self.asked.sum() ** 2 / max(int((self.asked**2).sum()), 1))


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
    clusters: Mapping[str, str]
    """Cluster by query id: queries to resample together. One that is not in there stands alone."""
    race: Race | None
    qrels: Qrels | None = None
    """What was judged; None where nothing was handed on."""
    traffic: Traffic | None = None
    """What live traffic said of these two arms; None where nobody watched."""
    load: Load | None = None
    """The last load test of these indexes and runs; None where none was run."""
    parted: frozenset[str] = frozenset()
    """Query ids of near duplicates by their words that declared intents part."""
