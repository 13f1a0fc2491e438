"""A command in a message can be typed where it is read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

import pytest

from harness.cli import application, parser
from harness.cli.command import Plain
from harness.cli.exit_codes import CALLED, as_called, failed
from harness.core.errors import HarnessError
from tests.source import Module, known

pytestmark = pytest.mark.slow
BY = "python3 ../run.py"


@pytest.fixture(autouse=True)
def _put_together() -> None:
    """Before that no word is known to be a command."""
    application()


@pytest.fixture
def by_run_py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CALLED, BY)


@pytest.mark.parametrize(
    ("written", "installed", "cloned"),
    [
        ("Run: harness demo", "Run: harness demo", f"Run: {BY} harness demo"),
        ("Run: pip install x", "Run: pip install x", f"Run: {BY} pip install x"),
        ("python3 run.py demo", "harness demo", f"{BY} harness demo"),
        ("python3 run.py harness gate", "harness gate", f"{BY} harness gate"),
        (
            "see `harness run --out x`",
            "see `harness run --out x`",
            f"see `{BY} harness run --out x`",
        ),
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


NAMED = re.compile(r"\bharness ([a-z][a-z-]+(?: (?!then\b)[^.;,`'\"\n]*)?)")
PROSE = {
    "on", "reads", "that", "and", "as", "in", "from", "where", "writes", "they", "or", "for", "has",
}  # fmt: skip
"""What follows the word where it is the program that is spoken of."""


def messages(module: Module) -> Iterator[str]:
    """Yield the strings of a module; a value in one is a word in capitals."""
    nodes = list(ast.walk(module.tree))
    within = {id(part) for one in nodes if isinstance(one, ast.JoinedStr) for part in one.values}
    for one in nodes:
        if isinstance(one, ast.JoinedStr):
            yield "".join(v.value if isinstance(v, ast.Constant) else "X" for v in one.values)  # type: ignore[misc]
        elif isinstance(one, ast.Constant) and isinstance(one.value, str) and id(one) not in within:
            yield one.value


def missing(typed: str) -> str:
    """Name what of a command line is not there."""
    one: Any = parser()
    words = typed.split()
    while words and words[0] in getattr(one, "commands", {}):
        one, words = one.commands[words[0]], words[1:]
    if one is parser():
        return words[0]
    taken = {name for each in one.params for name in (*each.opts, *each.secondary_opts)}
    asked = (word.rstrip(":)") for word in words if word.startswith("--"))
    return "" if hasattr(one, "commands") else " ".join(word for word in asked if word not in taken)


def test_every_command_of_a_message_is_there() -> None:
    found = {
        (module.name, typed): said
        for module in known().values()
        for text in messages(module)
        for typed in NAMED.findall(text)
        if typed.split()[0] not in PROSE and " wrote" not in typed
        if (said := missing(typed))
    }
    assert found == {}

    assert missing("decide")
    assert missing("gate --loud")
