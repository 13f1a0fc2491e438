"""What a live comparison may cost, and how it is written down. Nothing has a default."""

from __future__ import annotations

from dataclasses import dataclass, fields

from harness.core.errors import HarnessError


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of the machine, and of a person's patience, the candidate gets.

    Raises:
        HarnessError: a number is below what it must be.
    """

    in_flight: int
    """Candidates that run at once, each with its own worker."""
    queue: int
    """Pairs that may wait for a worker; beyond it they are shed."""
    budget_ns: int
    """Time that the candidate may take of each minute, over all workers."""
    late_ns: int
    """An answer after this long is a timeout: a person had left."""
    hang_ns: int
    """After this long the worker is given up and replaced; not below ``late_ns``."""
    start_ns: int
    """A candidate that is not open after this long did not start."""
    memory_bytes: int
    """Resident memory of a candidate's process, above which it is replaced. Threads have none."""
    backoff_ns: int
    """Wait before a lost worker is replaced; doubled at each loss until a query is answered."""
    backoff_most_ns: int
    abandoned: int
    """Hanging threads of the candidate that are borne before the comparison is switched off."""
    close_ns: int
    """How long closing may take; a lane that is busy for longer is left alone."""

    def __post_init__(self) -> None:
        _from(self, {"queue": 0, "abandoned": 0})
        if self.hang_ns < self.late_ns or self.backoff_most_ns < self.backoff_ns:
            raise HarnessError(
                f"hang_ns {self.hang_ns} must not lie below late_ns {self.late_ns}, nor"
                f" backoff_most_ns {self.backoff_most_ns} below backoff_ns {self.backoff_ns}"
            )


@dataclass(frozen=True, slots=True)
class Recording:
    """How pairs become records.

    Raises:
        HarnessError: a number is below what it must be, or ``persistence`` not between 0 and 1.
    """

    batch: int
    """Most pairs that are compared and written at once. It takes about 0.1 ms a pair of the
    interpreter's lock, which whoever serves waits for in the worst case."""
    linger_ns: int
    """How long a pair may wait for others to be compared with it, which makes each of them
    cheaper. It is also what a kill may take."""
    backlog: int
    """Pairs that may wait to be written; beyond it they are lost, and counted."""
    rotate_bytes: int
    """A stream starts a new file after one of this size."""
    sync_ns: int
    """How often the disk is waited for; 0 is after every batch."""
    persistence: float
    """The p of RBO, between 0 and 1."""

    def __post_init__(self) -> None:
        _from(self, {"linger_ns": 0, "sync_ns": 0, "persistence": 0})
        if not 0 < self.persistence < 1:
            raise HarnessError(f"persistence {self.persistence} must lie between 0 and 1")


def _from(settings: Limits | Recording, zero: dict[str, int]) -> None:
    for field in fields(settings):
        value, least = getattr(settings, field.name), zero.get(field.name, 1)
        if value < least:
            raise HarnessError(f"{field.name} is {value}; give at least {least}")
