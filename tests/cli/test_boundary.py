"""The boundary of the command line: errors, exit codes, verdicts, and the project of a command."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NoReturn
from unittest import mock

import pytest
import typer

from harness.cli import application, exit_codes
from harness.cli.command import Plain
from harness.cli.exit_codes import CALLED, FAILED, PIPED, as_called, ended, failed
from harness.cli.project import PACKAGED, Project
from harness.core.errors import BadFile, HarnessError
from harness.core.files import NO_ROOM
from harness.pipeline.layout import left_by_run
from harness.pipeline.receipts import read_manifest
from tests.cli import broken_engine
from tests.cli.broken_engine import ENDLESS, FAILURES, MOMENTS, stamped
from tests.cli.conftest import Harness
from tests.cli.owned import DATA, WORKS, command_tree, filled, leaves
from tests.docs.pages import ROOT, Shell
from tests.make import shadow_log as live_log
from tests.make.toy import SPACE, Toy
from tests.programs import PYTHON, Program
from tests.source import ROOT as ROOT_OF_PROJECT

pytestmark = pytest.mark.slow
ASK = ("ask", "--dataset", "toy", "balo", "--json", "--arm")
NOISY = """
import os, subprocess, sys
print("loading a model")
sys.stdout.write("written\\n")
os.write(1, b"by a library\\n")
subprocess.run(["echo", "by a program"])
"""
SLOW = """
import sys, time
print("ready", file=sys.stderr, flush=True)
time.sleep(60)
"""


@pytest.mark.sampled
@pytest.mark.parametrize("how", FAILURES)
@pytest.mark.parametrize("moment", MOMENTS[:4])
def test_an_engine_that_fails_in_a_run_is_named(
    project: Toy, harness: Harness, moment: str, how: str
) -> None:
    arm = broken_engine.write(project.root / "broken", moment, FAILURES[how])
    words = ("run", "--dataset", "toy", "--arms", f"fts5,{arm}", "--control", "fts5")
    said = harness(*words, "--out", "out", "--exit-code").error
    if (moment, how) == ("build", "OSError"):
        assert "index/own: it cannot be used (No space left on device)" in said
        assert NO_ROOM in said
    else:
        assert said.startswith("own: ")
        assert "own.py" in said or "its index" in said or "its engine" in said
    assert "\x1b" not in said
    assert not (project.root / "out" / "decision.json").exists()


def test_an_engine_that_is_no_python_is_named_with_its_line(project: Toy, harness: Harness) -> None:
    arm = broken_engine.spoken(project.root / "broken", SYNTAX)
    said = harness("stage", "index", "--dataset", "toy", "--arm", arm).error
    assert "own: " in said
    assert "own.py cannot be imported: SyntaxError: " in said
    assert "line 1" in said


def test_hits_that_never_end_are_a_failure_and_no_wait(project: Toy, harness: Harness) -> None:
    arm = broken(project, ENDLESS, "pass")
    assert "hits are a repeat instead of a tuple" in harness(*ASK, arm).error
    said = harness("stage", "replay", "--dataset", "toy", "--arm", arm).error
    assert "own: not one of 41 queries was answered" in said
    assert read_manifest(project.layout, "own").documents == 60


@pytest.mark.parametrize("raised", [
    BrokenPipeError(32, "Broken pipe"), MemoryError(), OSError(), RuntimeError("x" * 10_000),
    HarnessError("\x1b[2Jgone\n"), SystemExit("in words"), typer.Abort(), KeyboardInterrupt(),
    GeneratorExit(), SyntaxError("invalid syntax", ("mine/own.py", 7, 1, "def", 7, 2)),
])  # fmt: skip
def test_whatever_is_raised_is_one_line_and_no_verdict(
    raised: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> NoReturn:
        raise raised

    interrupt = isinstance(raised, KeyboardInterrupt | typer.Abort)
    piped = isinstance(raised, BrokenPipeError)
    assert ended(fails) == (130 if interrupt else PIPED if piped else 2)
    if piped:
        assert capsys.readouterr().err == ""
        return
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("interrupted; " if interrupt else "error: ")
    assert len(line) < 500
    assert "\x1b" not in line
    assert isinstance(raised, SyntaxError) == ("(own.py:7)" in line)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_an_output_of_another_encoding_takes_every_character(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``shadow report`` ended by 2 at a minus sign, where the system has no known language."""
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding=encoding))
    assert ended(lambda: sys.stdout.write("\u2212 5 %")) == 0
    minus = "\u2212" if encoding == "utf-8" else "\\u2212"
    assert raw.getvalue().decode(encoding) == f"{minus} 5 %"


