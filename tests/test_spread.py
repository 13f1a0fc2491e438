"""How several processes share the tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.conftest import pytest_xdist_auto_num_workers
from tests.once import once
from tests.spread import Spread, longest_first, processes

TEST = "tests/a/test_a.py::test_it"
VARIABLE = "PYTEST_XDIST_AUTO_NUM_WORKERS"


def factory(base: Path) -> pytest.TempPathFactory:
    """Give folders as pytest does in the process whose folder is ``base``."""
    base.mkdir(parents=True, exist_ok=True)
    return cast("pytest.TempPathFactory", SimpleNamespace(getbasetemp=lambda: base))


@pytest.mark.parametrize(("places", "times"), [(("popen-gw0", "popen-gw1"), 1), (("a", "b"), 2)])
def test_a_folder_is_made_once_a_run(tmp_path: Path, places: tuple[str, str], times: int) -> None:
    made: list[Path] = []

    def make(folder: Path) -> None:
        folder.mkdir()
        made.append(folder)

    found = [once(factory(tmp_path / place), "it", make) for place in places * 2]
    assert len(made) == len(set(found)) == times


def test_what_failed_half_way_is_made_again(tmp_path: Path) -> None:
    def half(folder: Path) -> None:
        (folder / "half").mkdir(parents=True)
        raise OSError

    def whole(folder: Path) -> None:
        folder.mkdir()

    with pytest.raises(OSError):  # noqa: PT011  our own, above
        once(factory(tmp_path), "it", half)
    assert not list(once(factory(tmp_path), "it", whole).iterdir())


@pytest.mark.parametrize(
    ("node", "goes_with"),
    [
        (TEST, "tests/a/test_a.py"),
        ("tests/mutants/test_all.py::test_a[x]", "tests/mutants/test_all.py::test_a[x]"),
        ("tests/a/test_a.py::test_b[a::b]", "tests/a/test_a.py"),
        ("tests/browser/test_pages.py::test_b[a]", "tests/browser"),
        ("tests/browser/explore/test_page.py::test_b", "tests/browser"),
        ("tests/engines/contract/test_every_arm.py::test_a[code-flat-x]", "code"),
        ("tests/engines/contract/test_every_arm.py::test_a[code]", "code"),
        (
            "tests/engines/contract/test_every_arm.py::test_without_arm",
            "tests/engines/contract/test_every_arm.py",
        ),
    ],
)
def test_to_one_process_go_a_file_what_is_in_a_browser_and_a_family_of_arms(
    node: str, goes_with: str
) -> None:
    assert vars(Spread)["_split_scope"](None, node) == goes_with


def test_long_files_go_first_then_new_ones_with_slow_tests_and_nothing_else_moves() -> None:
    def item(node: str, *, slow: bool = False) -> Any:  # noqa: ANN401  what the sorting looks at
        return SimpleNamespace(nodeid=node, get_closest_marker=lambda _: slow or None)

    new = [item("new::1"), item("new::2", slow=True)]
    items = [item("a::1"), *new, item("c::1"), item("b::1"), item("long::1"), item("long::2")]
    longest_first(items, {"b": 3, "long": 90, "gone": 5})
    order = [found.nodeid for found in items]
    assert order == ["long::1", "long::2", "b::1", "new::1", "new::2", "a::1", "c::1"]


def test_there_is_a_process_more_than_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    usable = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    assert pytest_xdist_auto_num_workers() == processes() == (usable or 1) + 1
    monkeypatch.setenv(VARIABLE, "1")
    assert pytest_xdist_auto_num_workers() is None
