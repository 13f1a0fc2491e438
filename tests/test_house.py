"""Rules of the house that a machine checks."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests import budget
from tests.source import ROOT, known, parsed

MODULE_LINES, TEST_LINES = 600, 800
TESTS = sorted((ROOT / "tests").rglob("*.py"))


@pytest.mark.slow
def test_nothing_is_larger_than_its_budget_and_no_file_endless() -> None:
    assert budget.over() == []
    most = {module.path: MODULE_LINES for module in known().values()}
    most |= dict.fromkeys(TESTS, TEST_LINES)
    long = [path for path, lines in most.items() if path.read_text("utf-8").count("\n") > lines]
    assert long == []


def whole_marks() -> list[tuple[Path, str]]:
    """Return the test that each mark of ``whole`` names, with the file that it stands in."""
    return [
        (path, ast.literal_eval(node.args[0]))
        for path in TESTS
        if ".whole(" in path.read_text("utf-8")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.whole"
    ]


@pytest.mark.parametrize(("path", "kept"), whole_marks())
def test_what_is_kept_in_the_place_of_a_test_is_there_and_run(path: Path, kept: str) -> None:
    file, _, name = kept.rpartition("::")
    tests = parsed(ROOT / file if file else path).body
    (test,) = (one for one in tests if isinstance(one, ast.FunctionDef) and one.name == name)
    marks = map(ast.unparse, test.decorator_list)
    assert not any(one.startswith("pytest.mark.whole") for one in marks)


@pytest.mark.slow
def test_a_module_runs_nothing_when_it_is_imported() -> None:
    for module in known().values():
        if module.path.stem != "__main__":
            calls = [node for node in module.tree.body if isinstance(node, ast.Expr)][1:]
            assert not [node for node in calls if isinstance(node.value, ast.Call)], module.file
            runs = (ast.For, ast.While, ast.With)
            assert not any(isinstance(node, runs) for node in module.tree.body), module.file


VAGUE = ("Give ", "Say ", "Tell ", "Let ", "Put ")
SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]


@pytest.mark.parametrize(
    "command",
    [
        "ruff check",
        "ruff format --check --exclude *.md",
        pytest.param("mypy", marks=pytest.mark.slow),
        pytest.param("lint-imports", marks=pytest.mark.slow),
    ],
)
def test_is_clean(command: str) -> None:
    tool, *words = command.split()
    path = Path(sys.executable).with_name(tool)
    done = subprocess.run([path, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"


def test_the_settings_are_strict() -> None:
    assert SETTINGS["ruff"]["lint"]["select"] == ["ALL"]
    assert SETTINGS["mypy"]["strict"] is True
    assert {"harness", "engines/harness_engines", "tests", "run.py"} <= {*SETTINGS["mypy"]["files"]}
    assert SETTINGS["pytest"]["ini_options"]["filterwarnings"] == ["error"]


def test_docstrings_of_functions_begin_with_a_verb_of_the_field() -> None:
    """Return, Compute, Read, Write, Check, Raise and their like: never "Give" or "Say"."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {said.splitlines()[0]}"
        for room in ("harness", "engines")
        for path in sorted((ROOT / room).rglob("*.py"))
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (said := ast.get_docstring(node) or "").startswith(VAGUE)
    ]
    assert not found, found[:5]


BIG_BYTES = 1_000_000
VECTOR_BYTES = 4 << 20
GENERATED = {
    ".venv", ".cache", "build", "perf", "out", ".git", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", ".hypothesis", "__pycache__",
}  # fmt: skip
LOCK = ROOT / "requirements.lock"
ACCELERATED = re.compile(r"^(?:nvidia-|cupy|torch|triton|tensorflow|onnxruntime-)", re.MULTILINE)
"""Packages of an accelerator; a processor is enough for all that is here."""
ONE_VERSION = ("numpy", "scipy", "pandas", "matplotlib", "tantivy", "ir-measures")
FORBIDDEN = {
    "a host of a package registry": r"py(?:pi)\.|python(?:hosted)|npm(?:js)\.|cra(?:tes)\.io",
    "a path of one machine": r"(?<![\w.~-])/(?:root|work|home/\w+|Users/\w+|tmp/\w+)\b",
    "a number of an issue": r"(?i)\b(?:issues?|pull|closes|fixes)[\s/]*#?\d+\b",
    "who wrote it": r"(?i)\b(?:this|last|next|earlier|previous) session\b",
}


@cache
def files() -> tuple[Path, ...]:
    """Every file of the repository, as git knows them, or all that is not generated."""
    if (ROOT / ".git").exists():
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
        found = [ROOT / name for name in listed.decode().split("\0") if name]
    else:
        found = [p for p in ROOT.rglob("*") if not GENERATED & set(p.relative_to(ROOT).parts)]
    return tuple(sorted(path for path in found if path.is_file()))


@cache
def texts() -> dict[str, str]:
    found = {}
    for path in files():
        try:
            found[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    return found


def test_no_file_is_big() -> None:
    vectors = ROOT / "reports" / "vectors"
    most = {path: VECTOR_BYTES if path.parent == vectors else BIG_BYTES for path in files()}
    assert [str(path) for path, size in most.items() if path.stat().st_size > size] == []
    assert len(files()) > 200


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_names(what: str) -> None:
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in texts().items()
        if name != "requirements.lock" or what != "a number of an issue"
        for number, line in enumerate(text.splitlines(), start=1)
        if re.search(FORBIDDEN[what], line)
    ]
    assert found == []


def test_models_are_read_by_the_processor() -> None:
    sessions = [
        ast.unparse(node)
        for module in known().values()
        if "InferenceSession" in module.path.read_text("utf-8")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("InferenceSession")
    ]
    assert sessions
    assert all("providers=['CPUExecutionProvider']" in one for one in sessions)


def test_the_lock_pins_one_version_with_hashes_and_names_no_address() -> None:
    text = LOCK.read_text()
    assert "://" not in text
    assert not ACCELERATED.search(text)
    entries = re.split(r"\n(?=[A-Za-z0-9])", text)
    pinned = [entry for entry in entries if not entry.startswith("#")]
    assert len(pinned) > 100
    for entry in pinned:
        assert re.match(r"[A-Za-z0-9._-]+(\[[\w,-]+\])?==", entry), entry[:80]
        assert "--hash=sha256:" in entry, entry[:80]
    for name in ONE_VERSION:
        assert len(re.findall(rf"^{re.escape(name)}==\S+", text, re.MULTILINE)) == 1, name
