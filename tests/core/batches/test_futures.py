"""Batches by an executor, a Dask cluster among them: the same parts, and what is gone is said."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from harness.core import batches as core_batches
from harness.core.batches import Batch, Futures, cluster, map_batches, using
from harness.core.errors import HarnessError, InvalidArm
from tests.core.batches.works import Squares
from tests.source import ROOT

pytestmark = pytest.mark.slow
WANTED = {str(number): f"{number}: {number * number}" for number in range(8)}


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a scheduler and two workers on loopback."""
    pytest.importorskip("distributed", reason='needs the extra "cluster"')
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


def batches(folder: Path) -> list[Batch]:
    return [Batch(int(number), folder / number) for number in WANTED]


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_workers_leave_the_same_parts_whoever_dies(
    scheduler: tuple[str, subprocess.Popen[bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address, process = scheduler
    said: list[str] = []
    with cluster(address, tmp_path, said.append) as workers, using(workers):
        told: list[int] = []
        map_batches(Squares(tmp_path, "killed"), batches(tmp_path / "one"), advance=told.append)
        assert contents(tmp_path / "one") == WANTED
        assert sum(told) == len(WANTED)
        assert said[0].endswith(f"at {address}")
        with pytest.raises(HarnessError, match="three is wrong"):
            map_batches(Squares(tmp_path, "refused", once=False), batches(tmp_path / "refused"))
        with pytest.raises(InvalidArm, match="KeyError: 'three'"):
            map_batches(Squares(tmp_path, "broken", once=False), batches(tmp_path / "broken"))
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


def test_any_executor_leaves_the_same_parts(tmp_path: Path) -> None:
    told: list[int] = []
    with ThreadPoolExecutor(2) as pool, using(Futures(pool, tmp_path)):
        map_batches(Squares(tmp_path), batches(tmp_path / "one"), advance=told.append)
        with pytest.raises(HarnessError, match="three is wrong"):
            map_batches(Squares(tmp_path, "refused", once=False), batches(tmp_path / "refused"))
    assert contents(tmp_path / "one") == WANTED
    assert sum(told) == len(WANTED)


def test_an_executor_that_no_longer_answers_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_batches, "TURN_S", 0.01)
    with ThreadPoolExecutor(1) as pool:
        go_on = Event()
        pool.submit(go_on.wait)
        with (
            using(Futures(pool, tmp_path, lambda: False)),
            pytest.raises(HarnessError, match="gone"),
        ):
            map_batches(Squares(tmp_path), batches(tmp_path / "one"))
        go_on.set()
    assert not (tmp_path / "one").exists()


def test_an_address_without_a_scheduler_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason='needs the extra "cluster"')
    monkeypatch.setattr(core_batches, "CONNECT_S", 1)
    with (
        pytest.raises(HarnessError, match=r"no scheduler at tcp://127.0.0.1:9 .*dask scheduler"),
        cluster("tcp://127.0.0.1:9", tmp_path, print),
    ):
        pass
