"""A command in a message can be typed where it is read."""

from __future__ import annotations

import ast
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cli import application, exit_codes
from harness.cli.command import Plain
from harness.cli.exit_codes import CALLED, as_called, failed
from harness.core.errors import HarnessError
from tests.docs.test_reference import cli
from tests.source import known, modules

pytestmark = pytest.mark.slow

BY = "python3 ../run.py"
CONSOLES = {"harness.cli.command"}


@pytest.fixture(autouse=True)
def _put_together() -> None:
    """Before that no word is known to be a command."""
    application()


@pytest.fixture
def by_run_py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CALLED, BY)


def texts() -> Iterator[str]:
    """Yield every text in the code that names a command, docstrings of modules aside."""
    for module in known().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_every_command_in_a_message_is_one_that_exists() -> None:
    """Nothing that looks like a command is left as it was written."""
    names = set(cli().commands)
    told = [text for text in texts() if re.search(r"\bharness [a-z]", text)]
    found = {
        word
        for text in told
        for word in re.findall(r"(?:^|[`(:]\s*|[Rr]un:? )harness ([a-z-]+)", text, re.MULTILINE)
    }
    assert found <= names, found - names
    assert len(found) > 15


@pytest.mark.usefixtures("by_run_py")
def test_every_hint_is_rewritten() -> None:
    for name in cli().commands:
        assert as_called(f"Run: harness {name} --out x") == f"Run: {BY} harness {name} --out x"


@pytest.mark.parametrize(
    ("written", "installed", "cloned"),
    [
        ("Run: harness demo", "Run: harness demo", f"Run: {BY} harness demo"),
        (
            'Run: pip install "search-harness[mcp]"',
            'Run: pip install "search-harness[mcp]"',
            f'Run: {BY} pip install "search-harness[mcp]"',
        ),
        ("python3 run.py demo", "harness demo", f"{BY} harness demo"),
        ("python3 run.py harness gate", "harness gate", f"{BY} harness gate"),
        (
            "see `harness run --out x`",
            "see `harness run --out x`",
            f"see `{BY} harness run --out x`",
        ),
        ("what a `harness run` left", *["what a `harness run` left"] * 2),
        ("the --out of a harness run", *["the --out of a harness run"] * 2),
        ("the harness is here", *["the harness is here"] * 2),
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


@pytest.mark.usefixtures("by_run_py")
def test_messages_and_errors_pass_through_and_data_does_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = Plain(highlight=False, soft_wrap=True)
    out.print("Next: harness gate")
    out.data('{"command": "harness gate"}')
    assert failed(HarnessError("x: no runs. Run: harness stage replay"), debug=False) == 2
    shown = capsys.readouterr()
    assert shown.out == f'Next: {BY} harness gate\n{{"command": "harness gate"}}\n'
    assert shown.err == f"error: x: no runs. Run: {BY} harness stage replay\n"


@pytest.mark.parametrize(
    ("typed", "near", "far"),
    [
        (["env/bin/harness"], "env/bin/harness", "{here}/env/bin/harness"),
        (["env/bin/python", "-m", "harness"], "env/bin/python -m harness",
         "{here}/env/bin/python -m harness"),
        (["python3.13", "-m", "harness"], *["python3.13 -m harness"] * 2),
    ],
)  # fmt: skip
def test_an_environment_that_is_not_on_the_path_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, typed: list[str], near: str, far: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.argv", [typed[0]])
    monkeypatch.setattr("sys.orig_argv", typed)
    assert as_called("Run: harness gate") == f"Run: {near} gate"
    assert as_called(as_called("Run: harness gate")) == f"Run: {near} gate"
    assert exit_codes.called_from_anywhere() == far.format(here=tmp_path)
    assert as_called("Run: pip install x==1") == f"Run: {sys.executable} -m pip install x==1"


def test_the_name_alone_is_enough_where_the_path_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    monkeypatch.setattr("sys.argv", ["env/bin/harness"])
    assert exit_codes.called() == "harness"


@pytest.mark.usefixtures("by_run_py")
def test_from_another_folder_the_path_is_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a folder" / "in").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a folder" / "in")
    said = shlex.split(exit_codes.called_from_anywhere())
    assert said == ["python3", str(tmp_path / "a folder" / "run.py"), "harness"]
    monkeypatch.delenv(CALLED)
    assert exit_codes.called_from_anywhere() == exit_codes.called() == "harness"


def test_only_one_place_prints() -> None:
    """Commands print through the two consoles that rewrite, and never through another."""
    for module in modules("harness").values():
        if module.name.startswith("harness.cli"):
            text = module.path.read_text(encoding="utf-8")
            assert "typer.echo" not in text, module.file
            assert "Console(" not in text or module.name in CONSOLES, module.file
    assert application().info.name == "harness"
