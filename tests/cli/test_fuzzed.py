"""Every command: arguments at random, and folders it may write."""

import json
import os
import random
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from harness.cli.command import PANELS
from harness.core.folders import REPORT, RUN, mark
from harness.corpus.beir import Beir
from tests.cli import owned
from tests.cli.conftest import Harness, seen
from tests.cli.owned import DATA, WORKS, command_tree, filled, given, leaves
from tests.docs.pages import COMMAND, ROOT, Said, Shell
from tests.make import shadow_log as live_log
from tests.make.damage import NAMES, PLANTED, holding
from tests.make.desk import grading, make_panel, write_pool
from tests.make.toy import SPACE, Toy, here

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("derived_once")]
NO_OPTION = {"demo", "doctor", "report"}
SERVES = {"serve", "mail-server", "shadow mcp", "shadow receive"}
"""Commands that end when they are told to."""
VERDICTS = {"gate", "migrate advance", "migrate drill", "migrate status"}
"""Commands that end by 1 on these words: the toy's log diverges, and none of mail was decided."""
PATHS = (
    "absent/deep", "params.yaml", "datasets", "params.yaml/below", "", "a\0b", "x" * 5_000, "loop",
    "/dev/null", "/proc/none/deep", "fifth.json",
)  # fmt: skip
TEXTS = (
    "", "../../x", "\udcff", "-", "a b", "x" * 300, "/", "\x1b[31mred", "no such thing", "ndcg@10",
    '{"a":', "\U0001f600,\u202e",
)  # fmt: skip
EVERY = os.environ.get("CLI_FUZZ", "") == "all"
EACH_RUN = sys.maxsize if EVERY else len(WORKS)
FLAGS_EACH_RUN = 8
SECRETS = sorted({*NAMES} - {"USER", "HOSTNAME"})
"""Who typed a move of a migration is in its ledger."""
NUMBERS = ("-1", "nan", "1e999", "9" * 400, "0", "", "0x10", "1.5")


def values_of(param: Any) -> tuple[str, ...]:  # noqa: ANN401  click's
    """Return hostile values of a parameter; none of a flag."""
    if getattr(param, "is_flag", False):
        return ()
    kind = str(param.type_descriptor.annotation)
    if "Path" in kind:
        return PATHS
    return TEXTS if "str" in kind or "datetime" in kind else NUMBERS


def flags() -> list[tuple[str, str]]:
    """Name every flag but --json of each command, both to set it and to take it back."""
    return [
        (name, flag)
        for name, command in leaves(command_tree())
        for param in command.params
        if getattr(param, "is_flag", False) and name not in NO_OPTION
        for flag in (*param.opts, *param.secondary_opts)
        if flag != "--json"
    ]


def cases() -> list[tuple[str, int, str]]:
    """Name options of each command, by their place, with a value."""
    drawn = random.Random(5)
    found = []
    for name, command in leaves(command_tree()):
        every = [
            (name, at, value)
            for at, param in enumerate(command.params)
            for value in values_of(param)
        ]
        paths = [one for one in every if one[2] in PATHS]
        few = [drawn.choice(some) for some in (paths, every) if some]
        found += every if EVERY else few
    return found


def test_every_command_has_words_that_work_and_a_group_of_the_help() -> None:
    assert {name for name, _ in leaves(command_tree())} == set(WORKS) | NO_OPTION
    assert {name for names in PANELS.values() for name in names} == set(command_tree().commands)


@pytest.mark.parametrize("name", [*WORKS, *sorted(NO_OPTION)])
def test_a_command_and_each_of_its_options_says_what_it_is_for(shell: Shell, name: str) -> None:
    command = dict(leaves(command_tree()))[name]
    assert command.help
    for param in command.params:
        assert getattr(param, "help", ""), param.name
    said = call(shell, *name.split(), "--help")
    assert (said.code, f"harness {name}" in said.text) == (0, True)
    assert call(shell, *name.split(), "--no-such-option").code == 2


