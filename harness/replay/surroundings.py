"""What else the machine did while a process measured: other programs, hypervisor, quota."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

import psutil

QUOTAS = (Path("/sys/fs/cgroup/cpu.stat"), Path("/sys/fs/cgroup/cpu/cpu.stat"))
"""Where a control group says how long its quota held it back: version 2, version 1."""
UNITS = {"throttled_usec": 1e-6, "throttled_time": 1e-9}
PRESSURE = Path("/proc/pressure/cpu")
IDLE = ("idle", "iowait", "steal", "guest", "guest_nice")
"""Of psutil's times: no work of this system, or counted among ``user`` already."""


class Surroundings(NamedTuple):
    """Shares over one stretch of time, each from 0."""

    others: float
    """Of the time of all processors: used by other programs and the system."""
    steal: float
    """Of the time that the processors were wanted: given to other machines by the hypervisor."""
    throttled: float
    """Of wall time: held back by the quota of the control group."""
    pressure: float | None
    """Of wall time: some program waited for a processor; None where the system does not say."""


class Look(NamedTuple):
    """Counters of the machine at one moment, in seconds."""

    wall: float
    own: float
    busy: float
    total: float
    steal: float
    throttled: float
    pressure: float | None


def look() -> Look:
    """Read the machine's counters now."""
    times = psutil.cpu_times()._asdict()
    busy = sum(spent for name, spent in times.items() if name not in IDLE)
    steal = times.get("steal", 0.0)
    idle = times["idle"] + times.get("iowait", 0.0)
    return Look(
        wall=perf_counter(),
        own=process_time(),
        busy=busy,
        total=busy + steal + idle,
        steal=steal,
        throttled=throttled_s(QUOTAS),
        pressure=pressure_s(PRESSURE),
    )


def between(before: Look, after: Look) -> Surroundings:
    """Tell what happened between two looks."""
    wall = max(after.wall - before.wall, 1e-9)
    busy = after.busy - before.busy
    steal = after.steal - before.steal
    others = max(0.0, busy - (after.own - before.own))
    waited = (
        None
        if before.pressure is None or after.pressure is None
        else (after.pressure - before.pressure) / wall
    )
    return Surroundings(
        others=others / max(after.total - before.total, 1e-9),
        steal=steal / max(busy + steal, 1e-9),
        throttled=(after.throttled - before.throttled) / wall,
        pressure=waited,
    )


def throttled_s(files: tuple[Path, ...]) -> float:
    """Seconds that a quota held this control group back so far; 0 without a quota."""
    for path in files:
        try:
            lines = path.read_text(encoding="ascii", errors="replace").splitlines()
        except OSError:
            continue
        for name, _, value in (line.partition(" ") for line in lines):
            if name in UNITS:
                return int(value) * UNITS[name]
    return 0.0


def pressure_s(path: Path) -> float | None:
    """Seconds in which some program waited for a processor so far; None where nothing says."""
    try:
        words = path.read_text(encoding="ascii", errors="replace").split("\n")[0].split()
        return int(dict(word.split("=") for word in words[1:])["total"]) / 1e6
    except (OSError, ValueError, KeyError):
        return None
