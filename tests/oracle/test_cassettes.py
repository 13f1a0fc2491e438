"""A function that was recorded is asked again: honest code shows nothing, a change is shown."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.oracle.cassettes import Seam
from tests.oracle.cassettes_replay import Names, Recording, replay

SOURCE = """
def least(values, path):
    if not values:
        raise ValueError("nothing is least of nothing")
    path.write_text(str(path.parent))
    return [min(values), 0.1 + 0.2]
"""
STAYED = Names({}, {}, {})
Toy = Callable[[str, str], ModuleType]


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Toy]:
    """Write a module and import it."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def written(name: str, source: str) -> ModuleType:
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
        (tmp_path / f"{name}.py").write_text(source)
        return importlib.import_module(name)

    with monkeypatch.context() as patched:
        patched.setattr(sys, "dont_write_bytecode", True)
        yield written
    for name in ("recorded_toy", "moved_toy"):
        sys.modules.pop(name, None)


@pytest.fixture
def recorded(toy: Toy, tmp_path: Path) -> Recording:
    """Record two answers of a toy, and an error."""
    module = toy("recorded_toy", SOURCE)
    seam = Seam("recorded_toy:least", tmp_path)
    (tmp_path / "files").mkdir()
    for values in ([3, 1, 2], [5], [3, 1, 2]):
        module.least(values, tmp_path / "files" / "said")
    with pytest.raises(ValueError, match="nothing"):
        module.least([], tmp_path / "files" / "said")
    return {seam.name: seam.chosen()}


@pytest.mark.parametrize(
    ("was", "now", "differing"),
    [
        ("", "", 0),
        ("nothing is", "None is", 0),
        ("min(values)", "values[0]", 2),
        ("0.2", "0.2001", 3),
        ("str(path.parent)", '"elsewhere"', 3),
        ("ValueError", "KeyError", 1),
    ],
)
def test_a_change_is_shown(
    toy: Toy, recorded: Recording, was: str, now: str, differing: int
) -> None:
    toy("recorded_toy", SOURCE.replace(was, now) if was else SOURCE)
    counts = replay("toy", recorded, STAYED)
    assert counts["differences"] == differing
    assert counts["cases"] == 4


def test_a_function_that_moved_is_found_by_its_table(toy: Toy, recorded: Recording) -> None:
    toy("recorded_toy", "")
    toy("moved_toy", SOURCE)
    assert replay("toy", recorded, STAYED)["not found"] == 1
    moved = Names({"recorded_toy": "moved_toy"}, {}, {})
    assert replay("toy", recorded, moved)["cases"] == 4
    gone = Names({}, {}, {"recorded_toy:least": "nobody asks"})
    assert replay("toy", recorded, gone) == {"gone": 1}


LENT = """
import contextlib
class Open:
    def __init__(self, number):
        self.read = lambda: number
@contextlib.contextmanager
def lend(number):
    yield Open(number)
def ask(one):
    return one.read() + 1
"""


def test_what_a_context_manager_lends_is_lent_again(toy: Toy, tmp_path: Path) -> None:
    module = toy("recorded_toy", LENT)
    seams = [Seam(f"recorded_toy:{name}", tmp_path) for name in ("lend", "ask")]
    with module.lend(3) as one:
        assert module.ask(one) == 4
    recording = {seam.name: seam.chosen() for seam in seams}
    assert [len(cases) for cases in recording.values()] == [0, 1]
    toy("recorded_toy", LENT)
    assert replay("toy", recording, STAYED)["differences"] == 0
    toy("recorded_toy", LENT.replace("Open(number)", "Open(number + 1)"))
    assert replay("toy", recording, STAYED)["differences"] == 1
