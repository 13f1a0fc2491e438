"""What others run: the kit of CI, its steps in a shell, and the files of a deployment."""

import asyncio
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import httpx
import pytest
import yaml
from typer.main import get_command

from harness.cli import application
from harness.cli.oneshot import PROJECT
from harness.pipeline.init import ACTION, SCRIPT
from harness.pipeline.regress import COMMENT, DECISION, QUALITY
from harness.shadow.http import SENT_BY_US
from tests.source import ROOT

GITHUB = ROOT / ACTION / "action.yml"
GITLAB = ROOT / "ci" / "gitlab" / "search.yml"
Json = dict[str, Any]
EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")
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


def test_what_the_action_uses_exists() -> None:
    found = action()
    steps = {step["id"] for step in found["runs"]["steps"] if "id" in step}
    outputs = {
        f"{step['id']}.{name}"
        for step in found["runs"]["steps"]
        if "id" in step
        for name in re.findall(r'echo "(\w+)=.*>> "\$GITHUB_OUTPUT"', step["run"])
    }
    conditions = [step["if"] for step in found["runs"]["steps"] if "if" in step]
    used = " ".join([*EXPRESSION.findall(GITHUB.read_text(encoding="utf-8")), *conditions])
    assert set(re.findall(r"inputs\.(\w+)", used)) == set(found["inputs"])
    assert {f"{a}.{b}" for a, b in re.findall(r"steps\.(\w+)\.outputs\.(\w+)", used)} == outputs
    assert set(re.findall(r"steps\.(\w+)", used)) == steps


@pytest.mark.parametrize(("text", "own"), [*scripts()])
def test_a_script_parses_and_knows_its_variables(text: str, own: frozenset[str]) -> None:
    """No text of strangers is in it: an expression is put there before the shell reads it."""
    assert "${{" not in text
    assert "$[[" not in text
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    used = set(re.findall(r"\$\{?([A-Z][A-Z0-9_]+)", text))
    made = set(re.findall(r"\b([A-Z][A-Z0-9_]+)=", text))
    assert used <= own | made | GIVEN


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
        for name in (DECISION, COMMENT, QUALITY, "junit.xml", "index.html"):
            assert name.rpartition(".")[2] in endings
    reports = job["artifacts"]["reports"]
    assert reports["junit"].endswith("/out/junit.xml")
    assert reports["codequality"].endswith(f"/out/{QUALITY}")


BY_DIGEST = re.compile(r"uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")
AS_GITHUB_DOES = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")
GH = """#!/usr/bin/env bash
printf '%s\\n' "$*" >> "$CALLS"
case "$*" in
  *--paginate*) printf '%s' "$OLD" ;;
  "run list"*) printf '%s' "$RUN" ;;
  "run download"*) mkdir -p "${!#}" && touch "${!#}/decision.json" ;;
esac
exit "${GH_FAILS:-0}"
"""
GIT = """#!/usr/bin/env bash
printf '%s\\n' "$*" >> "$CALLS"
"""
PIP = "-m pip install --quiet --no-compile --disable-pip-version-check"
PYTHON = """#!/usr/bin/env bash
if [ "$1 $2" = "-m pip" ]; then printf '%s\\n' "$*" >> "$CALLS"; else exec "$REAL" "$@"; fi
"""
CURL = """#!/usr/bin/env bash
printf '%s\\n' "$*" >> "$CALLS"
[ -n "$ARCHIVE" ] && cp "$ARCHIVE" before.zip
"""


class Ran(NamedTuple):
    """What a step did."""

    code: int
    said: str
    calls: str
    """Command lines that reached a stand-in."""
    output: str
    """What the step wrote for later ones."""


