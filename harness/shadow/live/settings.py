"""How a live comparison is set: the values of ``policy/shadow.toml``, in the units people think in.

Nothing here has a default: each value stands in that file with its reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from harness.shadow.live.compare import Slices
from harness.shadow.live.comparison import Comparison
from harness.shadow.live.limits import Limits, Recording
from harness.shadow.live.process import ProcessWorker
from harness.shadow.live.sampler import MILLION, Sampler
from harness.shadow.live.worker import Open, ThreadWorker, Worker
from harness.shadow.log.between import Between, write

NS_PER_MS, NS_PER_S = 1_000_000, 1_000_000_000
MOST_MS = 86_400_000
"""A day; of times in seconds it bounds slips of the hand alone."""


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Sampling(_Table):
    """Which queries are compared."""

    rate: int = Field(ge=0, le=MILLION)
    """So many of a million."""
    seed: int = Field(ge=0)


class LimitsTable(_Table):
    """``harness.shadow.live.limits.Limits``."""

    in_flight: int = Field(ge=1, le=MILLION)
    queue: int = Field(ge=0, le=MILLION)
    budget_s: float = Field(gt=0, le=MOST_MS)
    late_ms: float = Field(gt=0, le=MOST_MS)
    hang_ms: float = Field(gt=0, le=MOST_MS)
    start_s: float = Field(gt=0, le=MOST_MS)
    memory_mib: int = Field(ge=1, le=MILLION)
    backoff_ms: float = Field(gt=0, le=MOST_MS)
    backoff_most_ms: float = Field(gt=0, le=MOST_MS)
    abandoned: int = Field(ge=0, le=MILLION)
    close_s: float = Field(gt=0, le=MOST_MS)


class RecordingTable(_Table):
    """``harness.shadow.live.limits.Recording``."""

    batch: int = Field(ge=1, le=MILLION)
    linger_ms: float = Field(ge=0, le=MOST_MS)
    backlog: int = Field(ge=1, le=MILLION)
    rotate_mib: int = Field(ge=1, le=MILLION)
    sync_ms: float = Field(ge=0, le=MOST_MS)
    persistence: float = Field(gt=0, lt=1)


class Settings(_Table):
    """The whole file."""

    sampling: Sampling
    limits: LimitsTable
    recording: RecordingTable

    def bounds(self) -> Limits:
        """Give the limits in nanoseconds and bytes.

        Raises:
            HarnessError: two of them contradict each other.
        """
        given = self.limits
        return Limits(
            in_flight=given.in_flight,
            queue=given.queue,
            budget_ns=round(given.budget_s * NS_PER_S),
            late_ns=round(given.late_ms * NS_PER_MS),
            hang_ns=round(given.hang_ms * NS_PER_MS),
            start_ns=round(given.start_s * NS_PER_S),
            memory_bytes=given.memory_mib << 20,
            backoff_ns=round(given.backoff_ms * NS_PER_MS),
            backoff_most_ns=round(given.backoff_most_ms * NS_PER_MS),
            abandoned=given.abandoned,
            close_ns=round(given.close_s * NS_PER_S),
        )

    def writing(self) -> Recording:
        """Give how it is written down in nanoseconds and bytes."""
        given = self.recording
        return Recording(
            batch=given.batch,
            linger_ns=round(given.linger_ms * NS_PER_MS),
            backlog=given.backlog,
            rotate_bytes=given.rotate_mib << 20,
            sync_ns=round(given.sync_ms * NS_PER_MS),
            persistence=given.persistence,
        )


@dataclass(frozen=True, slots=True)
class ShadowLog:
    """Where a live comparison is written, and what it may cost."""

    folder: Path
    settings: Settings

    def compared(
        self, opens: Open, *, between: Between, process: bool, slices: Slices | None = None
    ) -> Comparison:
        """Put a candidate into the shadow, in a process of its own or on a thread.

        The log names the two of ``between``.

        For a process ``opens`` must be picklable; a thread is for a candidate that is elsewhere.

        Raises:
            HarnessError: two limits contradict each other.
            EvidenceError: another process writes a log to the folder.
            BadFile: the folder cannot be written to.
        """
        limits, sampling = self.settings.bounds(), self.settings.sampling
        start: Callable[[], Worker] = partial(ThreadWorker, opens, start_ns=limits.start_ns)
        if process:
            start = partial(
                ProcessWorker, opens, start_ns=limits.start_ns, memory_bytes=limits.memory_bytes
            )
        made = Comparison(
            self.folder,
            start,
            sampler=Sampler(rate=sampling.rate, seed=sampling.seed),
            limits=limits,
            recording=self.settings.writing(),
            slices=slices,
        )
        write(self.folder, between)
        return made
