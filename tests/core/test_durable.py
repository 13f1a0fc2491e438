"""Durable files: locks, owned folders, scratch, strays and swaps."""

import os
import signal
import subprocess
import sys
from pathlib import Path, PurePath

import pytest

from harness.core.errors import HarnessError, Locked
from harness.core.files import REMEDY, held, place, scratch
from harness.core.folders import (
    RUN,
    SHADOW_REPORT,
    NotOurs,
    check_apart,
    check_held,
    claim,
    is_stray,
    mark,
)
from tests.make.damage import little_room, started
from tests.source import ROOT


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


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


def test_a_new_an_empty_and_a_marked_folder_are_ours(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".index.html.lock").touch()
    for name in ("new", "empty", "deep/er"):
        folder = tmp_path / name
        claim(folder, RUN, project="mine")
        (folder / "index.html").write_text("ours")
        claim(folder, RUN)
        check_held(folder, RUN)
        said = mark(folder, RUN).read_text()
        assert said.startswith("harness run in the project mine made this folder")
        names = [path.name for path in folder.iterdir() if path.suffix != ".lock"]
        assert sorted(names) == ["harness-run.txt", "index.html"]


def test_what_somebody_else_has_is_refused_with_the_remedy(tmp_path: Path) -> None:
    folder = tmp_path / "my docs"
    folder.mkdir()
    (folder / "index.html").write_text("mine")
    with pytest.raises(NotOurs, match="holds what harness run did not write") as refused:
        claim(folder, RUN)
    assert "for example index.html. Name a new or empty folder" in str(refused.value)
    command = str(refused.value).partition("set it: ")[2]
    assert command == f"touch '{folder}/harness-run.txt'"
    assert [path.name for path in folder.iterdir()] == ["index.html"]
    with pytest.raises(NotOurs, match="bears no mark of harness run"):
        check_held(folder, RUN)
    mark(folder, RUN).touch()
    claim(folder, RUN)
    check_held(folder, RUN)


def test_a_folder_of_another_command_is_named_as_its(tmp_path: Path) -> None:
    claim(tmp_path, RUN)
    with pytest.raises(NotOurs, match="belongs to harness run"):
        claim(tmp_path, SHADOW_REPORT)
    assert [path.name for path in tmp_path.iterdir()] == ["harness-run.txt"]


@pytest.mark.parametrize("to", ["data", "data/out", "data/qrels/out", ".", "data/../data", "link"])
def test_a_place_that_is_or_touches_what_is_read_is_refused(tmp_path: Path, to: str) -> None:
    (tmp_path / "data" / "qrels").mkdir(parents=True)
    (tmp_path / "link").symlink_to("data/qrels")
    with pytest.raises(NotOurs, match="which is read"):
        claim(tmp_path / to, RUN, reads=[tmp_path / "data"])
    assert not list(tmp_path.rglob("*.txt"))


def test_beside_what_is_read_there_is_room(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "policy.toml").write_text("x")
    claim(tmp_path / "data-out", RUN, reads=[tmp_path / "data", tmp_path / "policy.toml"])
    with pytest.raises(NotOurs, match=r"policy\.toml, which is read"):
        check_apart(tmp_path, [tmp_path / "policy.toml"])


def test_what_is_no_folder_or_cannot_be_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(NotOurs, match="is a file"):
        claim(tmp_path / "file", RUN)
    with pytest.raises(HarnessError, match="file/below: cannot be written"):
        claim(tmp_path / "file" / "below", RUN)
    with pytest.raises(HarnessError, match="a: "):
        claim(tmp_path / "a", RUN)
    assert (tmp_path / "file").read_text() == "mine"


KILLED = """
import os, signal
from harness.core.files import scratch
with scratch() as folder:
    (folder / "letter").write_text("private")
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def _beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_a_folder_is_empty_private_and_removed() -> None:
    with scratch() as one, scratch() as other:
        assert one != other
        assert not [*one.iterdir(), *other.iterdir()]
        assert not place().stat().st_mode & 0o077
        (one / "file").write_text("kept while the block runs")
    assert not [*place().iterdir()]


def test_what_a_killed_process_left_goes_and_what_a_living_one_uses_stays(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = Path(done.stdout.strip())
    assert (left / "letter").read_text() == "private"
    with scratch() as living:
        assert not left.parent.exists()
        with scratch():
            assert living.exists()


def test_a_folder_that_others_may_read_is_refused(tmp_path: Path) -> None:
    taken = tmp_path / f"harness-{os.getuid()}"
    taken.mkdir(mode=0o755)
    with pytest.raises(HarnessError, match="is not a folder that only you can read"):
        place()
    taken.rmdir()
    taken.symlink_to(tmp_path)
    with pytest.raises(HarnessError, match="Remove it, or set TMPDIR"):
        place()


def test_where_no_folder_takes_temporary_files_the_message_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr("harness.core.files.gettempdir", none)
    with pytest.raises(HarnessError, match=r"\['/tmp'\]\). Free some .* or set TMPDIR"):
        place()


def test_a_disk_without_room_for_temporary_files_is_named_by_their_folder(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="temporary files cannot be written there") as said:
        write_much()
    assert str(said.value).startswith(f"{tmp_path}/harness-{os.getuid()}: ")
    assert str(said.value).endswith(REMEDY)
    assert not [*place().iterdir()]


def write_much() -> None:
    with little_room(1_000), scratch() as folder:
        (folder / "file").write_bytes(bytes(2_000))


@pytest.mark.parametrize(
    "name",
    [
        ".DS_Store", "deep/er/.DS_Store", "._run.py", ".run.py.swp", ".run.py.swo", "run.py~",
        ".#run.py", "#run.py#", ".ipynb_checkpoints/x.py", "__pycache__/x.pyc", "Thumbs.db",
    ],
)  # fmt: skip
def test_what_desktops_and_editors_leave_is_no_part_of_a_folder(name: str) -> None:
    assert is_stray(PurePath(name))


@pytest.mark.parametrize(
    "name",
    ["run.py", "index.db-journal", "index.db-wal", ".lock", "a/.gitignore", "x.swp.py", "DS_Store"],
)
def test_what_may_be_of_an_engine_or_of_ours_is(name: str) -> None:
    assert not is_stray(PurePath(name))
