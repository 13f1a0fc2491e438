"""Every command that a page names can be typed, and every link leads somewhere."""

from __future__ import annotations

import ast
import re
import shlex
import sys
from functools import cache
from itertools import dropwhile, pairwise
from pathlib import Path
from typing import Any

import pytest
import typer

from harness.cli import application
from harness.cli.command import NO_CODE, QUIET
from harness.cli.exit_codes import DEBUG
from tests.docs.pages import ASSIGNED, COMMAND, FENCE, ROOT, Page, pages

LINES = [(page.name, line) for page in pages() for line in page.commands()]
LINKS = [(page, target) for page in pages() for target in page.links()]


@cache
def cli() -> Any:  # noqa: ANN401  click's command, which typer brings along
    return typer.main.get_command(application())


def short() -> dict[str, list[str]]:
    """Read the words that run.py knows by itself."""
    for node in ast.parse((ROOT / "run.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SHORT":
            words: dict[str, list[str]] = ast.literal_eval(node.value)
            return words
    raise AssertionError("run.py has no SHORT")


def parse(words: list[str]) -> None:
    """Parse the words of one command of ``harness``, and run nothing."""
    group, names = cli(), []
    words = [word for word in words if word not in {DEBUG, NO_CODE, *QUIET}]
    while hasattr(group, "commands"):
        if not words or words[0].startswith("-"):
            assert set(words) <= {"--help", "--version"}
            return
        names.append(words[0])
        assert words[0] in group.commands, f"no command {' '.join(names)}"
        group, words = group.commands[words[0]], words[1:]
    if words != ["--help"]:
        group.make_context(" ".join(names), list(words))


def check(line: str) -> None:
    words = shlex.split(line, comments=True)
    words = list(dropwhile(ASSIGNED.match, words))
    if words[0].endswith(".sh") or not (words := words[len(COMMAND.split()) :]):
        return
    first, *rest = words
    first, *rest = [*short().get(first, [first]), *rest]
    if first == "harness":
        parse(rest)
        return
    assert (Path(sys.executable).parent / first).exists(), f"{first} is not in the environment"
    for before, word in pairwise([first, *rest]):
        a_path = first == "pytest" and before not in {"-m", "-k"} and not word.startswith("-")
        if word.endswith(".py") or a_path:
            assert (ROOT / word).exists(), f"there is no {word}"


@pytest.mark.parametrize(("page", "line"), LINES)
def test_a_command_can_be_typed(page: str, line: str) -> None:
    assert page
    check(line)


@pytest.mark.parametrize(
    "line",
    [
        "python3 run.py harness judge --dataset python-docs",
        "python3 run.py harness stage index --dataset python-docs --arm fts5 --fast",
        "python3 run.py harness tune",
        "python3 run.py harness import xml FILE",
        "python3 run.py python benchmarks/absent.py",
        "python3 run.py no-such-program",
    ],
)
def test_a_command_that_cannot_be_typed_is_noticed(line: str) -> None:
    with pytest.raises(Exception, match=r"(?i)no |missing|not in|option"):
        check(line)


def test_pages_name_commands_and_links_at_all() -> None:
    assert len(LINES) > 20
    assert len(LINKS) > 20
    assert {"python3 run.py demo", "python3 run.py test"} <= {line for _, line in LINES}


@pytest.mark.parametrize(("page", "target"), LINKS, ids=lambda value: getattr(value, "name", value))
def test_a_link_leads_somewhere(page: Page, target: str) -> None:
    name, _, anchor = target.partition("#")
    path = (page.path.parent / name).resolve() if name else page.path
    assert path.exists(), f"{page.name} links to {target}"
    assert path.is_relative_to(ROOT)
    if anchor:
        assert anchor in Page(path).anchors()


def test_every_command_of_the_program_is_on_a_page() -> None:
    everything = "\n".join(page.text for page in pages())
    for name in cli().commands:
        assert re.search(rf"\bharness {name}\b", everything), f"no page names harness {name}"


def test_readme_commands_go_through_run_py() -> None:
    """A stranger has no ``harness`` on the path before run.py has made it."""
    for line in FENCE.sub("", (ROOT / "README.md").read_text(encoding="utf-8")).splitlines():
        if line.startswith("    ") and line.strip():
            assert line.startswith((f"    {COMMAND}", "    git ", "    pip install ")), line
