"""A command that a message names as the cure can be typed as it stands there."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator

import pytest

from tests.docs.pages import ROOT
from tests.docs.test_commands import parse

CURE = re.compile(r": harness ([^.:,;()`\n]+)")
ANYTHING = "1"
"""Stands where a message puts in a name or a number."""
READERS = {"arm", "control", "key", "log", "logs", "policy", "reason", "serving", "to"}
"""What a command cannot do without, and only the reader can say."""


def cures() -> Iterator[tuple[str, str]]:
    """Walk over the texts of the code that name a command after a colon, with their file."""
    for path in sorted((ROOT / "harness").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for text in _texts(tree):
            for words in CURE.findall(text):
                if words.startswith(ANYTHING) or "{" in words:  # put together elsewhere
                    continue
                yield str(path.relative_to(ROOT)), words


def _texts(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.JoinedStr):
            parts = (
                one.value if isinstance(one, ast.Constant) else ANYTHING for one in child.values
            )
            yield "".join(map(str, parts))
        elif isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.value
        elif not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):
            yield from _texts(child)


def fault(words: str) -> str:
    """Say why a cure cannot be typed; empty where it can."""
    try:
        parse(shlex.split(words))
    except Exception as exc:  # noqa: BLE001  typer brings its own click, whose errors it hides
        name = getattr(getattr(exc, "param", None), "name", "")
        return "" if type(exc).__name__ == "MissingParameter" and name in READERS else repr(exc)
    return ""


FOUND = sorted(set(cures()))


@pytest.mark.parametrize(("path", "words"), FOUND)
def test_a_cure_can_be_typed(path: str, words: str) -> None:
    assert not fault(words), path


def test_there_are_cures_of_many_files() -> None:
    assert len({path for path, _ in FOUND}) > 20


@pytest.mark.parametrize("words", ["race --data toy", "racing", "label"])
def test_a_cure_that_cannot_be_typed_is_noticed(words: str) -> None:
    assert fault(words)
