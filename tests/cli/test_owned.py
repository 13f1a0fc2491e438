"""Every command that takes a place to write to refuses what is not its own, and loses nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from harness.core.folders import EXPERIMENT_LOG, REPORT, RUN, mark
from harness.corpus.beir import Beir
from tests.cli import click_log
from tests.cli.conftest import Harness
from tests.cli.owned import (
    ADDS,
    AGAIN,
    FILE_OPTION,
    IN_PLACE,
    NEW,
    OWNED,
    READ,
    READ_AT,
    READ_LEFT,
    TOY,
    paths,
    words_of,
)
from tests.cli.test_inspect import SPACE
from tests.docs.shell import Shell
from tests.make.desk import OVERLAP, make_panel, write_pool
from tests.make.shadow import live_log
from tests.make.shadow.attempts import WATCH
from tests.make.toy import Toy

pytestmark = pytest.mark.slow


def test_every_path_of_every_command_is_known_to_be_read_or_written() -> None:
    written = {(owns.command or name, owns.option) for name, owns in OWNED.items()}
    written |= {(name, "--from") for name in ADDS}
    written |= set(FILE_OPTION.items()) | IN_PLACE
    read = {(name, "--from") for name in READ_LEFT} | {(name, "--at") for name in READ_AT}
    found = paths()
    assert written | read <= found
    assert {
        (name, option) for name, option in found - written - read if option not in READ
    } == set()
    assert not written & read


@pytest.fixture(scope="module")
def ready_once(measured: Toy, tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Make all that a command of the tables reads."""
    project = measured.copied(tmp_path_factory.mktemp("ready") / "project")
    root = project.root
    Shell(root).harness("gate", "--exit-zero")
    write_pool(project.root)
    make_panel(project.root)
    live_log.write(project, root / "log")
    mail = "From a\nMessage-ID: <d00>\nSubject: words\n\nwords\n"
    (root / "toy.mbox").write_text(mail)
    (root / "watch.toml").write_text(WATCH.read_text(encoding="utf-8"))
    (root / "policy" / "accepted.toml").write_text("")
    shutil.copy(WATCH.parent / "shadow.toml", root / "shadow.toml")
    click_log.write(root / "clicks", Beir(root / "beir", "test").queries()[0].text)
    shutil.copy(WATCH.parent / "mail.toml", root / "mail.toml")
    examples = WATCH.parents[1] / "examples" / "shadow"
    shutil.copy(examples / "http.toml", root / "reading.toml")
    return project


@pytest.fixture
def ready(ready_once: Toy, project: Toy) -> Toy:
    """Give a test a copy, in the folder that its commands are called in."""
    shutil.rmtree(project.root)
    return ready_once.copied(project.root)


@pytest.fixture
def foreign(ready: Toy) -> Path:
    """Make a folder of somebody's own, with the names that commands like to write."""
    folder = ready.root / "site"
    (folder / "work").mkdir(parents=True)
    for name in ("index.html", "queries.jsonl", "decision.json", "switch.env", "toy.jsonl"):
        (folder / name).write_text("my own")
    return folder


def seen(folder: Path) -> Mapping[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("name", OWNED)
def test_a_folder_is_ours_or_nothing_is_written(
    ready: Toy, harness: Harness, foreign: Path, name: str
) -> None:
    owns, root = OWNED[name], ready.root
    if owns.command:
        harness(*words_of(name, "a"))
    before = seen(root)

    def call(to: str) -> str:
        return harness(*words_of(name, "a"), owns.option, to).error

    said = call("site")
    assert f"site: holds what {owns.owner} did not write, for example " in said
    assert f"touch site/{mark(Path(), owns.owner).name}" in said
    (root / "alias").symlink_to("site")
    assert "did not write" in call("alias")
    (root / "alias").unlink()
    assert "is a file" in call("params.yaml")
    for to in ("datasets/toy", "datasets/toy/new", "policy/new", "."):
        assert "which is read" in call(to), to
    assert seen(root) == before
    assert seen(foreign)["index.html"] == b"my own"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [name for name, owns in OWNED.items() if owns.runs])
def test_a_folder_of_its_own_is_made_and_written_into_again(
    ready: Toy, harness: Harness, name: str
) -> None:
    owns = OWNED[name]
    (ready.root / "empty").mkdir()
    for to in ("new", "empty"):
        words = (*words_of(name, to), owns.option, to)
        said = harness(*words)
        assert said.code == 0, said
        assert mark(ready.root / to, owns.owner).is_file()
        again = harness(*words)
        assert again.code == 0 or "began already" in again.error


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ADDS)
def test_nothing_is_added_to_a_run_that_bears_no_mark(
    ready: Toy, harness: Harness, name: str
) -> None:
    words = ("run", *TOY, "--arms", "fts5,tantivy", "--out", "ran")
    assert harness(*words).code == 0
    mark(ready.root / "ran", RUN).unlink()
    before = seen(ready.root)
    said = harness(*name.split(), *ADDS[name]).error
    assert "ran: bears no mark of harness run" in said
    assert "touch ran/harness-run.txt" in said
    assert seen(ready.root) == before


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NEW)
def test_a_file_of_somebodys_own_is_never_replaced(
    ready: Toy, harness: Harness, foreign: Path, name: str
) -> None:
    harness("history", "add", "--dataset", "toy")
    (ready.root / "space.toml").write_text(SPACE)
    (ready.root / "judge.toml").write_text(OVERLAP)
    words = (*name.split(), *NEW[name], FILE_OPTION[name])
    before = seen(ready.root)
    assert "is there already" in harness(*words, "site/index.html").error
    assert "is a folder" in harness(*words, "site").error
    assert "which is read" in harness(*words, "datasets/toy/x").error
    if name == "pool":
        assert "queries.jsonl: is there already" in harness(*words, "site/queries").error
    assert seen(ready.root) == before
    file = "site/mine" + {"decompose": ".json", "tune": ".toml", "table": ".md"}.get(name, "")
    said = harness(*words, file)
    if name == "pool":
        assert "no judgement is missing" in said.error
        return
    assert said.code == 0, said
    assert (foreign.parent / file).is_file()
    again = harness(*words, file)
    assert again.code == (0 if name in AGAIN else 2)


