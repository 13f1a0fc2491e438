"""What a run leaves to ``--all``, and that it keeps something of everything."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import thinned
from tests.source import ROOT, parsed

HERE = Path(__file__)


def case(name: str, mark: str = "", *given: object, **places: int) -> Any:  # noqa: ANN401  what is looked at
    simple_namespace = SimpleNamespace(args=given)
    return SimpleNamespace(
        nodeid=name,
        callspec=SimpleNamespace(params=places),
        get_closest_marker=lambda asked: simple_namespace if asked == mark else None,
    )


def names(items: list[Any]) -> list[str]:
    return [item.nodeid for item in thinned.left(items)]


def test_nothing_is_left_that_bears_no_mark() -> None:
    assert names([case("a::t[1]"), case("a::t[2]"), case("a::u")]) == []


def test_what_is_like_another_test_is_left() -> None:
    assert names([case("a::t"), case("a::u", "whole", "test_t"), case("a::v")]) == ["a::u"]


def test_of_a_sample_the_first_and_the_last_are_kept() -> None:
    items = [case(f"a::t[{at}]", "sampled", 3) for at in range(7)]
    assert names(items) == [f"a::t[{at}]" for at in (1, 2, 4, 5)]


def test_each_test_is_sampled_by_itself_wherever_its_cases_stand() -> None:
    items = [case(f"a::{test}[{at}]", "sampled", 2) for at in range(3) for test in "tu"]
    assert names(items) == ["a::t[1]", "a::u[1]"]


def test_without_a_number_each_value_of_each_parameter_is_tried() -> None:
    cases = [case(f"a::t[{x}{y}]", "sampled", x=x, y=y) for x in range(2) for y in range(4)]
    kept = {item.nodeid for item in cases} - set(names(cases))
    assert kept == {"a::t[00]", "a::t[11]", "a::t[02]", "a::t[03]"}


@given(count=st.integers(0, 50), few=st.integers(1, 60))
def test_so_many_are_kept_and_both_ends(count: int, few: int) -> None:
    kept = thinned.spread(count, few)
    assert len(kept) == min(count, few)
    assert kept <= set(range(count))
    if count and few > 1:
        assert {0, count - 1} <= kept


def marks() -> list[tuple[Path, str]]:
    """Give the test that each mark of ``whole`` names, with the file that it stands in."""
    found = []
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    for path in (path for path in paths if ".whole(" in path.read_text("utf-8")):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.whole":
                (kept,) = node.args
                assert isinstance(kept, ast.Constant), path
                found.append((path, str(kept.value)))
    return found


def decorators(path: Path, name: str) -> list[str]:
    (test,) = (
        node
        for node in parsed(path).body
        if isinstance(node, ast.FunctionDef) and node.name == name
    )
    return [ast.unparse(one) for one in test.decorator_list]


@pytest.mark.parametrize(("path", "kept"), marks())
def test_what_is_kept_in_the_place_of_a_test_is_there_and_run(path: Path, kept: str) -> None:
    file, _, name = kept.rpartition("::")
    said = decorators(ROOT / file if file else path, name)
    assert not any(one.startswith("pytest.mark.whole") for one in said)


@pytest.mark.parametrize(
    ("said", "every", "kept"), [("a", False, 1), ("a", True, 2), ("a::t", False, 2)]
)
def test_all_or_a_name_leaves_nothing_out(said: str, every: bool, kept: int) -> None:  # noqa: FBT001  an option
    config: Any = SimpleNamespace(args=[said], getoption=lambda _: every)
    items = [case("a::t", "whole", "test_u"), case("a::u")]
    thinned.thin(config, items)
    assert len(items) == kept
