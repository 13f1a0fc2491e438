"""``import harness`` is quick, and gives every public name of ``harness.api``."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

import harness
from harness import api
from tests.source import ROOT, parsed

HEAVY = {"numpy", "pandas", "matplotlib", "scipy", "pyarrow", "harness.core"}


def loaded(code: str) -> set[str]:
    """Run code in a new interpreter, and give the modules that it brought in."""
    text = f"import sys\n{code}\nprint(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_it_brings_in_nothing_else() -> None:
    found = loaded("import harness, harness.api\nhasattr(harness, 'nothing')")
    assert not found & HEAVY
    assert {name for name in found if name.startswith("harness")} == {"harness", "harness.api"}
    assert "harness.api" not in loaded("import harness\nhasattr(harness, '__wrapped__')")


def test_whoever_reads_a_run_does_not_wait_for_figures() -> None:
    found = loaded("import harness\nharness.load_run")
    assert "numpy" in found
    assert not found & {"matplotlib", "scipy"}


@pytest.mark.parametrize("name", api.__all__)
def test_every_name_is_the_same_thing_in_both(name: str) -> None:
    found = getattr(harness, name)
    assert found is getattr(api, name)
    assert found.__name__ == name
    assert found.__module__.startswith("harness.")


def test_what_is_promised_what_is_found_and_what_is_typed_are_the_same() -> None:
    typed = {
        (node.module, alias.name)
        for node in ast.walk(parsed(ROOT / "harness" / "api" / "__init__.py"))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("harness.api.")
        for alias in node.names
    }
    homes = {(f"harness.api.{home}", n) for home, names in api.HOMES.items() for n in names}
    assert typed == homes
    assert sorted(name for _, name in homes) == api.__all__
    stub = parsed(ROOT / "harness" / "__init__.pyi").body
    assert [ast.unparse(node) for node in stub] == ["from harness.api import *"]


def test_they_can_be_listed() -> None:
    assert set(api.__all__) < set(dir(harness))
    assert set(api.__all__) < set(dir(api))


@pytest.mark.parametrize("where", [harness, api])
def test_another_name_is_none(where: object) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'lode_run'"):
        where.lode_run  # type: ignore[attr-defined]  # noqa: B018  it is to fail
    assert not hasattr(where, "_private")
