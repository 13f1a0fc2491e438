"""Durable files: locks, owned folders, scratch, strays and swaps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path, PurePath

import pytest

from harness.core.errors import BadFile, HarnessError, Locked
from harness.core.files import (
    REMEDY,
    claimed,
    held,
    let_go,
    place,
    scratch,
    swapped,
    write_text,
    written_in,
)
from harness.core.folders import (
    OWNERS,
    RUN,
    SHADOW_REPORT,
    NotOurs,
    check_apart,
    check_held,
    check_new,
    claim,
    is_stray,
    mark,
)
from tests.make.damage import killed, little_room, started
from tests.source import ROOT

FLAGS = os.O_RDWR | os.O_CREAT


def test_one_claims_a_file_and_the_next_after_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = claimed(path, FLAGS)
    assert first is not None
    assert claimed(path, FLAGS) is None
    let_go(first)
    second = claimed(path, FLAGS)
    assert second is not None
    let_go(second)


@pytest.mark.parametrize("again", [False, True], ids=["gone", "another"])
def test_a_file_that_was_removed_meanwhile_is_not_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, again: bool
) -> None:
    """Whoever holds it removes it between our opening and our locking it."""
    path, other, opened = tmp_path / "lock", tmp_path / "other", os.open

    def open_late(name: Path, flags: int, mode: int) -> int:
        found = opened(name, flags, mode)
        path.unlink()
        if again:
            other.write_text("")
            other.rename(path)
        return found

    monkeypatch.setattr(os, "open", open_late)
    assert claimed(path, FLAGS) is None


def test_no_claim_is_made_where_there_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        claimed(tmp_path / "lock", os.O_RDWR)


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


def test_every_owner_has_a_mark_of_its_own() -> None:
    assert len({mark(Path(), owner).name for owner in OWNERS}) == len(OWNERS)


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


def test_what_an_earlier_version_wrote_is_known_where_it_proves_itself(tmp_path: Path) -> None:
    (tmp_path / "ledger.json").write_text("{}")
    claim(tmp_path, RUN, known=lambda folder: (folder / "ledger.json").is_file())
    assert mark(tmp_path, RUN).is_file()


@pytest.mark.parametrize("to", ["data", "data/out", "data/qrels/out", ".", "data/../data", "link"])
def test_a_place_that_is_or_touches_what_is_read_is_refused(tmp_path: Path, to: str) -> None:
    (tmp_path / "data" / "qrels").mkdir(parents=True)
    (tmp_path / "link").symlink_to("data/qrels")
    with pytest.raises(NotOurs, match="which is read"):
        claim(tmp_path / to, RUN, reads=[tmp_path / "data"])
    assert not list(tmp_path.rglob("*.txt"))


@pytest.mark.parametrize("to", ["new/../mine", "mine/new/../..", "file/../mine"])
def test_up_from_a_folder_that_is_not_there_leads_nowhere(tmp_path: Path, to: str) -> None:
    """``new/../mine`` is not there until ``new`` is made; then it is a folder of somebody's own."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "queries.jsonl").write_text("mine")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(BadFile, match=r"cannot resolve '\.\.'"):
        claim(tmp_path / to, RUN)
    with pytest.raises(BadFile, match=r"cannot resolve '\.\.'"):
        check_new(tmp_path / to / "page.html")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "mine", "queries.jsonl"]


def test_a_link_to_what_is_read_is_refused_also_in_a_marked_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    claim(tmp_path / "out", RUN)
    (tmp_path / "out" / "runs").symlink_to(tmp_path / "data")
    with pytest.raises(NotOurs, match="which is read"):
        claim(tmp_path / "out", RUN, reads=[tmp_path / "data"])


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


def test_a_file_is_new_or_ours(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    check_new(file)
    file.write_text("ours")
    check_new(file, ours=lambda path: path.read_text() == "ours")
    file.write_text("mine")
    with pytest.raises(NotOurs, match="already exists"):
        check_new(file, ours=lambda path: path.read_text() == "ours")
    with pytest.raises(NotOurs, match="is a folder"):
        check_new(tmp_path)
    with pytest.raises(NotOurs, match="which is read"):
        check_new(tmp_path / "x", reads=[tmp_path])


KILLED = """
import os, signal
from harness.core.files import scratch
with scratch() as folder:
    (folder / "letter").write_text("private")
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
STRANGER = 65534
"""Number of a user who owns nothing."""


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


def test_a_folder_that_a_mask_closed_to_its_user_is_opened_again() -> None:
    """After one command under such a mask every later one was refused until it was removed."""
    before = os.umask(0o777)
    try:
        assert place().stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)


def test_what_a_mask_closes_leaves_nothing(tmp_path: Path) -> None:
    """Hidden folders stayed in the project for good, one for each try."""
    tmp_path.chmod(0o777)
    child = os.fork()
    if not child:
        os.chdir(tmp_path)
        if not os.getuid():
            os.setuid(STRANGER)
        os.umask(0o777)
        with suppress(PermissionError), written_in(Path()):
            os._exit(1)
        os._exit(len([*Path().iterdir()]))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


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


def test_what_is_refused_elsewhere_keeps_its_name(tmp_path: Path) -> None:
    def write() -> None:
        with little_room(1_000), scratch():
            write_text(tmp_path / "lasting", "x" * 2_000)

    with pytest.raises(OSError, match="too large") as said:
        write()
    assert said.value.filename == str(tmp_path / "lasting")


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


def test_two_folders_change_places(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    if swapped(tmp_path / "one", tmp_path / "other"):
        assert (tmp_path / "one" / "other").exists()
        assert (tmp_path / "other" / "one").exists()
    else:
        assert (tmp_path / "one" / "one").exists()


def test_what_is_not_there_changes_places_with_nothing(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    assert not swapped(tmp_path / "one", tmp_path / "other")
    assert {path.name for path in tmp_path.iterdir()} == {"one"}
