"""A trial of a load in numbers, and as one line of text."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray
from pydantic import BeforeValidator, PlainSerializer, PlainValidator, TypeAdapter

from harness.core.errors import EvidenceError
from harness.core.formats import json_of
from harness.core.printable import many
from harness.core.reading import Malformed
from harness.core.run import Status
from harness.core.store import Artifact, Journal, Json
from harness.load.workers import NS_PER_S, TrialPlan, WorkerResult

LOWEST_NS, HIGHEST_NS = 1, 3_600_000_000_000
DIGITS = 3
"""Significant decimal digits that are kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """How often each time was seen; never written to once it is made."""

    _counts: HdrHistogram

    @classmethod
    def of(cls, times_ns: Iterable[int] | NDArray[np.int64]) -> Self:
        """Count times, nanoseconds."""
        counts = _empty()
        for time_ns in np.asarray(times_ns, dtype=np.int64).tolist():
            if not LOWEST_NS <= time_ns <= HIGHEST_NS:
                raise EvidenceError(
                    f"a time of {time_ns} ns is outside what a histogram holds, {LOWEST_NS} to"
                    f" {HIGHEST_NS} ns: a clock stood still or a trial ran for hours"
                )
            counts.record_value(time_ns)
        return cls(counts)

    @classmethod
    def merged(cls, parts: "Iterable[Histogram]") -> Self:
        """Count what all of ``parts`` counted."""
        counts = _empty()
        for part in parts:
            if part.count:
                counts.add(part._counts)  # noqa: SLF001  another of its own kind
        return cls(counts)

    @classmethod
    def decoded(cls, text: str) -> Self:
        """Read what ``encoded`` wrote."""
        counts = _empty()
        try:
            counts.decode_and_add(text.encode("ascii"))
        except Exception as exc:  # the codec raises what zlib, base64 and ctypes raise
            problem = f"not a histogram of times ({type(exc).__name__}: {exc})"
            raise Malformed(problem) from exc
        return cls(counts)

    def encoded(self) -> str:
        """Write it as text: HdrHistogram's compressed form, version 2, in base64."""
        return str(self._counts.encode().decode("ascii"))

    @property
    def count(self) -> int:
        """How many times were counted."""
        return int(self._counts.get_total_count())

    def percentile(self, percent: float) -> int | None:
        """Time that ``percent`` of the times do not exceed, nanoseconds; None where there are none.

        Exact to ``DIGITS`` significant digits. The same as HdrHistogram's own, which adds the
        counts of all buckets one by one.
        """
        if not self.count:
            return None
        of = self._counts
        counted = np.ctypeslib.as_array(of.counts).cumsum()
        place = np.searchsorted(counted, of.get_target_count_at_percentile(percent))
        value = of.get_value_from_index(int(place))
        return int(of.get_highest_equivalent_value(value) if percent else value)


def _empty() -> HdrHistogram:
    return HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)


PERCENTS = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0}
LAG_PERCENT = 99.0
End = Annotated[
    Status,
    BeforeValidator(lambda end: Status[end] if isinstance(end, str) else end),
    PlainSerializer(lambda end: end.name, return_type=str),
]
"""A ``Status``, written by its name."""


def _of_text(told: str | Mapping[str, str]) -> Histogram:
    """Read a histogram; earlier files have one of each query class."""
    return Histogram.merged(
        map(Histogram.decoded, [told] if isinstance(told, str) else told.values())
    )


Times = Annotated[Histogram, PlainValidator(_of_text), PlainSerializer(Histogram.encoded, str)]
"""A histogram, written as text."""


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """What is kept of one trial."""

    arrivals: int
    """Intended; of a closed loop, asked."""
    seconds: float
    """From the start to the last answer."""
    ends: Mapping[End, int]
    """How many ended how; ``NOT_ASKED`` are those that the trial was given up before."""
    strays: int
    response: Times
    """Nanoseconds from the intended start, of what was answered."""
    service: Times
    """Nanoseconds from the real start."""
    lag_ns: int
    """p99 of how late the generator itself was."""
    within: Mapping[int, float]
    """Share of all arrivals that were answered within each budget, nanoseconds."""
    cpu_ns: int
    """Of all processes."""
    opened_bytes: int
    """Resident memory that opening and serving added, of the largest process."""
    resident_bytes: int
    peak_bytes: int
    """Of the largest process, the interpreter included."""

    @property
    def rate(self) -> float:
        """Answers a second that came."""
        return self.ends[Status.ANSWERED] / self.seconds if self.seconds else 0.0

    def keeps(self, budget_ns: int, percent: float) -> bool:
        """Return whether ``percent`` of all arrivals were answered within the budget.

        What failed, came too late or was never asked is not within any budget, so an engine gains
        nothing by refusing quickly.
        """
        return self.within[budget_ns] >= percent / 100


