"""All that a gate may use to judge one step."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from harness.core.engine import Manifest
from harness.core.errors import EvidenceError
from harness.core.records import Qrels
from harness.core.run import Run
from harness.core.scores import Scores

Floats = NDArray[np.float64]
Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True, eq=False)
class AtRate:
    """One arm at one arrival rate, round by round."""

    system_ns: Mapping[str, Floats]
    """By percentile (``p50`` to ``p99``), shape (rounds,): nanoseconds from the intended start
    within which such a share of all arrivals was answered; infinite where fewer were at all."""
    busy: Floats
    """Shape (rounds,): share of the processors that other programs used just before a round."""
    objections: tuple[str, ...]
    """Why other rounds do not count, one text each."""
    arrivals: int


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """Arms with the same arrivals, in rounds."""

    absent: ClassVar[tuple[str, str]] = (
        "no load of these indexes and runs was run",
        "run: harness load --arm {control} --arm {candidate} --rate {rate:g}",
    )
    """Reason and remedy where it is missing, with the arms and the gate's keys."""

    at: Mapping[str, Mapping[float, AtRate]]
    noise: Mapping[float, Floats]
    """By rate, shape (rounds,): p99 of the first arm's second opening over that of its first."""
    reference_ns: NDArray[np.int64]
    """The reference work of ``harness.replay.machine`` before each trial, shape (times,)."""
    machine: str
    loaded_at: str


@dataclass(frozen=True, slots=True, eq=False)
class ArmResult:
    """Measurements of one arm."""

    arm: str
    manifest: Manifest
    run: Run
    scores: Mapping[str, Scores]
    index_sha256: str | None = None
    """Digest of the index's files, computed before the replay; None if unknown."""


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """Agreement of two runs, query by query; needs no judgements (method, section 3)."""

    query_ids: tuple[str, ...]
    classes: tuple[str, ...]
    """One class a query: ``exact``, ``tie_order``, ``reorder``, ... , ``error``, ``timeout``."""
    scores: Mapping[str, Scores]
    """``Jaccard@10``, ``Jaccard@50``, ``RBO``, ``tau``, ... by name."""
    depth: int | None = None
    """Hits of each list that RBO, the taus and the classes use; None if unknown."""


@dataclass(frozen=True, slots=True)
class Stolen:
    """Shares of time that one arm's answers lost to the system, over all processes of a race."""

    waited: float
    """Share of the answers' wall time: ready and not running."""
    others: float
    """Share of the time of all processors: used by other programs."""
    steal: float
    """Share of the requested processor time: given to other machines by the hypervisor."""
    throttled: float
    """Share of wall time: throttled by a quota."""
    preempted: float
    """Preemptions of an answer, on average."""
    worked: float
    """Processor time over wall time of the answers."""
    beside: float = 0.0
    """Processor time of other threads after the answers, over that of all answers: work that no
    clock saw."""

    @property
    def share(self) -> float:
        """The largest of the shares; each alone can distort the times."""
        return max(self.waited, self.others, self.steal, self.throttled)

    @property
    def shares(self) -> Mapping[str, float]:
        """All values by name, ``share`` included."""
        return {"share": self.share, **asdict(self)}

    @property
    def by(self) -> str:
        """Describe the largest share, in words."""
        taken = {
            "its answers waited for a processor": self.waited,
            "other programs used the processors": self.others,
            "the hypervisor held the processors back": self.steal,
            "a quota held the processors back": self.throttled,
        }
        return max(taken, key=lambda name: taken[name])


@dataclass(frozen=True, slots=True, eq=False)
class Race:
    """Times of several arms for the same texts, interleaved, in several processes."""

    absent: ClassVar[tuple[str, str]] = ("no race was run", "run: harness race")

    query_ids: tuple[str, ...]
    elapsed_ns: Mapping[str, NDArray[np.int64]]
    """First answers, to texts that the process had not seen: by arm, shape (processes, queries)."""
    lost_ns: Mapping[str, NDArray[np.int64]]
    """What each first answer lost at most by waiting for a processor; the same shape."""
    turns: Mapping[str, NDArray[np.int64]]
    """How many arms of the process ran the text before this one; the same shape."""
    repeated_ns: Mapping[str, NDArray[np.int64]]
    """Answers to the first texts when they were repeated, shape (processes, repeated)."""
    unseen_ns: Mapping[str, NDArray[np.int64]]
    """Answers to a variant of each text, never given to the arm; the shape of first answers."""
    reference_ns: NDArray[np.int64]
    """The reference work of ``harness.replay.machine``, shape (processes, times)."""
    stolen: Mapping[str, Stolen]
    """By arm: time lost to the system, for its first answers."""
    verified: Mapping[str, bool]
    """Whether every ranking in the race equals the one of the arm's run."""
    machine: str
    raced_at: str


