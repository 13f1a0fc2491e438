"""The machine that measures: name, memory, noise and fitness."""

import gc
import os
import platform
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter, perf_counter_ns, process_time
from typing import NamedTuple

import numpy as np
import psutil
from numpy.typing import NDArray

from harness.core.errors import HarnessError, InvalidArm

CPUINFO = Path("/proc/cpuinfo")


def machine() -> str:
    """Name the processor, its usable cores, the system and the Python."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    system = f"{platform.system()} {platform.machine()}"
    return f"{processor()}, {usable_cores()} cores, {system}, Python {python}"


def usable_cores() -> int:
    """Count the processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor() -> str:
    """Name the processor's model as the system gives it."""
    if CPUINFO.is_file():
        for line in CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return " ".join(line.split(":", 1)[1].split())
    return platform.processor() or "unknown processor"


STATUS = Path("/proc/self/status")
KIB = 1024


def resident_bytes() -> int:
    """Describe how much memory of this process is resident now, mapped files included."""
    return int(psutil.Process().memory_info().rss)


def peak_bytes() -> int:
    """Describe the most that was ever resident in this process."""
    if STATUS.is_file():
        for line in STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * KIB
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * KIB


def folder_bytes(folder: Path) -> int:
    """Add up the sizes of all files below ``folder``."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the collector from running inside somebody's time."""
    was_on = gc.isenabled()
    with setting_aside() as set_aside:
        set_aside()
        gc.disable()
        try:
            yield
        finally:
            if was_on:
                gc.enable()


@contextmanager
def setting_aside() -> Iterator[Callable[[], None]]:
    """Return a call after which the collector does not look at what was made up to it."""
    others = gc.get_freeze_count() > 0
    try:
        yield _set_aside
    finally:
        if not others:
            gc.unfreeze()


def _set_aside() -> None:
    gc.collect()
    gc.freeze()


Advance = Callable[[int], object]
Work = Callable[[Advance], None]
"""Does something, leaves it in a file, and tells how far it is; sent to a process, so a value."""
STOPPED_S = 5.0


def in_fresh_process(work: Work, advance: Advance) -> None:
    """Start Python anew (spawn), do ``work`` there, and wait."""
    with started(work) as follow:
        follow(advance)


@contextmanager
def started(work: Work) -> Iterator[Callable[[Advance], None]]:
    """Start Python anew (spawn) and do ``work`` there; give a call that waits for its end."""
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_process, args=(work, theirs), daemon=True)
    child.start()
    theirs.close()

    def follow(advance: Advance) -> None:
        try:
            while (told := ours.recv()) is not None:
                if not isinstance(told, int):
                    raised, said = told
                    raise raised(said)
                advance(told)
            child.join(STOPPED_S)
        except EOFError:
            child.join(STOPPED_S)
            raise InvalidArm(
                f"its process died with exit code {child.exitcode} before it was done. What was"
                " done before is kept: run the same command again, or look for what killed it"
            ) from None

    try:
        yield follow
    finally:
        if child.is_alive():
            child.terminate()
        child.join(STOPPED_S)
        ours.close()


def _process(work: Work, theirs: Connection) -> None:
    """Be the process."""
    try:
        work(theirs.send)
    except KeyboardInterrupt:
        return
    except HarnessError as exc:
        theirs.send((HarnessError, str(exc)))
    except BaseException as exc:  # noqa: BLE001  a panic of a Rust engine is no Exception
        theirs.send((InvalidArm, f"{type(exc).__name__}: {exc}"))
    else:
        theirs.send(None)


NUMBERS = 4_000
CELLS, READS = 1 << 20, 1 << 16


@cache
def _table() -> NDArray[np.int64]:
    return np.random.default_rng(0).permutation(CELLS)


class Reference:
    """The work, with the table that it reads."""

    def __init__(self, clock: Callable[[], int] = perf_counter_ns) -> None:
        self._clock = clock
        self._table = _table()

    def time_ns(self) -> int:
        """Do it once, and say how long it took."""
        start = self._clock()
        self.work()
        return self._clock() - start

    def work(self) -> int:
        """Do it once; always the same."""
        numbers = [at * 7919 % NUMBERS for at in range(NUMBERS)]
        table = {number: at for at, number in enumerate(sorted(numbers))}
        read = self._table[self._table[:READS]]
        return table[0] + int(read.max())


VECTORS = (
    "sse4_2", "avx2", "f16c", "avx_vnni", "avx512f", "avx512_vnni", "avx512_fp16", "amx_int8",
    "asimd", "asimdhp", "asimddp", "i8mm", "sve",
)  # fmt: skip
"""Instructions by which products of vectors are quick, as Linux names them."""


def vector_flags() -> tuple[str, ...]:
    """Name the instructions of ``VECTORS`` that the processor has; none where nothing tells."""
    text = CPUINFO.read_text(encoding="utf-8", errors="replace") if CPUINFO.is_file() else ""
    lines = (line.partition(":") for line in text.splitlines())
    has = {
        flag
        for key, _, flags in lines
        if key.strip() in {"flags", "Features"}
        for flag in flags.split()
    }
    return tuple(flag for flag in VECTORS if flag in has)


def free_bytes(folder: Path) -> int:
    """Bytes that may be written into ``folder``, or into what is there of its parents."""
    there = next(path for path in (folder.resolve(), *folder.resolve().parents) if path.exists())
    return shutil.disk_usage(there).free


QUOTAS = (Path("/sys/fs/cgroup/cpu.stat"), Path("/sys/fs/cgroup/cpu/cpu.stat"))
"""Where a control group says how long its quota held it back: version 2, version 1."""
UNITS = {"throttled_usec": 1e-6, "throttled_time": 1e-9}
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


class MachineCounters(NamedTuple):
    """Counters of the machine at one moment, in seconds."""

    wall: float
    own: float
    busy: float
    total: float
    steal: float
    throttled: float


def look() -> MachineCounters:
    """Read the machine's counters now."""
    times = psutil.cpu_times()._asdict()
    busy = sum(spent for name, spent in times.items() if name not in IDLE)
    steal = times.get("steal", 0.0)
    idle = times["idle"] + times.get("iowait", 0.0)
    return MachineCounters(
        wall=perf_counter(),
        own=process_time(),
        busy=busy,
        total=busy + steal + idle,
        steal=steal,
        throttled=throttled_s(QUOTAS),
    )


def between(before: MachineCounters, after: MachineCounters) -> Surroundings:
    """Describe what happened between two looks."""
    wall = max(after.wall - before.wall, 1e-9)
    busy = after.busy - before.busy
    steal = after.steal - before.steal
    others = max(0.0, busy - (after.own - before.own))
    return Surroundings(
        others=others / max(after.total - before.total, 1e-9),
        steal=steal / max(busy + steal, 1e-9),
        throttled=(after.throttled - before.throttled) / wall,
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