def ran(folder: Path, text: str, **env: str) -> Ran:
    """Run a script in ``folder``, where ``gh``, ``git``, ``curl`` and pip are stand-ins."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    for name, body in {"gh": GH, "git": GIT, "curl": CURL, "python3": PYTHON}.items():
        (tools / name).write_text(body)
        (tools / name).chmod(0o755)
    for name in ("calls", "output"):
        (folder / name).write_text("")
    given = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "CALLS": str(folder / "calls"),
        "REAL": sys.executable,
        "GITHUB_OUTPUT": str(folder / "output"),
        **dict.fromkeys(("OLD", "RUN", "ARCHIVE"), ""),
        **env,
    }
    done = subprocess.run(
        [*AS_GITHUB_DOES, text], cwd=folder, env=given, capture_output=True, text=True, check=False
    )
    said = done.stdout + done.stderr
    return Ran(
        done.returncode, said, (folder / "calls").read_text(), (folder / "output").read_text()
    )


def step(saying: str) -> str:
    """Return the script of the one step of the action that says this."""
    (found,) = [s["run"] for s in action()["runs"]["steps"] if saying in s.get("run", "")]
    return str(found)


def project(folder: Path, script: str) -> Path:
    """Put a project into ``folder`` whose ``ci.sh`` is this."""
    to = folder / "mine"
    to.mkdir(exist_ok=True)
    (to / "ci.sh").write_text(f"cd mine\n{script}\n")
    return to


@pytest.mark.parametrize(
    "path", [GITHUB, ROOT / "harness" / "pipeline" / "template" / "github.yml"]
)
def test_what_is_taken_from_others_is_pinned_by_its_digest(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    used = [line.strip(" -") for line in text.splitlines() if "uses:" in line]
    assert used
    for line in used:
        assert BY_DIGEST.fullmatch(line) or line == "uses: $action$inputs", line


def test_the_page_shows_the_workflow_that_is_made() -> None:
    """``docs/ci.md`` names the same digest, permissions and inputs as the template."""
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    (block,) = [b for b in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if ACTION in b]
    made = yaml.safe_load((GITHUB.parents[2] / "harness/pipeline/template/github.yml").read_text())
    shown = yaml.safe_load(block)
    assert shown["permissions"] == made["permissions"]
    assert shown["steps"][:2] == made["jobs"]["search"]["steps"][:2]
    assert set(shown["steps"][2]["with"]) <= set(action()["inputs"])


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_the_action_ends_as_the_script_does(tmp_path: Path, code: int) -> None:
    project(tmp_path, f'echo "$HARNESS, $BASELINE"; exit {code}')
    env = {"FOLDER": "mine", "SCRIPT": "ci.sh", "BASELINE": "/b"}
    judged = ran(tmp_path, step('bash "$FOLDER/$SCRIPT"'), **env)
    assert judged.code == 0
    assert judged.said == "python3 -m harness, /b\n"
    assert judged.output == f"code={code}\n"
    assert ran(tmp_path, step('exit "$CODE"'), CODE=str(code)).code == code


@pytest.mark.parametrize(
    ("install", "given"), [("", "/a/ci/github/../.."), ("search-harness==9", "search-harness==9")]
)
def test_the_action_installs_its_own_tag_or_what_is_named(
    tmp_path: Path, install: str, given: str
) -> None:
    done = ran(tmp_path, step("pip install"), ACTION="/a/ci/github", INSTALL=install)
    assert done.code == 0, done.said
    assert done.calls == f"{PIP} {given}\n"


@pytest.mark.parametrize(("old", "sent"), [("", "POST"), ("17", "PATCH")])
def test_a_comment_is_written_once_and_then_kept_up_to_date(
    tmp_path: Path, old: str, sent: str
) -> None:
    comment = tmp_path / "ci.md"
    comment.write_text("<!-- search-harness mine/out -->\n## Search\n")
    env = {"COMMENT": str(comment), "GITHUB_REPOSITORY": "a/b", "NUMBER": "five", "OLD": old}
    done = ran(tmp_path, step("gh api"), **env)
    looked, wrote = done.calls.splitlines()
    assert done.code == 0
    assert looked.startswith("api repos/a/b/issues/five/comments --paginate")
    place = "comments/17" if old else "five/comments"
    assert wrote == (
        f"api --method {sent} repos/a/b/issues/{place} --field body=@{comment} --silent"
    )


def test_a_comment_that_cannot_be_written_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "ci.md").write_text("<!-- x -->\n")
    env = {"COMMENT": "ci.md", "GITHUB_REPOSITORY": "a/b", "NUMBER": "five", "GH_FAILS": "1"}
    done = ran(tmp_path, step("gh api"), **env)
    assert done.code == 0
    assert "::warning::The comment could not be written" in done.said
    nothing = ran(tmp_path, step("gh api"), **(env | {"COMMENT": "absent.md"}))
    assert (nothing.code, nothing.calls) == (0, "")
    assert "::notice::The run left no comment" in nothing.said


@pytest.mark.parametrize(("run", "fails"), [("", "0"), ("8", "1"), ("8", "0")])
def test_the_base_branchs_run_is_fetched_where_there_is_one(
    tmp_path: Path, run: str, fails: str
) -> None:
    env = {"GITHUB_REPOSITORY": "a/b", "BASE": "main", "GITHUB_WORKFLOW": "search"}
    env |= {"ARTIFACT": "search", "RUNNER_TEMP": str(tmp_path / "t"), "RUN": run, "GH_FAILS": fails}
    done = ran(tmp_path, step("gh run list"), **env)
    assert done.code == 0
    found = run == "8" and fails == "0"
    assert done.output == (f"folder={tmp_path / 't'}/search-before\n" if found else "")
    assert ("::notice::No run of the base branch" in done.said) is not found
    assert "--branch main --workflow search --status success --limit 1" in done.calls


def on_gitlab(folder: Path, **env: str) -> Ran:
    """Run the template's script as one job, from the root of a repository."""
    (job,) = template()[1].values()
    given = {"CI_SERVER_PROTOCOL": "https", "CI_SERVER_HOST": "h", "CI_SERVER_PORT": "443"}
    given |= {"CI_API_V4_URL": "https://h/api", "CI_PROJECT_ID": "3", "CI_JOB_NAME": "search"}
    given |= {"CI_JOB_TOKEN": "token", "CI_PROJECT_DIR": str(folder), "FOLDER": "mine"}
    given |= {"HARNESS_PROJECT": "g/h", "HARNESS_REF": "v1", "SCRIPT": "ci.sh"}
    return ran(folder, "\n".join(job["script"]), **(given | env))


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_the_job_ends_as_the_script_does(tmp_path: Path, code: int) -> None:
    project(tmp_path, f'echo "$HARNESS, ${{BASELINE:-none}}"; exit {code}')
    done = on_gitlab(tmp_path)
    assert done.code == code
    assert "python3 -m harness, none" in done.said
    assert f"{PIP} ./.harness\n" in done.calls
    assert "fetch -q --depth 1 https://gitlab-ci-token:token@h:443/g/h.git v1" in done.calls
    assert "/jobs/artifacts/" not in done.calls


