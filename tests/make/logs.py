"""A shadow log that another process writes."""

from __future__ import annotations

from pathlib import Path
from time import sleep

from harness.shadow.log import streams

PAUSE_S = 0.05


def written(folder: Path, attempts: int, *, within_s: float) -> streams.Read:
    """Wait until the log has all attempts.

    Raises:
        AssertionError: they are not there in time.
    """
    for _ in range(round(within_s / PAUSE_S)):
        found = streams.read(folder)
        if len(found.observations) == attempts:
            return found
        sleep(PAUSE_S)
    raise AssertionError(f"{len(found.observations)} of {attempts} attempts were written")