def summed(plan: TrialPlan, parts: Sequence[WorkerResult], *, budgets_ns: Sequence[int]) -> Trial:
    """Reduce what the workers bring back to numbers."""
    everything = sorted(one for part in parts for one in part.served)
    done = [one for one in everything if one.status is Status.ANSWERED]
    total = len(everything) if plan.offsets_ns is None else len(plan.offsets_ns)
    began = min(part.start_ns for part in parts)
    ends = Counter(one.status for one in everything)
    ends[Status.NOT_ASKED] += total - len(everything)
    response = np.array([one.response_ns for one in done], dtype=np.int64)
    lag = [one.lag_ns for one in everything]
    return Trial(
        arrivals=total,
        seconds=(max((one.ended_ns for one in everything), default=began) - began) / NS_PER_S,
        ends={status: ends[status] for status in Status},
        strays=sum(one.stray for one in everything),
        response=Histogram.of(response),
        service=Histogram.of([one.service_ns for one in done]),
        lag_ns=int(np.percentile(lag, LAG_PERCENT)) if lag else 0,
        within={of: float((response <= of).sum()) / total if total else 0.0 for of in budgets_ns},
        cpu_ns=sum(part.cpu_ns for part in parts),
        opened_bytes=max(part.resident_bytes - part.before_bytes for part in parts),
        resident_bytes=max(part.resident_bytes for part in parts),
        peak_bytes=max(part.peak_bytes for part in parts),
    )


FORMAT, READ = 2, (1, 2)
NAMED = ("arm", "twin", "rate", "number", "purpose", "about")
_TRIAL = TypeAdapter(Trial)


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """One trial of one arm."""

    arm: str
    twin: bool
    """Whether this is the arm's second opening, for the A/A check."""
    rate: float | None
    """Arrivals a second that were intended; None for a closed loop."""
    number: int
    """Round, or number of the trial within a search."""
    purpose: str
    """``curve`` for a trial at a given rate, ``search`` for one of a search."""
    trial: Trial
    about: Mapping[str, Any]
    """Machine, its load before the trial, time, fingerprints and settings."""

    def objection(self, max_lag: float) -> str:
        """Describe why the times count for nothing; empty where they count.

        Times of a generator that was later than ``max_lag`` of the p99 are its own and not the
        engine's. A trial without an answer has no p99 to compare it with.
        """
        trial = self.trial
        if trial.strays:
            return f"{many(trial.strays, 'answer was')} not those of the arm's run"
        p99_ns = None if self.rate is None else trial.response.percentile(LAG_PERCENT)
        if p99_ns is not None and trial.lag_ns > max_lag * p99_ns:
            return (
                f"the generator was {trial.lag_ns / 1e6:.2f} ms late (p99), more than"
                f" {max_lag:g} of what it measured"
            )
        return ""

    def line(self) -> str:
        """Write it as one line of JSON."""
        told = {"format": FORMAT, **{name: getattr(self, name) for name in NAMED}}
        told |= _TRIAL.dump_python(self.trial, mode="json")
        return json.dumps(told, sort_keys=True, allow_nan=False)

    @classmethod
    def of_line(cls, line: str) -> Self:
        """Read what ``line`` wrote; the ``Journal`` names a line that is not one."""
        told = json_of(line)
        if told.pop("format") not in READ:
            raise Malformed(f"a trial of another format than {READ}")
        named = {name: told.pop(name) for name in NAMED}
        return cls(**named, trial=_TRIAL.validate_python(told))


AGAIN = "Run: harness load --arm ARM"
TRIALS = Journal("a trial", Record.of_line, Record.line, remedy=AGAIN)
RECEIPT: Artifact[dict[str, Any]] = Json("a receipt of a load", dict[str, Any], remedy=AGAIN)