def test_help_imports_nothing_heavy_and_a_command_no_module_of_another() -> None:
    homes = {name: f"harness.{home}" for of in PANELS.values() for name, home in of.items()}
    for asked, heavy in (
        ("parser()", {"matplotlib", "numpy", "pandas", "pyarrow", "pydantic", "scipy"}),
        ("parser('run')", {*homes.values()} - {homes["run"]}),
    ):
        script = f"import sys; from harness.cli import parser; {asked}; print(*sys.modules)"
        words = [sys.executable, "-c", script]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert not heavy & {*done.stdout.split()}


@pytest.fixture(scope="module")
def world(measured: Toy, tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Make a project with all that a command of the tables reads."""
    project = measured.copied(tmp_path_factory.mktemp("fuzzed") / "project")
    root, policy = project.root, ROOT / "policy"
    for name in ("watch.toml", "shadow.toml", "regress.toml"):
        shutil.copy(policy / name, root / "policy" / name)
    for name in ("mail.toml", "shadow.toml", "watch.toml"):
        shutil.copy(policy / name, root / name)
    shutil.copy(ROOT / "examples" / "shadow" / "http.toml", root / "reading.toml")
    shutil.copy(root / "qrels" / "toy" / "test.qrels", root / "toy.qrels")
    for name, text in {
        "policy/accepted.toml": "",
        "topics.tsv": "q00\tbalo\n",
        "case.csv": "query,docid,rating\nbalo,d00,1\n",
        "toy.mbox": "From a\nMessage-ID: <d00>\nSubject: words\n\nwords\n",
        "fifth.json": "[1, 2",
        "space.toml": SPACE,
        "kept/balo.md": "# balo\n",
    }.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    owned.write_clicks(root / "clicks", Beir(root / "beir", "test").queries()[0].text)
    live_log.write(project, root / "log")
    write_pool(root)
    make_panel(root)
    made = Shell(root)
    made.harness("gate", "--exit-zero")
    made.harness("report")
    made.harness("run", *DATA, "--arms", "fts5,tantivy", "--control", "fts5", "--out", "ran")
    made.harness("history", "add")
    made.harness(
        "queries", "from-log", "beir/queries.jsonl", "--size", "20", "--out", "sample.jsonl"
    )
    made.harness("migrate", "begin", "--serving", "fts5", "--at", "moved", "--policy", "mail.toml")
    return project


@pytest.fixture(scope="module")
def shell(world: Toy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """Type in a copy of it; servers serve nothing, nothing waits, and secrets are planted."""
    made = Shell(world.copied(tmp_path_factory.mktemp("shell") / "project").root)
    (made.folder / "loop").symlink_to("loop")
    with (
        mock.patch("harness.core.server.server"),
        mock.patch("harness.shadow.receiver.server"),
        mock.patch("harness.shadow.mcp.server", mock.AsyncMock()),
        mock.patch("harness.replay.machine.started", lambda work: nullcontext(partial(here, work))),
        mock.patch("harness.load.stage.LOOK_S", 0.01),
        mock.patch("harness_engines.stacks.http.connection.sleep"),
        mock.patch.dict(os.environ, {name: f"{PLANTED}-{name}" for name in SECRETS}),
    ):
        yield made
        assert holding(made.folder) == []


def call(shell: Shell, *words: str) -> Said:
    return shell.type(f"{COMMAND} {shlex.join(['harness', *words])}")


def spoilt(command: Any, words: list[str], at: int, value: str) -> list[str]:  # noqa: ANN401  click's
    """Return one parameter a value: in its place, or at the end."""
    name = command.params[at].opts[0]
    if name.startswith("-"):
        return given(words, name, value)
    place = sum(not one.opts[0].startswith("-") for one in command.params[:at])
    return [*words[:place], value, *words[place + 1 :]]


@pytest.mark.sampled(EACH_RUN)
@pytest.mark.parametrize(
    ("name", "at", "value"),
    [pytest.param(*one, id=f"{one[0]}-{one[1]}-{at}") for at, one in enumerate(cases())],
)
def test_a_hostile_value_is_no_verdict_and_no_crash(
    shell: Shell, name: str, at: int, value: str
) -> None:
    command = dict(leaves(command_tree()))[name]
    words = spoilt(command, filled(WORKS[name]), at, value)
    ends_well(shell, name, words, verdict=name in VERDICTS)


@pytest.mark.sampled(sys.maxsize if EVERY else FLAGS_EACH_RUN)
@pytest.mark.parametrize(("name", "flag"), flags())
def test_a_flag_by_itself_is_no_crash(shell: Shell, tmp_path: Path, name: str, flag: str) -> None:
    """In a copy: a flag may change the data, and what was measured of them before is then stale."""
    copied = Shell(shutil.copytree(shell.folder, tmp_path / "project", symlinks=True))
    verdict = name in VERDICTS or flag == "--exit-code"
    ends_well(copied, name, [*filled(WORKS[name]), flag], verdict=verdict)


@pytest.mark.parametrize(
    ("name", "at"),
    [
        (name, at)
        for name, command in leaves(command_tree())
        for at, param in enumerate(command.params)
        if param.name in {"measure", "measures"}
    ],
)
def test_a_measure_in_other_letters_is_suggested(shell: Shell, name: str, at: int) -> None:
    """``ndcg@10`` was said to be no measure, without the one that was meant."""
    command = dict(leaves(command_tree()))[name]
    words = spoilt(command, filled(WORKS[name]), at, "ndcg@10")
    said = ends_well(shell, name, words, verdict=False)
    assert said.code == 2
    assert said.text.strip().endswith("Did you mean nDCG@10?")


@pytest.fixture(scope="module")
def fresh(shell: Shell, world: Toy, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """Type in another copy, in which nothing was tried."""
    assert shell.folder.is_dir()
    return Shell(world.copied(tmp_path_factory.mktemp("fresh") / "project").root)


ENDS = sorted({*WORKS, "doctor", "report"} - SERVES - {name for name in WORKS if " serve" in name})


@pytest.mark.parametrize("name", ENDS)
def test_the_json_of_a_command_can_be_read(fresh: Shell, name: str) -> None:
    """Of a command that ends by itself: one value, and no other line with --quiet."""
    words = [*filled(WORKS.get(name, ())), "--json", "--quiet"]
    said = ends_well(fresh, name, words, verdict=name in VERDICTS)
    if said.code == 2 and "error: " in said.text:
        *values, told = said.text.splitlines()
        assert [json.loads(one)["error"]["message"] in told for one in values] == [True], said
    else:
        json.loads(said.text)


def ends_well(shell: Shell, name: str, words: list[str], *, verdict: bool) -> Said:
    """Call a command, and see that it ends by its verdict, by 2 with a message, or well."""
    said = call(shell, *name.split(), *words)
    assert "Traceback" not in said.text, (words, said)
    assert PLANTED not in said.text, (words, said)
    assert said.code in {0, 2, 3} | ({1} if verdict else set()), (words, said)
    if said.code == 2:
        last = said.text.strip().splitlines()[-1]
        assert last.startswith(("error: ", "╰")) or "problem" in said.text, (words, said)
        assert len(last) < 2_000, (words, said)
    return said


def test_every_path_of_every_command_is_known_to_be_read_or_written() -> None:
    written = {(name, option) for name, _, option in (one.rpartition(" ") for one in owned.OWNED)}
    written |= {(name, "--from") for name in owned.ADDS} | owned.IN_PLACE
    written |= {(name, "--out") for name in owned.NEW}
    read = {(name, "--from") for name in owned.READ_LEFT}
    read |= {(name, "--at") for name in owned.READ_AT}
    found = owned.paths()
    assert written | read <= found
    assert {option for _, option in found - written - read} <= owned.READ
    assert not written & read


@pytest.fixture
def project(world: Toy, tmp_path: Path) -> Toy:
    """Copy it, for a test to do with as it likes."""
    return world.copied(tmp_path / "project")


@pytest.fixture
def foreign(project: Toy) -> Path:
    """Make a folder of somebody's own, with the names that commands like to write."""
    folder = project.root / "site"
    (folder / "work").mkdir(parents=True)
    for name in ("index.html", "queries.jsonl", "decision.json", "switch.env", "toy.jsonl"):
        (folder / name).write_text("my own")
    return folder


@pytest.mark.parametrize("place", owned.OWNED)
def test_a_folder_is_ours_or_nothing_is_written(
    project: Toy, harness: Harness, foreign: Path, place: str
) -> None:
    root, owner = project.root, owned.OWNED[place]
    name, _, option = place.rpartition(" ")
    words = [*name.split(), *filled(WORKS[name])]
    if option == "--log":
        words = given(words, "--out", "ran")
    before = seen(root)

    def call(to: str) -> str:
        return harness(*given(words, option, to)).error

    said = call("site")
    assert f"site: holds what {owner} did not write, for example " in said
    assert f"touch site/{mark(Path(), owner).name}" in said
    (root / "alias").symlink_to("site")
    assert "did not write" in call("alias")
    (root / "alias").unlink()
    assert "is a file" in call("params.yaml")
    for to in ("datasets/toy", "datasets/toy/new", "policy/new", "."):
        assert "which is read" in call(to), to
    assert seen(root) == before
    assert seen(foreign)["index.html"] == b"my own"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", owned.ADDS)
def test_nothing_is_added_to_a_run_that_bears_no_mark(
    project: Toy, harness: Harness, name: str
) -> None:
    mark(project.root / "ran", RUN).unlink()
    before = seen(project.root)
    words = given(filled(WORKS[name]), "--from", "ran")
    said = harness(*name.split(), *words).error
    assert "ran: bears no mark of harness run" in said
    assert "touch ran/harness-run.txt" in said
    assert seen(project.root) == before


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", owned.NEW)
def test_a_file_of_somebodys_own_is_never_replaced(
    project: Toy, harness: Harness, foreign: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def words(to: str) -> list[str]:
        return [*name.split(), *given(filled(WORKS[name]), "--out", to)]

    before = seen(project.root)
    assert "already exists" in harness(*words("site/index.html")).error
    assert "is a folder" in harness(*words("site")).error
    assert "which is read" in harness(*words("datasets/toy/x")).error
    if name == "pool":
        assert "queries.jsonl: already exists" in harness(*words("site/queries")).error
    assert seen(project.root) == before
    file = "site/mine" + {"tune": ".toml", "table": ".md"}.get(name, "")
    with grading(project.root, monkeypatch):
        said, again = harness(*words(file)), harness(*words(file))
    if name == "pool":
        assert "no judgement is missing" in said.error
        return
    assert said.code == 0, said
    assert (foreign.parent / file).is_file()
    assert again.code == (0 if name in owned.AGAIN else 2)


def test_the_pages_of_a_project_never_replace_anothers(project: Toy, harness: Harness) -> None:
    shutil.rmtree(project.root / "reports")
    (project.root / "reports").mkdir()
    (project.root / "reports" / "index.html").write_text("my own")
    for words in (("report",), ("history", "page")):
        said = harness(*words).error
        assert f"reports: holds what {REPORT} did not write" in said
    assert seen(project.root / "reports") == {"index.html": b"my own"}


def test_a_data_set_is_never_the_place_of_its_own_run(project: Toy, harness: Harness) -> None:
    """Sixty queries of a user's became forty where ``--out`` was the data set."""
    folder = project.root / "beir"
    before = seen(folder)
    words = ("run", "--arms", "fts5", "--dataset")
    (project.root / "link").symlink_to("beir")
    for dataset, to in (
        ("beir", "beir"), ("beir", "beir/out"), ("beir", "."), ("beir", "link/out"),
        ("link", "beir/out"),
    ):  # fmt: skip
        assert "which is read" in harness(*words, dataset, "--out", to).error, (dataset, to)
    assert seen(folder) == before
    (project.root / "out" / "runs").mkdir(parents=True)
    mark(project.root / "out", RUN).touch()
    run = project.root / "out" / "runs" / "fts5.trec"
    run.write_text("q00 Q0 d00 1 1.5 x\n")
    assert "which is read" in harness(
        *words, "toy", "--trec-run", "x=out/runs/fts5.trec", "--out", "out"
    ).error  # fmt: skip
    assert run.read_text() == "q00 Q0 d00 1 1.5 x\n"
