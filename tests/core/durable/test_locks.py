"""One writer at a time, told by a lock that ends with its process."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.core.errors import BadFile, Locked
from harness.core.files import held
from tests.make.killed import killed, started


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_is_read_and_written_by_many_threads_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")

    def add(number: int) -> None:
        with held(path):
            path.write_text(f"{path.read_text()}{number}\n")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(80)))
    assert sorted(map(int, path.read_text().split())) == list(range(80))
    assert names(tmp_path) == {"file"}


def test_what_is_read_and_written_by_many_processes_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    adding = [
        started(f"""
            from harness.core.files import held
            path = Path({str(path)!r})
            for number in range(20):
                with held(path):
                    text = path.read_text()
                    time.sleep(0.0005)
                    path.write_text(f"{{text}}{{number}}\\n")
        """)
        for _ in range(3)
    ]
    for process in adding:
        process.communicate()
        assert process.returncode == 0
    assert sorted(map(int, path.read_text().split())) == sorted([*range(20)] * 3)
    assert names(tmp_path) == {"file"}


def test_a_killed_process_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "file"
    killed(f"""
        from harness.core.files import held
        with held(Path({str(path)!r})):
            os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert names(tmp_path) == {".file.lock"}
    with held(path, patience_s=0):
        assert names(tmp_path) == {".file.lock"}
    assert names(tmp_path) == set()


def test_a_living_process_does_not_and_is_named_after_a_while(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    process = started(f"""
        from harness.core.files import held
        with held(Path({str(path)!r})):
            print("held", flush=True)
            sys.stdin.read()
    """)
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    with pytest.raises(Locked, match="another process writes"), held(path, patience_s=0):
        pass
    process.communicate()
    with held(path, patience_s=5):
        pass


def test_a_thing_is_let_go_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), held(tmp_path / "file"):
        raise KeyboardInterrupt
    with held(tmp_path / "file", patience_s=0):
        pass


def test_a_child_that_was_forked_meanwhile_does_not_keep_it(tmp_path: Path) -> None:
    said = killed(f"""
        from harness.core.files import held
        path = Path({str(tmp_path / "file")!r})
        with held(path):
            child = os.fork()
            if not child:
                time.sleep(60)
        with held(path, patience_s=0):
            print("held again", flush=True)
        os.kill(child, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert said == "held again\n"


def test_a_folder_that_is_replaced_is_held_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    with held(path):
        path.rename(tmp_path / "old")
        path.mkdir()
        with pytest.raises(Locked), held(path, patience_s=0):
            pass


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / ".file.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"), held(tmp_path / "file"):
        pass
    assert not os.path.lexists(tmp_path / "elsewhere")


@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_what_somebody_else_named_alike_is_not_removed(tmp_path: Path, kind: str) -> None:
    alike = tmp_path / ".file.lock"
    if kind == "pipe":
        os.mkfifo(alike)
    else:
        alike.write_text("of somebody else")
    with held(tmp_path / "file"):
        pass
    assert alike.exists()


def test_beside_the_root_there_is_nothing() -> None:
    with pytest.raises(BadFile, match="root of the file system"), held(Path("/")):
        pass