LOST = "lost by the log"
"""Key of ``Traffic.passed_over``: numbered attempts that are missing from the log."""
SHED = "shed"
"""The same: attempts that were shed, to spare the machine."""


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """Results on live traffic by time, of attempts that the control's own index answered."""

    absent: ClassVar[tuple[str, str]] = (
        "no live traffic of {candidate} beside {control} is there",
        (
            "compare the two on live queries, and take their log in:"
            " harness shadow traffic LOG --control {control} --candidate {candidate}"
        ),
    )

    attempted: int
    passed_over: Mapping[str, int]
    """Attempts left out of the arrays, by reason: shed, stale, lost, ..."""
    asked: NDArray[np.int64]
    """Shape (queries,): counted attempts of each distinct query, the most frequent first."""
    largest_client: int
    """Counted attempts of the most frequent client; of several logs, the sum of each one's."""
    unnamed: int
    failed: NDArray[np.bool_]
    """Shape (asked,): whether it failed, was too slow, or another engine answered for it."""
    failed_at: NDArray[np.int64]
    """Shape (asked,): when each was attempted, nanoseconds since 1970 in UTC, as in the next."""
    failures: Mapping[str, int]
    overlap: Mapping[int, NDArray[np.float64]]
    """Jaccard@k of the compared pairs for which it is defined, shape (pairs,), by k."""
    overlap_at: Mapping[int, NDArray[np.int64]]
    """When each of these was attempted, shape (pairs,), by k."""
    control_ns: NDArray[np.int64]
    """Shape (timed,): each on its own clock, as in the next."""
    candidate_ns: NDArray[np.int64]
    """Shape (timed,): an abandoned answer counts with the time until it was abandoned."""
    timed_at: NDArray[np.int64]
    """Shape (timed,): when each was attempted."""
    since: str
    until: str


MACHINE = "machine:"
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """How hits were drawn, which makes it whole or noticed, and what was judged of them."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    control: str
    candidate: str
    measure: str
    seed: int
    rate: Annotated[float, Field(gt=0)]
    """A hit is drawn with this times what it can move the difference of its query, at most 1."""
    grades: Mapping[str, Mapping[str, int]]
    by: Annotated[str, Field(min_length=1)]
    """Who judged; ``machine:NAME`` for a machine."""

    @property
    def key(self) -> Key:
        """What it is a sample of."""
        return self.control, self.candidate, self.measure

    @property
    def machine(self) -> bool:
        """Whether a machine judged it, whose error no interval has."""
        return self.by.startswith(MACHINE)


class Samples(dict[Key, Sample]):
    """Judged samples of unjudged hits, by what each is of; never part of ``qrels``."""

    absent = (
        "no unjudged hit was judged",
        (
            "run: harness pool --control {control} --candidate {candidate}"
            " --measure MEASURE --size N --out FILE"
        ),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """The measurements for one step: control and candidate on one query set."""

    dataset: str
    control: ArmResult
    candidate: ArmResult
    agreement: Agreement
    noise: Agreement
    """A/A agreement of the control with its second replay: that of a perfect candidate."""
    others: Mapping[str, ArmResult]
    slices: Mapping[str, frozenset[str]]
    clusters: Mapping[str, str]
    """Cluster by query id: queries to resample together. A query without an entry is
    independent."""
    qrels: Qrels | None = None
    """The judgements; None if they were not passed on."""
    kinds: Mapping[type, object] = field(default_factory=dict)
    """What else was measured of these indexes and runs, by its kind: ``Race``, ``Samples``, and
    those of slices. A kind that was not is absent."""
    complete: str = ""
    """Why every relevant hit is judged, as the card says; empty where some may not be."""
    unlike_words: str = ""
    """How queries of one need in unlike words were looked for; empty where they were not."""
    drawn: bool = False
    """Whether each query was drawn from a log by itself, near duplicates like all others."""
    parted: frozenset[str] = frozenset()
    """Ids of queries that are near duplicates by their words, but have different intents."""

    @property
    def samples(self) -> Mapping[Key, Sample]:
        """Judged samples of unjudged hits."""
        return self.get(Samples) or {}

    def get(self, kind: type[Kind]) -> Kind | None:
        """Return the evidence of this kind; None where it is missing."""
        found = self.kinds.get(kind)
        return found if isinstance(found, kind) else None

    def of(self, kind: type[Kind]) -> Kind:
        """Return the evidence that a gate needs (``harness.gates.base.rules.missing``)."""
        if (found := self.get(kind)) is None:
            raise EvidenceError(f"{kind.__name__} is missing; measure it before it is judged")
        return found
