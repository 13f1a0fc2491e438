"""Every command of ``harness.cli`` says what it does, what it takes, and how it exits."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from functools import cache
from typing import Any
from unittest.mock import patch

import pytest
import typer
from typer.testing import CliRunner

import harness.cli
from harness.cli import application, parser
from harness.cli.command import PANELS, RENAMED
from tests.cli.conftest import Harness

pytestmark = pytest.mark.slow
STAGES = ("prepare", "index", "replay", "score", "compare")
COMMANDS = (
    *(f"stage {name}" for name in STAGES),
    "race", "gate", "report", "demo", "run", "decompose", "verify", "sign", "selftest", "export",
    "load", "measure", "table", "shadow traffic", "tune", "pool", "judge", "serve", "ask", "doctor",
    "init", "ci", "mail-server", "mail index", "compare",
    "mail drop-fts5", "migrate begin", "migrate observe", "migrate status",
    "migrate advance", "migrate rollback", "migrate drill", "migrate mend", "regress",
    "reproduce", "history add", "history page", "import beir", "import trec", "import jsonl",
    "import ratings", "import ir-datasets", "convert", "plan", "policy pin", "arm check",
    "shadow run", "shadow receive", "shadow mcp", "shadow watch", "notes index", "notes ask",
    "notes serve", "code index", "code ask", "code serve", "docs index", "docs ask",
    "docs serve", "shadow replay", "shadow report", "shadow accept", "queries from-log",
    "queries drift", "queries pool", "clicks report", "migrate interleave", "labels",
    "import mbox", "panel settle", "panel report",
)  # fmt: skip


def shown(*words: str) -> str:
    with patch("typer.testing._get_command", lambda _: tree()):
        runner = CliRunner(env={"COLUMNS": "100", "TERM": "dumb"})
        result = runner.invoke(application(), list(words))
    assert result.exit_code == 0, result.output
    return result.output


@cache
def tree() -> Any:  # noqa: ANN401  Typer keeps its own copy of click
    return typer.main.get_command(application())


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_explains_itself(command: str) -> None:
    help_text = shown(*command.split(), "--help")
    assert f"harness {command}" in help_text or f"root {command}" in help_text
    sentence = help_text.split("\n\n")[0:2]
    assert any(len(part.split()) > 4 for part in sentence)
    assert "--help" in help_text


def test_no_other_command_is_there() -> None:
    names = set(tree().commands)
    assert names == {command.split()[0] for command in COMMANDS}


@pytest.mark.parametrize("command", [*COMMANDS, "import", "migrate", "history"])
def test_every_option_says_what_it_is_for(command: str) -> None:
    found = tree()
    for word in command.split():
        found = found.commands[word]
    assert found.help or command in {"import", "migrate", "history"}
    for parameter in found.params:
        if parameter.name not in {"help", "install_completion", "show_completion"}:
            assert getattr(parameter, "help", ""), parameter.name


@pytest.mark.parametrize("old", RENAMED)
def test_an_old_name_is_answered_with_the_new_one(old: str, harness: Harness) -> None:
    said = harness(old, "--dataset", "toy").error
    assert said == f"{old} has another name. Run: harness {RENAMED[old]}"


@pytest.mark.parametrize(
    ("words", "now"),
    [(("verify", "--out", "x"), "--from"), (("shadow", "replay", "x", "--run", "y"), "--from"),
     (("history", "page", "--to", "x"), "--out")],
)  # fmt: skip
def test_an_old_option_is_answered_with_the_new_one(
    words: tuple[str, ...], now: str, harness: Harness
) -> None:
    said = harness(*words)
    assert said.code == 2
    assert f"It is {now} now" in " ".join(said.err.split())


def test_the_version_and_a_short_help(harness: Harness) -> None:
    assert harness("--version").out.startswith("harness 0.")
    assert harness("-h").out == harness("--help").out
    assert harness("shadow", "run", "-h").code == 0


def test_every_command_stands_in_a_group_of_the_help() -> None:
    panels = [one.rich_help_panel for one in parser().commands.values()]
    assert list(dict.fromkeys(panels)) == list(PANELS)
    assert {name for names in PANELS.values() for name in names} == set(tree().commands)


def test_the_exit_codes_are_written_down() -> None:
    said = " ".join(shown("--help").split())
    assert "Exit codes: 0 done" in said
    assert "3 inconclusive" in said
    assert "prepare > index > replay > score > compare > race > gate > report" in said
    assert "Exit codes: 0 every step" in " ".join(shown("gate", "--help").split())


def test_the_example_of_run_is_one_that_can_be_typed() -> None:
    said = " ".join(shown("run", "--help").split())
    assert "Example: harness run --dataset python-docs --arms fts5,tantivy" in said


def test_registering_happens_once() -> None:
    assert application() is application()
    assert len(application().registered_commands) == sum(" " not in command for command in COMMANDS)
    assert len(tree().commands) == len({command.split()[0] for command in COMMANDS})


def test_importing_a_command_does_nothing_heavy() -> None:
    for found in pkgutil.walk_packages(harness.cli.__path__, "harness.cli."):
        module = importlib.import_module(found.name)
        assert not {"numpy", "scipy", "pyarrow", "tantivy"} & set(vars(module))


def test_help_imports_nothing_heavy() -> None:
    asked = "import sys; from harness.cli import parser; parser(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    heavy = {"matplotlib", "numpy", "pandas", "pyarrow", "pydantic", "scipy", "ir_measures"}
    assert heavy & set(done.stdout.split()) == set()


def test_a_decision_draws_nothing() -> None:
    asked = "import sys; import harness.pipeline.gate; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert "matplotlib" not in done.stdout.split()


def homes() -> dict[str, str]:
    return {name: f"harness.{home}" for names in PANELS.values() for name, home in names.items()}


def test_a_command_imports_no_module_of_another() -> None:
    asked = "import sys; from harness.cli import parser; parser('run'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert {*homes().values()} & {*done.stdout.split()} == {homes()["run"]}


def test_each_command_is_of_the_module_that_the_panels_name() -> None:
    def home_of(one: Any) -> str:  # noqa: ANN401  Typer keeps its own copy of click
        return (
            home_of(next(iter(one.commands.values())))
            if hasattr(one, "commands")
            else str(one.callback.__module__)
        )

    assert {name: home_of(one) for name, one in tree().commands.items()} == homes()
