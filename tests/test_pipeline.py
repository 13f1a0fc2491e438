"""``dvc.yaml``: a stage is a module and a command, and depends on all that it uses."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from harness.cli import application
from harness.core.folders import STRAYS
from tests import stages
from tests.source import ROOT, known, parsed, reached

PIPELINE: dict[str, Any] = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
PARAMS: dict[str, Any] = yaml.safe_load((ROOT / "params.yaml").read_text())
STAGES = (
    "prepare", "index", "replay", "score", "compare", "race", "gate", "report",
)  # fmt: skip
EVERY = pytest.mark.parametrize("stage", STAGES)
READS_ENGINES = {"index", "replay", "race"}
TIMED = {
    "times.parquet", "decision.json", "junit.xml", "index.html", "explore.html", "report.md",
}  # fmt: skip
ITEM = {"${item.dataset}": "python-docs", "${item.arm}": "fts5"}


def filled(text: str) -> str:
    for name, value in ITEM.items():
        text = text.replace(name, value)
    return text


def paths(stage: str, *keys: str) -> list[str]:
    found = [entry for key in keys for entry in PIPELINE[stage].get(key, [])]
    return [filled(entry if isinstance(entry, str) else next(iter(entry))) for entry in found]


def deps(stage: str) -> list[str]:
    return paths(stage, "deps")


def outs(stage: str) -> list[str]:
    return paths(stage, "outs", "metrics", "plots")


def below(path: str, folders: list[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def test_the_file_is_made_of_what_the_code_declares_and_imports() -> None:
    assert (ROOT / "dvc.yaml").read_text(encoding="utf-8") == stages.text(), (
        "python -m tests.stages"
    )


def test_the_pipeline_has_these_stages_in_this_order() -> None:
    assert tuple(PIPELINE) == STAGES


@EVERY
def test_a_stage_is_a_module_and_a_command(stage: str) -> None:
    assert stages.module(stage).says_something
    commands = typer.main.get_command(application()).commands  # type: ignore[attr-defined]
    program, *words = filled(PIPELINE[stage]["cmd"]).split()
    if words[0] == "stage":
        commands = commands[words.pop(0)].commands
    assert (program, words[0]) == ("harness", stage)
    assert commands[stage].make_context(stage, words[1:]).params is not None


@EVERY
def test_a_stage_depends_on_every_module_that_it_reaches(stage: str) -> None:
    used = {m.file for m in reached(stages.module(stage)) if m.says_something}
    assert len(used) > 10
    assert sorted(file for file in used if not below(file, deps(stage))) == []


@EVERY
def test_every_dependency_is_there_or_made_by_an_earlier_stage(stage: str) -> None:
    written = [out for earlier in STAGES[: STAGES.index(stage)] for out in outs(earlier)]
    made = [out.replace(ITEM["${item.arm}"], arm) for out in written for arm in PARAMS["arms"]]
    for path in deps(stage):
        is_made = below(path, made) or any(out.startswith(f"{path}/") for out in made)
        assert is_made or (ROOT / path).exists(), path


@pytest.mark.parametrize("stage", sorted(READS_ENGINES))
def test_a_stage_that_opens_an_engine_depends_on_all_engines_and_versions(stage: str) -> None:
    for module in known().values():
        if module.name.startswith("harness_engines.") and module.says_something:
            assert below(module.file, deps(stage)), module.file
    assert "requirements.lock" in deps(stage)
    assert below("engines/harness_engines/arms/fts5.toml", deps(stage))


@EVERY
def test_no_out_rests_on_a_clock(stage: str) -> None:
    assert outs(stage)
    for path in outs(stage):
        assert below(path, ["build", "reports"]), path
        assert Path(path).name not in TIMED, path


def test_every_file_that_is_declared_is_an_out_of_its_stage_alone() -> None:
    assert len(stages.declared()) > 15
    for one in stages.declared().values():
        makers = [stage for stage in STAGES if filled(stages.path(one)) in outs(stage)]
        assert [one.made_by.removeprefix("stage ")] == makers, one.path


@EVERY
def test_params_that_a_stage_names_are_there(stage: str) -> None:
    for name in PIPELINE[stage].get("params", []):
        found: Any = PARAMS
        for key in name.split("."):
            found = found[key]
        assert found is not None


@EVERY
def test_a_stage_names_every_param_that_its_command_reads(stage: str) -> None:
    listed = {name.split(".")[0] for name in PIPELINE[stage].get("params", [])}
    named = {f"{item}s" for item in PIPELINE[stage].get("matrix", {})}
    assert used_params(stage) - named == listed - named
    assert ("policy" in listed) == below("policy/migration.toml", deps(stage))


def used_params(stage: str) -> set[str]:
    """Keys of params.yaml that a command reads, itself or through what it calls.

    Those are private functions of its module and methods of ``Project``.
    """
    methods = functions(ROOT / "harness/cli/project.py")
    found: set[str] = set()
    beside = functions(ROOT / f"harness/cli/{'decide' if stage == 'gate' else 'pipeline'}.py")
    todo: list[ast.AST] = [beside[stage]]
    seen: set[str] = set()
    while todo:
        for node in ast.walk(todo.pop()):
            if (
                isinstance(node, ast.Name)
                and node.id.startswith("_")
                and node.id in beside.keys() - seen
            ):
                seen.add(node.id)
                todo.append(beside[node.id])
            if not isinstance(node, ast.Attribute):
                continue
            owner = ast.unparse(node.value)
            if owner == "params" or owner.endswith(".params"):
                found.add(node.attr)
            elif owner in {"project", "self"} and node.attr in methods and node.attr not in seen:
                seen.add(node.attr)
                todo.append(methods[node.attr])
    return found


def functions(path: Path) -> dict[str, ast.FunctionDef]:
    return {n.name: n for n in ast.walk(parsed(path)) if isinstance(n, ast.FunctionDef)}


def test_what_is_left_of_a_killed_process_is_no_dependency() -> None:
    ignored = {name.rstrip("/") for name in (ROOT / ".dvcignore").read_text().split()}
    assert {"*.partial", *STRAYS} <= ignored
