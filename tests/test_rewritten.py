"""What is compiled beforehand is what pytest would compile, and nothing is lost where it cannot."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

from tests import rewritten
from tests.source import ROOT


def test_a_module_is_compiled_as_pytest_and_python_read_it(
    tmp_path: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    test, plain, broken = (tmp_path / name for name in ("test_it.py", "it.py", "test_broken.py"))
    test.write_text("def test_it(): assert 1 + 1 == 3\n", encoding="utf-8")
    plain.write_text("IT = 1\n", encoding="utf-8")
    broken.write_text("def (", encoding="utf-8")
    paths = [broken, test, plain]
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    rewritten.compile_all(pytestconfig, paths, 2)
    assert not list(tmp_path.rglob("*.pyc"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    rewritten.compile_all(pytestconfig, paths, 2)
    code = rewrite._read_pyc(test, rewritten.place(test))  # noqa: SLF001
    assert code is not None
    space: dict[str, object] = {}
    exec(code, space)  # noqa: S102  as pytest does
    with pytest.raises(AssertionError, match=r"assert \(1 \+ 1\) == 3"):
        space["test_it"]()  # type: ignore[operator]
    assert Path(importlib.util.cache_from_source(str(plain))).is_file()
    assert not rewritten.place(broken).exists()


def test_modules_of_the_project_are_all_named() -> None:
    found = rewritten.modules(ROOT)
    assert {ROOT / "tests" / "conftest.py", ROOT / "harness" / "cli" / "__init__.py"} <= {*found}
    assert len(found) > 1_500
