"""A shadow log on a terminal: it fits, says the worst first, and is no way to write to a screen."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console
from rich.live import Live

from harness.report.doc import render_terminal
from harness.shadow import commands as shadow
from harness.shadow.commands import screen
from harness.shadow.words import Shadowed
from tests.report.shadow.test_page import HOSTILE, empty, found


def printed(shown: Shadowed, width: int, *, top: int = 10) -> str:
    said = StringIO()
    Console(file=said, width=width, highlight=False).print(render_terminal(screen(shown, top=top)))
    return said.getvalue()


@pytest.mark.parametrize("width", [80, 120, 200])
def test_it_fits_and_the_worst_comes_first(width: int) -> None:
    lines = printed(found(), width).splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0].startswith("1 alarm raised (duplicates); mean Jaccard of the first hits")
    alarms = next(n for n, line in enumerate(lines) if line.startswith("Alarms"))
    assert "RAISED" in lines[alarms + 2]


def test_control_characters_and_markup_are_not_obeyed() -> None:
    text = printed(found(), 200)
    assert HOSTILE not in text
    assert "<script>alert(1)</script>⟨U+202E⟩" in text


def test_no_query_is_shown_where_none_is_wanted() -> None:
    assert "<script>alert(1)</script>⟨U+202E⟩&amp;\n" not in printed(found(), 200, top=0)


def test_an_empty_log_can_be_shown() -> None:
    assert "nothing yet" in printed(empty(), 100)


def test_the_exit_code_is_that_of_what_is_shown() -> None:
    assert shadow.code(found()) == 1
    assert shadow.code(empty()) == 3


def test_it_can_be_shown_live() -> None:
    said = StringIO()
    console = Console(file=said, width=100, height=30, force_terminal=True)
    with Live(console=console, auto_refresh=False) as live:
        live.update(render_terminal(screen(found(), top=5)), refresh=True)
        live.update(render_terminal(screen(empty(), top=5)), refresh=True)
    assert "nothing yet" in said.getvalue()
