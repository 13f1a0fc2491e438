"""Every command that a message names is there, with the options it is named with."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

import pytest

from harness.cli import parser
from tests.source import Module, known

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


@pytest.mark.slow
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


@pytest.mark.parametrize("typed", ["decide", "gate --loud", "judge POOL --datasets X"])
def test_what_is_not_there_is_found(typed: str) -> None:
    assert missing(typed)