def test_the_target_branchs_run_is_the_baseline(tmp_path: Path) -> None:
    before = project(tmp_path, 'echo "before: $BASELINE"') / "out"
    before.mkdir()
    (before / "decision.json").write_text("{}")
    archive = tmp_path / "kept.zip"
    words = ["python3", "-m", "zipfile", "-c", str(archive), "mine"]
    subprocess.run(words, cwd=tmp_path, check=True)
    branch = {"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "a/b"}
    done = on_gitlab(tmp_path, **branch, ARCHIVE=str(archive))
    assert done.code == 0
    assert f"before: {tmp_path}/.before/mine/out" in done.said
    assert "No run of the target branch" not in done.said
    assert "projects/3/jobs/artifacts/a%2Fb/download?job=search" in done.calls


def test_the_hook_runs_the_script_that_is_made() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert hook["entry"] == f"bash {PROJECT}/{SCRIPT}"
    assert (hook["language"], hook["pass_filenames"]) == ("python", False)


DEPLOY, RECEIVER = ROOT / "deploy", ":9400"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
PARTS = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
CONTAINERFILE = (DEPLOY / "Containerfile").read_text()
VERDICTS_AND_FAILURE = [1, 2, 3]


def kind(name: str) -> list[Any]:
    return [part for part in PARTS if part["kind"] == name]


def pods() -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Return each pod's labels and its specification."""
    for part in kind("Deployment") + kind("Job"):
        template = part["spec"]["template"]
        yield template["metadata"]["labels"], template["spec"]


def harness_words() -> Iterator[tuple[list[str], dict[str, str]]]:
    """Return what the harness is started with, and how options end that it is given."""
    (job,) = kind("Job")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["harness"]
    judged = {"dataset": "/data/collection", "cluster": "scheduler:8786"}
    yield COMPOSE["services"]["harness"]["command"], judged
    yield container["args"], judged
    shadow = yaml.safe_load((DEPLOY / "shadow" / "compose.yaml").read_text())
    yield shadow["services"]["receiver"]["command"], {"port": RECEIVER[1:], "control": ":9200"}


@pytest.mark.parametrize(("words", "given"), [*harness_words()])
def test_what_is_started_is_a_command_of_the_harness(
    words: list[str], given: Mapping[str, str]
) -> None:
    command: Any = get_command(application())
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
    found = command.make_context(name, words).params
    assert [key for key, end in given.items() if not str(found[key]).endswith(end)] == []


def test_nothing_runs_as_root_or_writes_into_the_image() -> None:
    user = re.findall(r"^USER (\d+)$", CONTAINERFILE, re.MULTILINE)
    assert user == ["10001"]
    for _, pod in pods():
        assert pod["securityContext"]["runAsNonRoot"]
        assert str(pod["securityContext"]["runAsUser"]) in user
        assert not pod["automountServiceAccountToken"]
        for one in pod["containers"]:
            assert one["securityContext"]["readOnlyRootFilesystem"]
            assert not one["securityContext"]["allowPrivilegeEscalation"]
    for service in COMPOSE["services"].values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]


