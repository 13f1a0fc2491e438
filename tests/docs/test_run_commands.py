"""Every command of every page is run, in the order of its page, in a small project.

What cannot be run is in ``tests/docs/tables.py`` with the reason and the test that does the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests import once_a_process
from tests.cli.owned import command_tree, leaves
from tests.docs.pages import COMMAND, ROOT, pages
from tests.docs.shell import Said, Shell
from tests.docs.tables import (
    BEFORE,
    CODES,
    ELSEWHERE,
    FILLED,
    KEYS,
    LONGER,
    MAKES,
    ONLY_HELP,
    SMALLER,
    WRITES,
)
from tests.docs.typed import Filling, NotFilled, after, row, written
from tests.docs.world import World

pytestmark = [
    pytest.mark.usefixtures("read_once", "derived_once"),
    pytest.mark.slow,
]
LINES = [(page.name, line) for page in pages() for line in page.commands()]
TYPED = {
    page.name: [line for line in page.commands() if not row(ELSEWHERE, line)] for page in pages()
}
DONE = frozenset({0})
SCRIPT = re.compile(r"python (?:benchmarks/\w+\.py|-m tests\.\w+)(?= |$)")
"""Repeats the figures of a page, and is no part of what is installed."""


def stands_elsewhere(name: str) -> bool:
    """Tell whether another page has all lines of this one, in a project that is as ready."""
    lines = TYPED[name]
    for other, theirs in TYPED.items():
        more = len(theirs) > len(lines) or (len(theirs) == len(lines) and other < name)
        if more and set(lines) <= set(theirs) and BEFORE.get(name) == BEFORE.get(other):
            return True
    return False


TUTORIAL = "docs/tutorial.md"
"""Typed by ``test_tutorial.py``, which makes its changes between the lines."""
DRAWN = "README.md"
"""On the pages that its commands write there are pictures; on those of others empty ones."""
PAGES = [
    name
    for name, lines in TYPED.items()
    if lines and name != TUTORIAL and not stands_elsewhere(name)
]


def test_tests_that_run_the_rest_are_there() -> None:
    for key, (why, test) in ELSEWHERE.items():
        file, _, name = test.partition("::")
        assert why, key
        assert (ROOT / file).exists(), f"{key}: there is no {file}"
        if name:
            text = (ROOT / file).read_text(encoding="utf-8")
            assert f"def {name}(" in text, f"{key}: no {name} in {file}"


@pytest.mark.parametrize(
    "table", [CODES, ELSEWHERE, KEYS, MAKES, ONLY_HELP, SMALLER, WRITES], ids=min
)
def test_no_row_has_lost_its_line(table: dict[str, object]) -> None:
    used = {found[0] for _, line in LINES if (found := row(table, line))}
    assert used == set(table)


def test_no_page_or_word_has_lost_its_lines() -> None:
    assert set(BEFORE) <= {*PAGES, "docs/api.md"}
    assert set(PAGES) > LONGER
    words = {part for _, line in LINES for word in line.split() for part in word.split("/")}
    assert set(FILLED) <= words


LIKE_IT = pytest.mark.whole("test_every_command_of_a_page_runs")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[LIKE_IT] * (name in LONGER)) for name in PAGES]
)
def test_every_command_of_a_page_runs(
    world: World,
    tmp_path: Path,
    pytestconfig: pytest.Config,
    name: str,
) -> None:
    """Type every line of a page; of a script, its options only, but under ``--all``."""
    scripts = bool(pytestconfig.getoption("--all"))
    with nullcontext() if name == DRAWN else once_a_process.pictures(painted=scripts):
        type_all(name, Shell(world.copied(tmp_path / "project").root), scripts=scripts)


def type_all(name: str, shell: Shell, *, scripts: bool) -> None:
    """Type every line of a page."""
    filling = Filling()
    for line in BEFORE.get(name, ()):
        said = shell.type(line)
        assert said.code == 0, f"before {name}: {line}\n{said.text}"
    for line in TYPED[name]:
        check(shell, filling, line, scripts=scripts)


def check(shell: Shell, filling: Filling, line: str, *, scripts: bool = True) -> Said:
    """Run one line, and look at how it ended and what it wrote."""
    typed = filling.filled(line)
    script = SCRIPT.match(after(line))
    if only := row(ONLY_HELP, line):
        typed = f"{COMMAND} {only[0]} --help"
    elif script and not (scripts or row(MAKES, line)):
        typed = f"{COMMAND} {script[0]} --help"
    found, keys = row(CODES, line), row(KEYS, line)
    said = shell.type(typed, keys[1] if keys else "")
    assert said.code in (found[1] if found else DONE), (
        f"{line}\nas\n{typed}\n{said.code}\n{said.text}"
    )
    for path in written(typed):
        assert (shell.folder / path).exists(), f"{line}: wrote no {path}\n{said.text}"
    return said


def commands(names: Iterable[str]) -> set[str]:
    """Name the commands of the harness that these pages have typed."""
    every = {name for name, _ in leaves(command_tree())}
    lines = {" ".join(after(line).split()[1:3]) for name in names for line in TYPED[name]}
    return {name for name in every for line in lines if f"{line} ".startswith(f"{name} ")}


def test_each_run_types_the_commands_of_the_pages_that_it_leaves_out() -> None:
    left = commands({*LONGER, TUTORIAL})
    assert {"load", "run"} <= left
    assert left <= commands(set(PAGES) - LONGER)


@pytest.mark.parametrize(
    "line",
    [
        "python3 run.py harness stage prepare --dataset no-such-set",
        "python3 run.py harness pool --dataset python-docs",
        "python3 run.py harness gate --step no-such-step",
        "python3 run.py python no-such-script.py",
        "python3 run.py no-such-program",
    ],
)
def test_a_command_that_fails_is_noticed(tmp_path: Path, line: str) -> None:
    with pytest.raises(Exception, match=r"(?i)no such|no-such|missing"):
        check(Shell(tmp_path), Filling(), line)


def test_a_file_that_is_not_written_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = f"{COMMAND} harness init my-search --control fts5"
    assert check(Shell(tmp_path), Filling(), line).code == 0
    monkeypatch.setitem(WRITES, "harness init", ("{--control}/absent",))
    with pytest.raises(AssertionError, match="wrote no fts5/absent"):
        check(Shell(tmp_path), Filling(), line.replace("my-search", "another"))


def test_words_in_capitals_are_filled_and_others_are_noticed() -> None:
    filling = Filling()
    line = f"{COMMAND} harness import beir PATH/scifact --name NAME"
    assert filling.filled(line).endswith("beir collections/scifact --name theirs0")
    assert filling.filled(line).endswith("--name theirs1")
    assert filling.filled(f"{COMMAND} harness run --dataset NAME").endswith(" theirs1")
    with pytest.raises(NotFilled, match="what NOTHING stands for"):
        filling.filled(f"{COMMAND} harness import beir NOTHING/a --name mine")


def test_numbers_and_lists_of_arms_are_made_small() -> None:
    line = f"{COMMAND} harness load --dataset a --arm b --seconds 6 --rounds 6"
    assert Filling().filled(line).endswith("--seconds 0.2 --rounds 1")
    line = f"{COMMAND} harness load --dataset a --arm b"
    assert Filling().filled(line).endswith("--arm b --seconds 0.2 --rounds 1")
    line = f"{COMMAND} harness run --dataset a --arms b,c,d,e,f,g --control g"
    assert "--arms b,c,d,g " in Filling().filled(line)