def test_an_output_that_a_shell_closed_is_nothing_and_no_file_of_ours(project: Toy) -> None:
    """``ask`` ended in an unforeseen failure, and an index was opened under the number of it."""
    script = "import os, stat, sys; os.close(1); sys.stdout = None;"
    script += "sys.argv = ['harness', 'ask', 'balo', '--dataset', 'toy', '--arm', 'fts5'];"
    script += "from harness.cli import main\ntry: main()\n"
    script += "finally: sys.stderr.write(str(stat.S_ISCHR(os.fstat(1).st_mode)))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "True")


@pytest.mark.parametrize(
    ("raised", "code", "remedy"),
    [
        (BadFile("a.toml", "is not TOML", "Correct line 3. Or remove it"), "bad_file",
         "Correct line 3. Or remove it"),
        (ValueError("large"), "value_error", "--debug shows the traceback"),
        (KeyboardInterrupt(), "interrupted", ""),
    ],
)  # fmt: skip
def test_an_error_is_json_where_json_is_wanted(
    raised: BaseException, code: str, remedy: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(sys, "argv", ["harness", "gate", "--json"])
    with pytest.MonkeyPatch.context() as deaf:
        deaf.setattr(exit_codes, "deafen", lambda: None)
        exit_codes.failed(raised, debug=False)
    shown = capsys.readouterr()
    said = json.loads(shown.out)["error"]
    assert (said["code"], said["remedy"]) == (code, remedy)
    assert said["message"] in shown.err


@pytest.mark.parametrize(
    ("raised", "code", "says"),
    [
        (MemoryError, 2, "memory ran out. End other programs or raise the limit"),
        (KeyboardInterrupt, 130, "rerun to resume"),
    ],
)
def test_what_a_system_or_a_person_ends_has_a_remedy(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, raised: type[BaseException],
    code: int, says: str,
) -> None:  # fmt: skip
    monkeypatch.setattr("harness.pipeline.score.score", mock.Mock(side_effect=raised))
    said = harness("stage", "score", "--dataset", "toy")
    assert (said.code, says in said.err) == (code, True)


def test_an_error_of_our_own_is_two_and_its_traceback_is_shown_where_it_is_asked_for(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("harness.pipeline.score.score", broken)
    said = harness("stage", "score", "--dataset", "toy").error
    assert said.startswith("ZeroDivisionError: by nothing (test_boundary.py:")
    assert said.endswith("--debug shows the traceback")
    for words in (("--debug", "stage", "score"), ("stage", "score", "--debug")):
        shown = harness(*words, "--dataset", "toy")
        assert shown.code == 2
        assert "Traceback (most recent call last)" in shown.err
        assert shown.err.splitlines()[-1].startswith("error: ZeroDivisionError")


def typed(project: Toy, *words: str | Path, stdout: int | None = subprocess.PIPE) -> Program:
    return Program([*PYTHON, *words], cwd=project.root, stdout=stdout, stderr=subprocess.PIPE)


@pytest.mark.parametrize("words", [("--help",), (*ASK, "fts5")])
def test_a_reader_that_leaves_ends_it_in_silence(project: Toy, words: tuple[str, ...]) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with typed(project, *words, stdout=writes) as running:
        os.close(writes)
        _, said = running.communicate()
    assert (running.returncode, said) == (PIPED, "")


def test_what_an_engine_prints_does_not_spoil_an_answer(project: Toy) -> None:
    arm = broken(project, "search", "print('searching')")
    text = arm.with_suffix(".py").read_text().replace("\nMOMENT", f"{NOISY}\nMOMENT")
    stamped(project.layout.index("own"), broken_engine.spoken(arm.parent, text))
    with typed(project, *ASK, arm) as running:
        out, said = running.communicate()
    assert running.returncode == 0, said
    assert [one["status"] for one in json.loads(out)] == ["answered"]
    for line in ("loading a model", "written", "by a library", "by a program", "searching"):
        assert line in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_ends_a_program_ends_as_a_ctrl_c_does(project: Toy, number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_DFL)  # a suite under nohup would hand on its deafness
    arm = broken_engine.spoken(project.root / "broken", SLOW)
    with typed(project, "stage", "index", "--dataset", "toy", "--arm", arm) as running:
        assert running.stderr is not None
        assert running.stderr.readline() == "ready\n"
        running.send_signal(number)
        assert running.stderr.read() == "interrupted; rerun to resume\n"
    assert running.returncode == 130
    assert not list(project.root.rglob(".*.partial"))


def test_a_closed_output_is_a_failure_and_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "out").open("w", encoding="utf-8") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
    assert ended(lambda: None) == FAILED


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Make the code lie in a folder that is no clone, and stand in an empty one."""
    code = tmp_path / "site" / "harness"
    monkeypatch.setattr("harness.cli.project.__file__", str(code / "cli" / "project.py"))
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return code


def test_a_folder_above_is_the_project(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    above = installed.parent.parent
    (above / "params.yaml").write_text("")
    assert Project.here() == Project.own() == Project(above)
    (Path.cwd() / "params.yaml").write_text("")
    assert Project.here().root == Path.cwd()
    real = ROOT_OF_PROJECT / "harness" / "cli" / "project.py"
    monkeypatch.setattr("harness.cli.project.__file__", str(real))
    assert Project.own().place == Path.cwd()


def test_outside_of_one_the_package_is_read_and_the_folder_written_to(installed: Path) -> None:
    found = Project.here()
    assert found == Project(installed / PACKAGED, packaged=True)
    assert found.place == Path.cwd()
    assert found.cache == Path.cwd() / ".cache"
    assert found.kept_log("x").is_relative_to(Path.cwd())
    with pytest.raises(HarnessError, match=r"no project: .* Make one with: harness init FOLDER"):
        Project.own()


BY = "python3 ../run.py"


@pytest.fixture(autouse=True)
def _put_together() -> None:
    """Before that no word is known to be a command."""
    application()


@pytest.mark.parametrize(
    ("written", "installed", "cloned"),
    [
        ("Run: harness demo", "Run: harness demo", f"Run: {BY} harness demo"),
        ("Run: pip install x", "Run: pip install x", f"Run: {BY} pip install x"),
        ("python3 run.py demo", "harness demo", f"{BY} harness demo"),
        ("python3 run.py harness gate", "harness gate", f"{BY} harness gate"),
        ("see `harness run`", "see `harness run`", f"see `{BY} harness run`"),
        ("the --out of a harness run", *["the --out of a harness run"] * 2),
        ("HARNESS=x/harness run", *["HARNESS=x/harness run"] * 2),
    ],
)
def test_a_command_is_named_as_it_was_called(
    monkeypatch: pytest.MonkeyPatch, written: str, installed: str, cloned: str
) -> None:
    assert as_called(written) == installed
    monkeypatch.setenv(CALLED, BY)
    assert as_called(written) == cloned
    assert as_called(cloned) == cloned


def test_messages_and_errors_pass_through_and_data_does_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(CALLED, BY)
    out = Plain(highlight=False, soft_wrap=True)
    out.print("Next: harness gate")
    out.data('{"command": "harness gate"}')
    assert failed(HarnessError("x: no runs. Run: harness stage replay"), debug=False) == 2
    shown = capsys.readouterr()
    assert shown.out == f'Next: {BY} harness gate\n{{"command": "harness gate"}}\n'
    assert shown.err == f"error: x: no runs. Run: {BY} harness stage replay\n"


LEFT = {
    "ask of a run": ("balo", "--from", "ran", "--arm", "{arm}"),
    "decompose of a run": ("--from", "ran", "--control", "fts5", "--candidate", "{arm}"),
    "verify of a run": ("--from", "ran", "--requery", "3", "--arm", "{arm}"),
}
COMMANDS = {
    **{name: words for name, words in WORKS.items() if any("{arm}" in word for word in words)},
    **LEFT,
    "run": (*WORKS["run"], "--exit-code"),
    "verify": (*DATA, "--requery", "3", "--arm", "{arm}"),
}
"""Commands that may run an engine of somebody's own, with their words."""
OPENS_NONE = {
    "compare", "export", "gate", "init", "mail drop-fts5", "mail index", "migrate begin",
    "migrate drill", "migrate interleave", "plan", "pool", "regress", "selftest", "shadow mcp",
    "shadow receive", "shadow traffic",
    *(f"{kept} {does}" for kept in ("code", "docs", "notes") for does in ("ask", "index", "serve")),
}  # fmt: skip
"""Commands that name engines and open none, or only such as come with the program."""
NAMES = {"arm", "arms", "control", "candidate", "serving"}
"""How a command calls an engine among its parameters."""
PRINTED = "printed by an engine"
RAISED = {**FAILURES, "prints": f"print({PRINTED!r})"}
SYNTAX = "def engine(settings, cache:\n    pass\n"
CASES = [
    *product(COMMANDS, MOMENTS, RAISED),
    *product(COMMANDS, [ENDLESS], ["pass"]),
    *product(COMMANDS, ["import"], ["SyntaxError"]),
]


def typed_for(command: str, arm: Path) -> list[str]:
    """Return a command of the table with an arm."""
    return [*command.removesuffix(" of a run").split(), *filled(COMMANDS[command], str(arm))]


@pytest.fixture(scope="module")
def whole(measured: Toy, tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Make a project whose engine was indexed, replayed and run while it was whole."""
    made = measured.copied(tmp_path_factory.mktemp("whole") / "project")
    shutil.copy(ROOT_OF_PROJECT / "policy" / "shadow.toml", made.root)
    (made.root / "space.toml").write_text(f"{SPACE.partition('title')[0]}any = [1, 2]\n")
    (made.root / "policy" / "accepted.toml").write_text("")
    arm, shell = str(broken_engine.write(made.root / "broken")), Shell(made.root)
    live_log.write(made, made.root / "log")
    shell.harness("stage", "index", *DATA, "--arm", arm)
    shell.harness("stage", "replay", *DATA, "--arm", arm)
    shell.harness("run", *DATA, "--arms", f"fts5,{arm}", "--control", "fts5", "--out", "ran")
    shell.harness("gate", "--exit-zero")
    return made


@pytest.fixture
def project(whole: Toy, tmp_path: Path) -> Toy:
    """Copy it, for a test to do with as it likes."""
    return whole.copied(tmp_path / "project")


def broken(project: Toy, moment: str, how: str) -> Path:
    """Break the engine, and say of its indexes that they were built with it as it is then."""
    if how == "SyntaxError":
        arm = broken_engine.spoken(project.root / "broken", SYNTAX)
    else:
        arm = broken_engine.write(project.root / "broken", moment, RAISED.get(how, how))
    for layout in (project.layout, left_by_run(project.root / "ran")):
        stamped(layout.index("own"), arm)
    return arm


@pytest.fixture(autouse=True)
def unserved() -> Iterator[None]:
    """End at once what would serve."""
    with mock.patch("harness.core.server.server"):
        yield


def test_every_command_that_names_an_engine_is_known() -> None:
    found = {
        name
        for name, command in leaves(command_tree())
        for param in command.params
        if param.name in NAMES
    }
    assert found == {name.removesuffix(" of a run") for name in COMMANDS} | OPENS_NONE


@pytest.mark.sampled
@pytest.mark.parametrize(("command", "moment", "how"), CASES)
def test_no_failure_of_an_engine_is_a_verdict(
    project: Toy, harness: Harness, command: str, moment: str, how: str
) -> None:
    arm = broken(project, moment, how)
    said = harness(*typed_for(command, arm))
    decided = [*project.root.glob("new*/decision.json")]
    assert said.code in ({0, 1, 3} if decided else {0, 2, 3}), said
    assert "Traceback" not in said.err
    assert "shows the traceback" not in said.err, said
    assert PRINTED not in said.out
    assert "\x1b" not in said.err + said.out
    if said.code == 2:
        last = (said.err or said.out).splitlines()[-1]
        assert last.startswith("error: ") or "BREAKS THE CONTRACT" in said.out, said
    assert list(project.root.rglob(".*.partial")) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_runs_code_of_an_arm_where_that_is_refused(
    project: Toy, harness: Harness, command: str
) -> None:
    loads = "from pathlib import Path\nPath(__file__).with_name('loaded').touch()\n"
    arm = broken_engine.spoken(project.root / "broken", loads)
    said = harness("--no-code", *typed_for(command, arm)).error
    assert "the arm own brings code" in said
    assert not (arm.parent / "loaded").exists()
