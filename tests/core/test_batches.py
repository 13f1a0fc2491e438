"""``map_batches``: every part once and whole, whoever does it and whatever dies on the way."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic, sleep

import psutil
import pytest

from harness.core import batches as core_batches
from harness.core.batches import (
    MAX_DEATHS,
    Batch,
    Processes,
    cluster,
    current,
    map_batches,
    using,
)
from harness.core.errors import EvidenceError, HarnessError, InvalidArm
from tests.core.works import FAULTY, Squares
from tests.make.damage import started
from tests.source import ROOT

# ``map_batches``: every part once and whole, whoever does it and whatever dies on the way

NUMBERS = range(8)


def batches(folder: Path) -> list[Batch]:
    return [Batch(number, folder / str(number)) for number in NUMBERS]


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


WANTED = {str(number): f"{number}: {number * number}" for number in NUMBERS}


@contextmanager
def two(said: list[str]) -> Iterator[Processes]:
    with closing(Processes(2, said.append)) as pool, using(pool):
        yield pool


@pytest.mark.parametrize("threads", [1, 3])
def test_this_process_does_every_batch_and_tells_how_far_it_is(
    tmp_path: Path, threads: int
) -> None:
    told: list[int] = []
    parts = batches(tmp_path / "parts")
    map_batches(Squares(tmp_path), parts, advance=told.append, threads=threads)
    assert contents(tmp_path / "parts") == WANTED
    assert sum(told) == len(WANTED)
    assert current() is None


@pytest.mark.parametrize("threads", [1, 3])
def test_after_an_error_what_is_done_stays_and_half_a_part_is_gone(
    tmp_path: Path, threads: int
) -> None:
    parts = batches(tmp_path / "parts")
    with pytest.raises(EvidenceError, match="three is wrong"):
        map_batches(Squares(tmp_path, "refused"), parts, threads=threads)
    found = contents(tmp_path / "parts")
    assert found.items() <= WANTED.items()
    assert str(FAULTY) not in found
    map_batches(Squares(tmp_path, "refused"), parts, threads=threads)
    assert contents(tmp_path / "parts") == WANTED


@pytest.mark.slow
def test_processes_leave_the_same_parts_though_one_is_killed(tmp_path: Path) -> None:
    said: list[str] = []
    told: list[int] = []
    with two(said) as pool:
        map_batches(Squares(tmp_path, "killed"), batches(tmp_path / "parts"), advance=told.append)
        assert contents(tmp_path / "parts") == WANTED
        assert sum(told) == len(WANTED)
        assert said == ["a worker died: another one takes its batch"]
        with pytest.raises(HarnessError, match="three is wrong"):
            map_batches(Squares(tmp_path, "refused", once=False), batches(tmp_path / "refused"))
        with pytest.raises(InvalidArm, match="KeyError: 'three'"):
            map_batches(Squares(tmp_path, "broken", once=False), batches(tmp_path / "broken"))
        with pytest.raises(InvalidArm, match=f"{MAX_DEATHS} processes died at the same work"):
            map_batches(Squares(tmp_path, "killed", once=False), batches(tmp_path / "dies"))
        map_batches(Squares(tmp_path), batches(tmp_path / "after"))
        assert contents(tmp_path / "after") == WANTED
        alive = psutil.Process().children(recursive=True)
        assert alive
    pool.close()
    assert not [one for one in alive if "spawn_main" in " ".join(_words(one))]


def _words(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


CLIENT = """
from contextlib import closing
from harness.core.batches import Batch
from harness.core.batches import map_batches, using
from harness.core.batches import Processes
from tests.core.works import Squares
if __name__ == "__main__":
    folder = Path(sys.argv[-1]) if sys.argv[-1:] != ["-c"] else Path({folder!r})
    with closing(Processes(2, print)) as pool, using(pool):
        parts = [Batch(number, folder / "parts" / str(number)) for number in range(8)]
        map_batches(Squares(folder, "slow"), parts)
"""


@pytest.mark.slow
def test_a_killed_client_leaves_no_process_and_the_next_one_goes_on(tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    client = started(CLIENT.format(folder=str(tmp_path)))
    until = monotonic() + 60
    while not (parts.is_dir() and len([*parts.glob("[0-9]")]) == len(WANTED) - 1):
        assert monotonic() < until, client.communicate()
        sleep(0.05)
    workers = psutil.Process(client.pid).children(recursive=True)
    os.kill(client.pid, signal.SIGKILL)
    client.communicate()
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert not alive
    map_batches(Squares(tmp_path, "slow"), batches(parts))
    assert contents(parts) == WANTED


# Batches by an executor, a Dask cluster among them: the same parts, and what is gone is said

WANTED_FUTURES = {str(number): f"{number}: {number * number}" for number in range(8)}


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a scheduler and two workers on loopback."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", address]
    plain = {"cwd": ROOT, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    found = [subprocess.Popen([*dask, "--no-dashboard"], **plain)]  # type: ignore[call-overload]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", f"tcp://{address}"]
    rest = [
        "--nthreads",
        "1",
        "--no-nanny",
        "--no-dashboard",
        "--local-directory",
        str(tmp_path / "dask"),
    ]
    found += [subprocess.Popen([*worker, *rest], **plain) for _ in range(2)]  # type: ignore[call-overload]
    yield f"tcp://{address}", found[0]
    for one in found:
        one.kill()
        one.wait()


def batch_files(folder: Path) -> list[Batch]:
    return [Batch(int(number), folder / number) for number in WANTED_FUTURES]


@pytest.mark.slow
def test_workers_leave_the_same_parts_whoever_dies(
    scheduler: tuple[str, subprocess.Popen[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, process = scheduler
    said: list[str] = []
    with cluster(address, said.append) as workers, using(workers):
        told: list[int] = []
        map_batches(Squares(tmp_path, "killed"), batch_files(tmp_path / "one"), advance=told.append)
        assert contents(tmp_path / "one") == WANTED_FUTURES
        assert sum(told) == len(WANTED_FUTURES)
        assert said[0].endswith(f"at {address}")
        with pytest.raises(HarnessError, match="three is wrong"):
            map_batches(Squares(tmp_path, "refused", once=False), batch_files(tmp_path / "refused"))
        with pytest.raises(InvalidArm, match="KeyError: 'three'"):
            map_batches(Squares(tmp_path, "broken", once=False), batch_files(tmp_path / "broken"))
        with monkeypatch.context() as patched:
            patched.setattr(core_batches, "code_sha256", lambda: "of another time")
            with pytest.raises(HarnessError, match="another version"):
                map_batches(Squares(tmp_path), batch_files(tmp_path / "other"))
        process.kill()
        process.wait()
        with pytest.raises(HarnessError, match=r"executor is gone.*run the same command again"):
            map_batches(Squares(tmp_path), batch_files(tmp_path / "two"))
    map_batches(Squares(tmp_path), batch_files(tmp_path / "two"))
    assert contents(tmp_path / "two") == WANTED_FUTURES
