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


def test_what_modules_import_of_packages_that_are_new_is_imported_once(
    tmp_path: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed, ours = tmp_path / "installed", tmp_path / "ours.py"
    for name in ("new_package", "old_package"):
        (installed / name).mkdir(parents=True)
        for module in ("__init__", "part", "another"):
            (installed / name / f"{module}.py").write_text("IT = 1\n", encoding="utf-8")
    (installed / "new_package" / "broken.py").write_text("raise OSError\n", encoding="utf-8")
    ours.write_text(
        "import json\nimport absent_package\nfrom old_package import part\n\n\n"
        "def late():\n    import new_package.broken\n    from new_package.part import IT\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(installed)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    old, new = installed / "old_package", installed / "new_package"
    compiled(old / "__init__.py").parent.mkdir()
    compiled(old / "__init__.py").touch()
    assert rewritten.fresh([ours]) == ["new_package.broken", "new_package.part"]
    rewritten.compile_all(pytestconfig, [ours], 2)
    assert {path.name.partition(".")[0] for path in new.rglob("*.pyc")} == {
        "__init__", "broken", "part",
    }  # fmt: skip
    assert not compiled(old / "part.py").exists()
    assert "new_package" not in sys.modules
    assert rewritten.fresh([ours]) == []


def compiled(path: Path) -> Path:
    return Path(importlib.util.cache_from_source(str(path)))


def test_modules_of_the_project_are_all_named() -> None:
    found = rewritten.modules(ROOT)
    assert {ROOT / "tests" / "conftest.py", ROOT / "harness" / "cli" / "__init__.py"} <= {*found}
    assert len(found) > 1_000