def test_a_verdict_is_not_tried_again() -> None:
    (job,) = kind("Job")
    (rule,) = job["spec"]["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob"
    assert rule["onExitCodes"]["values"] == VERDICTS_AND_FAILURE
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"


@pytest.fixture
def middleware() -> ModuleType:
    spec = importlib.util.spec_from_file_location("middleware", DEPLOY / "shadow" / "middleware.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


async def answers(scope: Any, receive: Callable[[], Awaitable[Any]], send: Any) -> None:  # noqa: ANN401
    """Answer a request with its own body."""
    del scope
    body = (await receive()).get("body", b"")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


@pytest.mark.parametrize("receiver", ["serves", "fails"])
def test_the_middleware_sends_copies_and_changes_no_answer(
    middleware: ModuleType, receiver: str
) -> None:
    copies: list[httpx.Request] = []

    def take(request: httpx.Request) -> httpx.Response:
        if receiver == "fails":
            raise httpx.ConnectError("absent")
        copies.append(request)
        return httpx.Response(204)

    async def run() -> list[bytes]:
        mirror = middleware.Mirror(answers, to=f"http://127.0.0.1{RECEIVER}", paths={"/search"})
        mirror.client = httpx.AsyncClient(transport=httpx.MockTransport(take))
        got = []
        transport = httpx.ASGITransport(mirror)
        async with httpx.AsyncClient(transport=transport, base_url="http://site.test") as client:
            for path, headers in (
                ("/search?q=a%20b", {"Authorization": "secret"}),
                ("/other", {}),
                ("/search", {SENT_BY_US: "1"}),
            ):
                answer = await client.post(path, content=b"body", headers=headers)
                got.append(answer.content)
        await asyncio.gather(*mirror.waiting)
        return got

    assert asyncio.run(run()) == [b"body"] * 3
    if receiver == "serves":
        (copy,) = copies
        assert (copy.url.raw_path, copy.content) == (b"/search?q=a%20b", b"body")
        assert "authorization" not in copy.headers
        assert copy.headers["x-real-ip"]
