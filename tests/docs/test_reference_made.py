"""``docs/reference.md`` is what the code says today, and leaves nothing out."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest
import yaml

from harness.load.files import history_of, page_of, receipt_of
from harness.pipeline.layout import Layout
from harness.pipeline.oneshot import RESULTS
from tests.docs import reference, reference_words
from tests.docs.pages import ROOT
from tests.docs.test_commands import parse

SOURCES = ("harness", "engines", "tests", "benchmarks")
READS = re.compile(r"(?:environ\.get\(|environ\[|getenv\(|env\.setdefault\()[\"']?(\w+)")
EXAMPLES = [
    line for _, command in reference.commands() for line in reference.examples(command.help)
]


def test_the_page_is_up_to_date() -> None:
    """Where it is not: ``python3 run.py python -m tests.docs.reference``."""
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), reference.MAKE


@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_of_a_help_text_can_be_typed(line: str) -> None:
    _, *words = shlex.split(line)
    parse(words)


def test_most_commands_have_an_example() -> None:
    assert len(EXAMPLES) >= 20


def test_every_command_and_option_has_a_help_text() -> None:
    for names, command in reference.commands():
        assert command.help, names
        for param in command.params:
            assert getattr(param, "help", None), (names, param.name)


def test_every_variable_that_is_read_is_named() -> None:
    """Those handed on to programs of others are not ours; a recorder's are its own."""
    known = {*reference_words.ENVIRONMENT, *reference.variables()}
    read: dict[str, str] = {}
    every = (path for name in SOURCES for path in (ROOT / name).rglob("*.py"))
    files = [path for path in every if "oracle" not in path.parts]
    for path in (*files, ROOT / "run.py"):
        text = path.read_text(encoding="utf-8")
        if not re.search("environ|getenv|env.setdefault", text):
            continue
        tree = ast.parse(text)
        constants = {
            name.id: value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for name, value in _assigned(node)
        }
        for node in ast.walk(tree):
            if isinstance(node, (ast.Call, ast.Subscript)):
                for name in READS.findall(ast.unparse(node)):
                    read[constants.get(name, name)] = path.name
    ours = {name for name in read if name.isupper()} - {"SHELL", "PATH", "UV_DEFAULT_INDEX", "X"}
    assert ours <= known, {name: read[name] for name in ours - known}
    assert {"GITHUB_ACTIONS", "MAIL_FILTER_CASES"} <= ours


def _assigned(node: ast.Assign) -> list[tuple[ast.Name, str]]:
    """Names and texts of ``A = "a"`` and of ``A, B = "a", "b"``."""
    targets, values = node.targets[0], node.value
    pairs = (
        zip(targets.elts, values.elts, strict=False)
        if isinstance(targets, ast.Tuple) and isinstance(values, ast.Tuple)
        else [(targets, values)]
    )
    return [
        (target, value.value)
        for target, value in pairs
        if isinstance(target, ast.Name)
        and isinstance(value, ast.Constant)
        and isinstance(value.value, str)
    ]


def test_every_file_that_a_run_leaves_is_listed() -> None:
    listed = {name for files in reference_words.FILES.values() for name in files}
    assert set(RESULTS) <= listed


def test_every_output_of_the_pipeline_is_listed() -> None:
    known = {*reference.layout(), *reference_words.PIPELINE}
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    for stage in stages.values():
        for out in [*stage.get("outs", []), *stage.get("metrics", []), *stage.get("plots", [])]:
            name = out if isinstance(out, str) else next(iter(out))
            name = name.replace("${item.dataset}", "NAME").replace("${item.arm}", "ARM")
            if not name.startswith("reports/"):
                assert [one for one in known if one == name or one.startswith(f"{name}/")], name


def test_what_is_written_of_files_by_hand_is_in_the_code() -> None:
    at = Path("build/NAME"), Path("perf/NAME"), Path(".cache/NAME")
    of_load = {path(Layout(*at)).as_posix() for path in (history_of, page_of, receipt_of)}
    assert of_load <= set(reference_words.PIPELINE)
    sources = [*(ROOT / "harness").rglob("*.py")]
    everything = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    for files in reference_words.FILES.values():
        for name in files:
            last = re.sub(r"[A-Z]{3,}", "", name.rpartition("/")[2])
            parts = [part for part in re.split(r"[-.~]", last) if part]
            assert all(part in everything for part in parts), name
