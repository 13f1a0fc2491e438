"""Whether a machine is fit to measure on: what its processor can, how busy it is, how steady.

Steadiness is an A/A check: the same work, timed as if it were two arms, each now first and now
second. What differs then is the machine (method, section 5).
"""

from __future__ import annotations

import os
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import NamedTuple

from harness.replay.machine import usable_cores
from harness.replay.reference import Reference

CPUINFO = Path("/proc/cpuinfo")
VECTORS = (
    "sse4_2", "avx2", "f16c", "avx_vnni", "avx512f", "avx512_vnni", "avx512_fp16", "amx_int8",
    "asimd", "asimdhp", "asimddp", "i8mm", "sve",
)  # fmt: skip
"""Instructions by which products of vectors are quick, as Linux names them."""
P95 = 95


class Noise(NamedTuple):
    """The same work as two arms."""

    rounds: int
    p50: float
    """The larger over the smaller of the two medians; 1 on a steady machine."""
    p95: float
    """The same of the two 95th percentiles."""
    slowest: float
    """The slowest of all over the median."""


def vector_flags() -> tuple[str, ...]:
    """Name the instructions of ``VECTORS`` that the processor has; none where nothing tells."""
    try:
        text = CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    lines = (line.partition(":") for line in text.splitlines())
    has = {
        flag
        for key, _, flags in lines
        if key.strip() in {"flags", "Features"}
        for flag in flags.split()
    }
    return tuple(flag for flag in VECTORS if flag in has)


def load_of_core() -> float | None:
    """Count what wanted to run in the last minute, for each usable core; None if unknown."""
    if not hasattr(os, "getloadavg"):
        return None
    return os.getloadavg()[0] / usable_cores()


def free_bytes(folder: Path) -> int:
    """Bytes that may be written into ``folder``, or into what is there of its parents."""
    there = next(path for path in (folder.resolve(), *folder.resolve().parents) if path.exists())
    return shutil.disk_usage(there).free


def noise(rounds: int, clock: Callable[[], int] = perf_counter_ns) -> Noise:
    """Time the reference work ``rounds`` times as each of two arms.

    Raises:
        ValueError: there are fewer than two rounds.
    """
    if rounds <= 1:
        raise ValueError(f"{rounds} rounds say nothing of how they differ; take two or more")
    reference = Reference(clock)
    times: tuple[list[int], list[int]] = [], []
    for at in range(rounds * 2):
        arm = (at // 2 + at) % 2
        times[arm].append(reference.time_ns())
    medians = [statistics.median(one) for one in times]
    tails = [statistics.quantiles(one, n=100, method="inclusive")[P95 - 1] for one in times]
    median = statistics.median((*times[0], *times[1]))
    return Noise(
        rounds,
        max(medians) / min(medians),
        max(tails) / min(tails),
        max(map(max, times)) / median,
    )
