"""``map_batches``: every part once and whole, whoever does it and whatever dies on the way."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from multiprocessing import active_children
from pathlib import Path
from time import monotonic, sleep

import psutil
import pytest

from harness.core import batches as core_batches
from harness.core.batches import Batch, Processes, map_batches, using
from harness.core.errors import EvidenceError, HarnessError, InvalidArm
from tests.core.works import FAULTY, Squares
from tests.make.damage import started
from tests.source import ROOT

WANTED = {str(number): f"{number}: {number * number}" for number in range(8)}


def batches(folder: Path) -> list[Batch]:
    return [Batch(int(number), folder / number) for number in WANTED]


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def check_pool(folder: Path) -> None:
    """Check that one that is killed loses no part, and that errors of a work are told."""
    told: list[int] = []
    map_batches(Squares(folder, "killed"), batches(folder / "parts"), advance=told.append)
    assert contents(folder / "parts") == WANTED
    assert sum(told) == len(WANTED)
    for fault, error, says in (
        ("refused", HarnessError, "three is wrong"),
        ("broken", InvalidArm, "KeyError: 'three'"),
    ):
        with pytest.raises(error, match=says):
            map_batches(Squares(folder, fault, once=False), batches(folder / fault))


@pytest.mark.slow
def test_processes_leave_the_same_parts_though_one_is_killed(tmp_path: Path) -> None:
    said: list[str] = []
    with closing(Processes(2, said.append)) as pool, using(pool):
        check_pool(tmp_path)
        assert said == ["a worker died: another one takes its batch"]
        dies = f"{core_batches.MAX_DEATHS} processes died at the same work"
        with pytest.raises(InvalidArm, match=dies):
            map_batches(Squares(tmp_path, "killed", once=False), batches(tmp_path / "dies"))
        map_batches(Squares(tmp_path), batches(tmp_path / "after"))
        assert contents(tmp_path / "after") == WANTED
        alive = [one.pid for one in active_children()]
        assert alive
    assert not [pid for pid in alive if pid and psutil.pid_exists(pid)]


@pytest.mark.parametrize("threads", [1, 3])
def test_this_process_does_every_batch_and_tells_how_far_it_is(
    tmp_path: Path, threads: int
) -> None:
    told: list[int] = []
    parts = batches(tmp_path / "parts")
    map_batches(Squares(tmp_path), parts, advance=told.append, threads=threads)
    assert contents(tmp_path / "parts") == WANTED
    assert sum(told) == len(WANTED)
    assert core_batches.current() is None


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


CLIENT = """
from contextlib import closing, suppress
from harness.core.batches import Batch, Processes, map_batches, using
from tests.core.works import Squares
folder = Path({folder!r})
with closing(Processes(2, print)) as pool, using(pool):
    parts = [Batch(number, folder / "parts" / str(number)) for number in range(8)]
    map_batches(Squares(folder, "slow"), parts)
"""


@pytest.mark.slow
def test_a_killed_client_leaves_no_process_and_the_next_one_goes_on(tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    client = started(CLIENT.format(folder=str(tmp_path)))
    until = monotonic() + 60
    while len([*parts.glob("[0-9]")]) < len(WANTED) - 1:
        assert monotonic() < until, client.communicate()
        sleep(0.01)
    workers = psutil.Process(client.pid).children(recursive=True)
    os.kill(client.pid, signal.SIGKILL)
    client.communicate()
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert not alive
    map_batches(Squares(tmp_path, "slow"), batches(parts))
    assert contents(parts) == WANTED


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a scheduler and two workers on loopback."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    scratch = str(tmp_path / "dask")
    worker = f"dask_worker tcp://{address} --nthreads 1 --no-nanny --local-directory".split()
    commands = [["dask_scheduler", "--host", address], *[[*worker, scratch]] * 2]
    found = [
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{name}", *rest, "--no-dashboard"], cwd=ROOT,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for name, *rest in commands
    ]  # fmt: skip
    yield f"tcp://{address}", found[0]
    for one in found:
        one.kill()
        one.wait()


@pytest.mark.slow
def test_workers_leave_the_same_parts_whoever_dies(
    scheduler: tuple[str, subprocess.Popen[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, process = scheduler
    said: list[str] = []
    with core_batches.cluster(address, said.append) as workers, using(workers):
        check_pool(tmp_path)
        assert said[0].endswith(f"at {address}")
        with monkeypatch.context() as patched:
            patched.setattr(core_batches, "code_sha256", lambda: "of another time")
            with pytest.raises(HarnessError, match="another version"):
                map_batches(Squares(tmp_path), batches(tmp_path / "other"))
        process.kill()
        process.wait()
        with pytest.raises(HarnessError, match=r"executor is gone.*run the same command again"):
            map_batches(Squares(tmp_path), batches(tmp_path / "two"))
    map_batches(Squares(tmp_path), batches(tmp_path / "two"))
    assert contents(tmp_path / "two") == WANTED
