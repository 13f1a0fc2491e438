"""``dvc.yaml``, whose stages depend on all that they use, and ``dvc.lock``, which records them."""

import ast
import hashlib
import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from harness.cli import application
from tests import stages
from tests.source import ROOT, parsed

PIPELINE: dict[str, Any] = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
STAGES = (
    "prepare", "index", "replay", "score", "compare", "race", "gate", "report",
)  # fmt: skip
EVERY = pytest.mark.parametrize("stage", STAGES)
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


def below(path: str, folders: list[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def test_the_file_is_made_of_what_the_code_declares_and_imports() -> None:
    made = (ROOT / "dvc.yaml").read_text(encoding="utf-8")
    assert made == stages.text(), "python -m tests.stages"
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
def test_no_out_rests_on_a_clock(stage: str) -> None:
    outs = paths(stage, "outs", "metrics", "plots")
    assert outs
    for path in outs:
        assert below(path, MADE), path
        assert Path(path).name not in TIMED, path


@EVERY
def test_a_stage_names_every_param_that_its_command_reads(stage: str) -> None:
    listed = {name.split(".")[0] for name in PIPELINE[stage].get("params", [])}
    named = {f"{item}s" for item in PIPELINE[stage].get("matrix", {})}
    assert used_params(stage) - named == listed - named
    assert ("policy" in listed) == below("policy/migration.toml", paths(stage, "deps"))


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


MADE = ["build", "reports"]
HINT = "run: python3 run.py demo --record, and commit dvc.lock and reports/record"


LOCK: dict[str, Any] = yaml.safe_load((ROOT / "dvc.lock").read_text(encoding="utf-8"))["stages"]


def md5(path: Path) -> str:
    """Digest of a file, or of a folder as DVC takes it: its files' digests and names, sorted."""
    if path.is_file():
        return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    files = sorted(p for p in path.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    rows = [{"md5": md5(p), "relpath": p.relative_to(path).as_posix()} for p in files]
    rows.sort(key=lambda row: row["relpath"])
    listing = json.dumps(rows, sort_keys=True)
    return hashlib.md5(listing.encode(), usedforsecurity=False).hexdigest() + ".dir"


def test_dependencies_are_what_the_lock_was_made_with() -> None:
    deps = [dep for stage in LOCK.values() for dep in stage["deps"]]
    recorded = {(dep["path"], dep["md5"]) for dep in deps if not below(dep["path"], MADE)}
    assert [path for path, digest in sorted(recorded) if md5(ROOT / path) != digest] == [], HINT


def test_every_stage_and_arm_is_in_the_lock() -> None:
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    wanted = set()
    for name, stage in PIPELINE.items():
        items = [params[f"{item}s"] for item in stage.get("matrix", {})]
        wanted |= {f"{name}@{'-'.join(of)}" if of else name for of in product(*items)}
    assert wanted == set(LOCK), HINT