def test_the_pages_of_a_project_never_replace_anothers(ready: Toy, harness: Harness) -> None:
    harness("history", "add", "--dataset", "toy")
    (ready.root / "reports").mkdir()
    (ready.root / "reports" / "index.html").write_text("my own")
    for words in (("report",), ("history", "page")):
        said = harness(*words).error
        assert f"reports: holds what {REPORT} did not write" in said
    assert seen(ready.root / "reports") == {"index.html": b"my own"}


@pytest.mark.parametrize("words", [("advance",), ("observe",), ("mend",), ("rollback",),
                                   ("rollback", "--without-ledger", "fts5")])  # fmt: skip
def test_a_move_of_a_migration_writes_nowhere_else(
    ready: Toy, harness: Harness, foreign: Path, words: tuple[str, ...]
) -> None:
    (foreign / "switch.env").unlink()
    before = seen(foreign)
    more = ("--policy", "mail.toml") if words[0] in {"advance", "observe"} else ()
    said = harness("migrate", *words, *more, "--at", "site")
    assert said.error
    assert seen(foreign) == before
    assert ready


@pytest.mark.sampled(4)
@pytest.mark.parametrize("words", [("begin", "--serving", "fts5"), ("advance",), ("observe",),
                                   ("mend",), ("rollback",),
                                   ("rollback", "--without-ledger", "fts5")])  # fmt: skip
def test_a_ledger_and_a_switch_of_somebody_elses_stay(
    ready: Toy, harness: Harness, foreign: Path, words: tuple[str, ...]
) -> None:
    """A file named switch.env was replaced, and a folder with a ledger.json was marked as ours."""
    (foreign / "ledger.json").write_text("my own")
    before = seen(foreign)
    more = ("--policy", "mail.toml") if words[0] in {"begin", "advance", "observe"} else ()
    assert harness("migrate", *words, *more, "--at", "site").error
    now = {name: text for name, text in seen(foreign).items() if not name.endswith(".lock")}
    assert now == before
    if words[0] != "begin":
        assert harness("migrate", *words, *more, "--at", "nowhere").error
        assert not (ready.root / "nowhere").exists()


def test_what_is_no_file_is_no_page_of_ours(ready: Toy, harness: Harness) -> None:
    harness("history", "add", "--dataset", "toy")
    (ready.root / "gone").symlink_to("nowhere")
    for place, says in (("/dev/null", "is there already"), ("gone", "is a link to nothing")):
        assert says in harness("history", "page", "--out", place).error


def test_a_run_whose_log_is_refused_makes_no_folder(
    ready: Toy, harness: Harness, foreign: Path
) -> None:
    words = ("run", "--dataset", "toy", "--arms", "fts5", "--out", "new", "--log", "site")
    assert f"holds what {EXPERIMENT_LOG} did not write" in harness(*words).error
    assert not (ready.root / "new").exists()
    assert (foreign / "index.html").read_text() == "my own"


def test_a_data_set_is_never_the_place_of_its_own_run(ready: Toy, harness: Harness) -> None:
    """Sixty queries of a user's became forty where ``--out`` was the data set."""
    folder = ready.root / "beir"
    before = seen(folder)
    words = ("run", "--arms", "fts5", "--dataset")
    elsewhere: list[Callable[[], tuple[str, str]]] = [
        lambda: ("beir", "beir"),
        lambda: ("beir", "beir/out"),
        lambda: ("beir", "."),
        lambda: ("beir", "link/out"),
        lambda: ("link", "beir/out"),
    ]
    (ready.root / "link").symlink_to("beir")
    for place in elsewhere:
        dataset, to = place()
        assert "which is read" in harness(*words, dataset, "--out", to).error, (dataset, to)
    assert seen(folder) == before
    (ready.root / "out" / "runs").mkdir(parents=True)
    mark(ready.root / "out", RUN).touch()
    run = ready.root / "out" / "runs" / "fts5.trec"
    run.write_text("q00 Q0 d00 1 1.5 x\n")
    assert "which is read" in harness(
        *words, "toy", "--trec-run", "x=out/runs/fts5.trec", "--out", "out"
    ).error  # fmt: skip
    assert run.read_text() == "q00 Q0 d00 1 1.5 x\n"
