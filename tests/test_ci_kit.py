"""The action for GitHub and the template for GitLab, read as their servers would, without one."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from harness.pipeline.ci import COMMENT, DECISION, QUALITY
from harness.pipeline.init import ACTION
from harness.pipeline.inputs import FILE
from tests.source import ROOT

GITHUB = ROOT / ACTION / "action.yml"
GITLAB = ROOT / "ci" / "gitlab" / "search.yml"
Json = dict[str, Any]
EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")
STEP_KEYS = {"id", "name", "if", "uses", "with", "shell", "env", "run", "working-directory"}
GIVEN = {
    "GITHUB_OUTPUT", "GITHUB_REPOSITORY", "GITHUB_WORKFLOW", "RUNNER_TEMP", "CI_API_V4_URL",
    "CI_PROJECT_ID", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "CI_JOB_NAME", "CI_JOB_TOKEN",
    "CI_PROJECT_DIR", "CI_SERVER_PROTOCOL", "CI_SERVER_HOST", "CI_SERVER_PORT",
}  # fmt: skip
"""Variables that the servers set."""


def action() -> Json:
    found: Json = yaml.safe_load(GITHUB.read_text(encoding="utf-8"))
    return found


def template() -> tuple[Json, Json]:
    head, body = yaml.safe_load_all(GITLAB.read_text(encoding="utf-8"))
    return head["spec"]["inputs"], body


def scripts() -> Iterator[tuple[str, frozenset[str]]]:
    """Yield every shell snippet with the variables that its own file sets for it."""
    for step in action()["runs"]["steps"]:
        if "run" in step:
            yield step["run"], frozenset(step.get("env", {}))
    for job in template()[1].values():
        yield "\n".join(job["script"]), frozenset(job["variables"])


def expressions(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield from (found.strip() for found in EXPRESSION.findall(value))
    elif isinstance(value, dict):
        for each in value.values():
            yield from expressions(each)
    elif isinstance(value, list):
        for each in value:
            yield from expressions(each)


def test_the_action_is_a_composite_one() -> None:
    found = action()
    assert set(found) == {"name", "description", "inputs", "outputs", "runs"}
    assert found["runs"]["using"] == "composite"
    for step in found["runs"]["steps"]:
        assert set(step) <= STEP_KEYS
        assert ("run" in step) != ("uses" in step)
        assert ("run" in step) == ("shell" in step)
    for about in found["inputs"].values():
        assert set(about) <= {"description", "default", "required"}
        assert isinstance(about["default"], str)


def test_what_the_action_uses_exists() -> None:
    found = action()
    steps = {step["id"] for step in found["runs"]["steps"] if "id" in step}
    outputs = {
        f"{step['id']}.{name}"
        for step in found["runs"]["steps"]
        if "id" in step
        for name in re.findall(r'echo "(\w+)=.*>> "\$GITHUB_OUTPUT"', step["run"])
    }
    used = " ".join([*expressions(found), *(s["if"] for s in found["runs"]["steps"] if "if" in s)])
    assert set(re.findall(r"inputs\.(\w+)", used)) == set(found["inputs"])
    assert {f"{a}.{b}" for a, b in re.findall(r"steps\.(\w+)\.outputs\.(\w+)", used)} == outputs
    assert set(re.findall(r"steps\.(\w+)", used)) == steps


def test_no_text_of_strangers_becomes_a_script() -> None:
    """An expression inside ``run`` is put into the script before the shell reads it."""
    assert not [step["run"] for step in action()["runs"]["steps"] if "${{" in step.get("run", "")]
    for job in template()[1].values():
        assert "$[[" not in "\n".join(job["script"])


def test_no_pattern_goes_up() -> None:
    """Actions that take patterns refuse ``..`` in them."""
    for step in action()["runs"]["steps"]:
        assert ".." not in step.get("with", {}).get("path", "")


@pytest.mark.parametrize(("text", "own"), [*scripts()])
def test_a_script_parses_and_knows_its_variables(text: str, own: frozenset[str]) -> None:
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    used = set(re.findall(r"\$\{?([A-Z][A-Z0-9_]+)", text))
    made = set(re.findall(r"\b([A-Z][A-Z0-9_]+)=", text))
    assert used <= own | made | GIVEN


def test_the_exit_code_of_the_script_is_the_jobs() -> None:
    steps = action()["runs"]["steps"]
    (judge,) = (step for step in steps if step.get("id") == "judge")
    *before, last = judge["run"].splitlines()
    ran = "\n".join(["FOLDER=. SCRIPT=x GITHUB_OUTPUT=out", "bash() { return 3; }", *before])
    done = subprocess.run(
        ["bash", "-e", "-c", f"{ran}\n{last.replace('>>', '#')}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "code=3\n"
    assert steps[-1]["run"] == 'exit "$CODE"'
    assert steps[-1]["env"] == {"CODE": "${{ steps.judge.outputs.code }}"}


def test_the_template_uses_its_inputs_and_no_other() -> None:
    inputs, body = template()
    used = set(re.findall(r"\$\[\[ inputs\.(\w+) \]\]", yaml.safe_dump(body, width=10_000)))
    assert used == set(inputs)
    (job,) = body.values()
    assert set(job) == {
        "stage", "image", "variables", "cache", "script", "artifacts",
    }  # fmt: skip
    assert job["artifacts"]["when"] == "always"


def test_what_is_kept_is_enough_to_compare_with() -> None:
    uploads = [s for s in action()["runs"]["steps"] if "upload-artifact" in s.get("uses", "")]
    github = uploads[0]["with"]["path"].split()
    (job,) = template()[1].values()
    kept = [
        {path.partition("/out/")[2] for path in paths if "/out/" in path}
        for paths in (github, job["artifacts"]["paths"])
    ]
    assert kept[0] == kept[1]
    for paths in (github, job["artifacts"]["paths"]):
        endings = {path.rpartition(".")[2] for path in paths}
        for name in (DECISION, FILE, COMMENT, QUALITY, "junit.xml", "index.html"):
            assert name.rpartition(".")[2] in endings
    reports = job["artifacts"]["reports"]
    assert reports["junit"].endswith("/out/junit.xml")
    assert reports["codequality"].endswith(f"/out/{QUALITY}")
