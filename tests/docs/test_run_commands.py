"""Every command of every page is run, in the order of its page, in a small project.

What cannot be run is in ``tests/docs/tables.py`` with the reason and the test that does the same.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import COMMAND, ROOT, Page, pages
from tests.docs.shell import Said, Shell
from tests.docs.tables import (
    BEFORE,
    CODES,
    ELSEWHERE,
    FILLED,
    KEYS,
    ONLY_HELP,
    SMALLER,
    WRITES,
)
from tests.docs.typed import Filling, row, written
from tests.docs.world import World

LINES = [(page.name, line) for page in pages() for line in page.commands()]
PAGES = sorted({name for name, line in LINES if not row(ELSEWHERE, line)})
DONE = frozenset({0})


def test_tests_that_run_the_rest_are_there() -> None:
    for key, (why, test) in ELSEWHERE.items():
        file, _, name = test.partition("::")
        assert why, key
        assert (ROOT / file).exists(), f"{key}: there is no {file}"
        if name:
            text = (ROOT / file).read_text(encoding="utf-8")
            assert f"def {name}(" in text, f"{key}: no {name} in {file}"


@pytest.mark.parametrize("table", [CODES, ELSEWHERE, KEYS, ONLY_HELP, SMALLER, WRITES], ids=min)
def test_no_row_has_lost_its_line(table: dict[str, object]) -> None:
    used = {found[0] for _, line in LINES if (found := row(table, line))}
    assert used == set(table)


def test_no_page_or_word_has_lost_its_lines() -> None:
    assert set(BEFORE) <= {*PAGES, "docs/api.md"}
    words = {part for _, line in LINES for word in line.split() for part in word.split("/")}
    assert set(FILLED) <= words


@pytest.mark.parametrize("name", PAGES)
def test_every_command_of_a_page_runs(world: World, tmp_path: Path, name: str) -> None:
    shell, filling = Shell(world.copied(tmp_path / "project").root), Filling()
    for line in BEFORE.get(name, ()):
        said = shell.type(line)
        assert said.code == 0, f"before {name}: {line}\n{said.text}"
    for line in Page(ROOT / name).commands():
        if not row(ELSEWHERE, line):
            check(shell, filling, line)


def check(shell: Shell, filling: Filling, line: str) -> Said:
    """Run one line, and look at how it ended and what it wrote."""
    typed = filling.filled(line)
    if only := row(ONLY_HELP, line):
        typed = f"{COMMAND} {only[0]} --help"
    found, keys = row(CODES, line), row(KEYS, line)
    said = shell.type(typed, keys[1] if keys else "")
    assert said.code in (found[1] if found else DONE), f"{line}\nas\n{typed}\n{said}"
    for path in written(typed):
        assert (shell.folder / path).exists(), f"{line}: wrote no {path}\n{said.text}"
    return said
