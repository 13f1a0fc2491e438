"""``harness init`` and ``harness ci``: a project that passes, and a regression that turns red."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from harness.cli import application, oneshot
from harness.core.gate import Verdict
from harness.pipeline.ci import check
from harness.pipeline.params import read
from harness.policy.load import load_policy
from harness.report.ci import CiResult, notes, to_markdown
from tests.source import ROOT
from tests.test_ci_kit import action

pytestmark = pytest.mark.slow
LOST = "q-rename-board"
NOBODY = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a"}


class Done(NamedTuple):
    """What a script gave back."""

    code: int
    said: str
    out: Path


class Story(NamedTuple):
    """A project that passed on main, and a branch that it did not pass on."""

    folder: Path
    files: str
    green: Done
    red: Done


def script(folder: Path, **more: str) -> Done:
    """Run the project's own script; its environment has nothing of this build server's."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "CI"))}
    env = {**kept, "HARNESS": f"{sys.executable} -m harness", "PYTHONPATH": str(ROOT), **more}
    done = subprocess.run([folder / "ci.sh"], env=env, capture_output=True, text=True, check=False)
    return Done(done.returncode, done.stdout + done.stderr, folder / "out")


def git(folder: Path, *words: str) -> str:
    env: Mapping[str, str] = {**os.environ, **NOBODY, "GIT_COMMITTER_EMAIL": "a@b"}
    done = subprocess.run(
        ["git", *words], cwd=folder, env=env, check=True, capture_output=True, text=True
    )
    return done.stdout


def kept(done: Done, to: Path) -> Done:
    """Keep what a script left, as a build server does."""
    return done._replace(out=shutil.copytree(done.out, to))


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Let a project pass on main, and forget a word's case on a branch."""
    root = tmp_path_factory.mktemp("story")
    folder = root / "search"
    words = ["init", str(folder), "--control", "fts5", "--github", "a/b@v1"]
    made = CliRunner().invoke(application(), words)
    assert made.exit_code == 0, made.output
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "begin")
    green = kept(script(folder), root / "green")
    git(folder, "checkout", "-qb", "faster")
    engine = folder / "engine.py"
    engine.write_text(engine.read_text().replace("text.lower()", "text"))
    git(folder, "commit", "-qam", "faster")
    red = script(folder, **of_main(green), GITHUB_STEP_SUMMARY=str(root / "summary.md"))
    return Story(folder, git(folder, "ls-files"), green, kept(red, root / "red"))


def of_main(green: Done) -> dict[str, str]:
    """Give what a build server sets where it has the answer of main."""
    return {"BASELINE": str(green.out), "GITHUB_ACTIONS": "true"}


def checked(now: Path, then: Path | None, story: Story) -> CiResult:
    """Check a run by the project's own policy."""
    policy = load_policy(story.folder / "policy" / "regress.toml")
    return check(now, then, None, policy=policy, params=read(story.folder / "params.yaml").compare)


def test_a_new_project_passes_its_own_script(story: Story) -> None:
    assert story.green.code == 0, story.green.said
    assert "engine     PROMOTE  fts5 -> engine" in story.green.said
    comment = (story.green.out / "ci.md").read_text()
    assert "| engine | fts5 → engine | PROMOTE | 3 of 3 gates pass |" in comment
    assert "A baseline is missing: this run becomes one where it is kept." in comment
    assert "Queries that lost" not in comment
    assert comment.startswith("<!-- search-harness out -->\n## Search: data\n")


def test_what_is_generated_is_not_committed(story: Story) -> None:
    assert "data/queries.jsonl" in story.files
    assert ".github/workflows/search.yml" in story.files
    assert "out/" not in story.files
    assert "__pycache__" not in story.files


def test_a_planted_regression_turns_it_red(story: Story) -> None:
    assert story.red.code == 1, story.red.said
    comment = (story.red.out / "ci.md").read_text()
    assert "## Search: WORSE than the baseline (data)" in comment
    assert "| engine | nDCG@10 | 1.000 | 0.4942 |" in comment
    assert "- FAIL engine, Quality of the first ten" in comment
    assert "- FAIL engine, Queries that collapse: 150 of 240 queries lost over 50%" in comment
    assert "- code: engine.py\n- index of engine: code of the engine" in comment
    assert f"| {LOST} | 2 | How do I rename a board? | 1.000 | 0.3155 |" in comment
    worst, *every = comment.split("### All ")
    assert len(every) == 2
    assert worst.count("| q-") == 10, "the five worst of each comparison"
    assert "| engine | fts5 → engine | HOLD | 1 of 3 gates pass |" in comment
    assert (story.folder.parent / "summary.md").read_text() == comment


@pytest.mark.whole("test_a_new_project_passes_its_own_script")
def test_taken_back_it_is_green_again(story: Story, tmp_path: Path) -> None:
    folder = shutil.copytree(story.folder, tmp_path / "search")
    git(folder, "revert", "--no-edit", "HEAD")
    assert git(folder, "diff", "main") == ""
    mended = script(folder, **of_main(story.green))
    assert mended.code == 0, mended.said
    comment = (mended.out / "ci.md").read_text()
    assert "## Search: no worse than the baseline (data)" in comment
    assert "The answers are the same, hit for hit." in comment
    assert "Changed since" not in comment
    assert "Queries that lost" not in comment
    assert "::" not in mended.said
    assert json.loads((mended.out / "gl-code-quality-report.json").read_text()) == []
    assert comment.splitlines()[0] == (story.green.out / "ci.md").read_text().splitlines()[0]


def test_the_baseline_is_reached_where_a_step_is_open(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that nothing decides ended the script before main was ever looked at."""
    out = shutil.copytree(story.red.out, tmp_path / "out")
    path = out / "decision.json"
    decided = json.loads(path.read_text())
    for finding in decided["datasets"][0]["steps"][0]["findings"]:
        finding |= {"verdict": "inconclusive", "cause": "interval_holds_bound", "settle": "more"}
    decided["datasets"][0]["steps"][0] |= {"verdict": "inconclusive", "outcome": "hold"}
    path.write_text(json.dumps(decided))
    monkeypatch.chdir(story.folder)
    words = ["ci", "--from", str(out), "--inconclusive"]
    for more, code in (
        (["warn"], 0),
        (["fail"], 3),
        (["warn", "--baseline", str(story.green.out)], 1),
        (["warn", "--baseline", str(story.red.out)], 0),
    ):
        done = CliRunner().invoke(application(), [*words, *more])
        assert done.exit_code == code, (more, done.output)
    assert "hit for hit" in done.output


def test_machines_read_the_verdict(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(story.folder)
    words = ["ci", "--from", "out", "--baseline", str(story.green.out), "--json"]
    done = CliRunner().invoke(application(), words)
    assert done.exit_code == 1
    assert "WORSE than the baseline" in json.dumps(json.loads(done.stdout))


def test_the_report_is_linked_where_a_server_keeps_it(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = shutil.copytree(story.red.out, tmp_path / "out")
    monkeypatch.chdir(story.folder)
    server = {"GITHUB_SERVER_URL": "https://g", "GITHUB_REPOSITORY": "a/b", "GITHUB_RUN_ID": "7"}
    for more, env, link in (
        ([], server, "(https://g/a/b/actions/runs/7#artifacts)"),
        ([], {"CI_JOB_URL": "https://l/j/3"}, "(https://l/j/3/artifacts/browse)"),
        (["--report", "https://r/x"], server, "(https://r/x)"),
    ):
        with monkeypatch.context() as here:
            for name, value in env.items():
                here.setenv(name, value)
            done = CliRunner().invoke(application(), ["ci", "--from", str(out), *more])
        assert done.exit_code == 1, done.output
        assert link in (out / "ci.md").read_text()


def test_each_comment_is_found_again_by_its_first_line(story: Story) -> None:
    runs = story.green, story.red
    assert len({(run.out / "ci.md").read_text().splitlines()[0] for run in runs}) == 1


def artifact(ran: Done, to: Path) -> Path:
    """Keep of a run what the action keeps, and no more."""
    (upload,) = [s for s in action()["runs"]["steps"] if "upload-artifact" in s.get("uses", "")]
    for pattern in upload["with"]["path"].splitlines():
        for path in ran.out.glob(pattern.partition("/out/")[2]):
            file = to / path.relative_to(ran.out)
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, file)
    return to


def test_what_the_action_keeps_is_a_baseline(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = artifact(story.green, tmp_path / "before")
    monkeypatch.chdir(story.folder)
    for ran, code in ((story.green, 0), (story.red, 1)):
        words = ["regress", "--baseline", str(before), "--from", str(ran.out)]
        said = CliRunner().invoke(application(), words)
        assert said.exit_code == code, said.output
    assert "WORSE" in said.output
    with_before = checked(story.red.out, before, story)
    assert with_before == checked(story.red.out, story.green.out, story)


def test_gates_are_cases_that_servers_read(story: Story) -> None:
    failures = []
    for run in (story.green, story.red):
        root = ET.fromstring((run.out / "junit.xml").read_text())  # noqa: S314  just written
        assert len([*root.iter("testcase")]) == 3
        failures.append([
            case.get("name") for case in root.iter("testcase") if case.findall("failure")
        ])
    green, red = failures
    assert green == []
    assert red == ["Quality of the first ten", "First relevant hit"]


def test_lines_of_lost_queries_are_noted(story: Story) -> None:
    said = [line for line in story.red.said.splitlines() if line.startswith("::")]
    assert len(said) == 10
    assert said[0].startswith("::error file=data/queries.jsonl,line=2,title=engine loses nDCG@10")
    assert LOST in said[0]
    assert {line.split()[0] for line in said} == {"::error"}, "gates fail on both comparisons"
    lines = (story.folder / "data" / "queries.jsonl").read_text().splitlines()
    report = json.loads((story.red.out / "gl-code-quality-report.json").read_text())
    assert len(report) == 10
    for row in report:
        asked = json.loads(lines[row["location"]["lines"]["begin"] - 1])
        assert asked["_id"] in row["description"]
    assert len({row["fingerprint"] for row in report}) == 10


def test_away_from_github_nothing_is_noted(story: Story) -> None:
    assert "::" not in story.green.said


def test_a_summary_that_is_no_file_is_refused_before_a_word(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "pipe"))
    done = CliRunner().invoke(application(), ["ci", "--from", str(story.red.out), "--github"])
    assert done.exit_code == 2
    assert "is not a file" in done.output
    assert "::" not in done.output


def test_a_decision_of_another_run_is_refused(story: Story, tmp_path: Path) -> None:
    out = shutil.copytree(story.red.out, tmp_path / "out")
    (out / "decision.json").write_bytes((story.green.out / "decision.json").read_bytes())
    said = CliRunner().invoke(application(), ["ci", "--from", str(out)])
    assert "decision.json: is not of the run beside it" in said.output


def test_values_that_were_changed_are_refused(story: Story, tmp_path: Path) -> None:
    out = shutil.copytree(story.red.out, tmp_path / "out")
    scores = "work/build/data/scores/per_query.parquet"
    (out / scores).write_bytes((story.green.out / scores).read_bytes())
    said = CliRunner().invoke(application(), ["ci", "--from", str(out)])
    assert (said.exit_code, "per_query.parquet" in said.output) == (2, True), said.output


def test_a_folder_without_a_run_is_bad_input(tmp_path: Path) -> None:
    said = CliRunner().invoke(application(), ["ci", "--from", str(tmp_path)])
    assert "holds the evidence of none" in said.output


def test_queries_of_another_file_are_refused(story: Story, tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"_id": "x", "text": "y"}\n')
    words = ["ci", "--from", str(story.red.out), "--queries", str(tmp_path / "q.jsonl")]
    said = CliRunner().invoke(application(), words)
    assert "it lacks 240 queries of the run, for example q-archive-board" in said.output


def test_a_baseline_of_other_data_is_not_compared(story: Story, tmp_path: Path) -> None:
    then = shutil.copytree(story.green.out, tmp_path / "then")
    path = then / "work" / "build" / "data" / "data" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "qrels_sha256": "0" * 64}))
    found = checked(story.red.out, then, story)
    said = to_markdown(found, 3)
    assert "## Search: not sure whether it is worse than the baseline" in said
    assert "has other judgements" in said
    assert "engine before" not in said
    assert found.against
    assert found.against.verdict is Verdict.INCONCLUSIVE


def test_a_baseline_without_a_record_says_so(story: Story, tmp_path: Path) -> None:
    then = shutil.copytree(story.green.out, tmp_path / "then")
    (then / "inputs.json").unlink()
    found = checked(story.red.out, then, story)
    assert found.against
    assert found.against.changed == ("index of engine: code of the engine",)
    assert found.against.recorded.startswith("indexes alone")


def test_a_comment_is_small_whatever_the_texts_hold(story: Story) -> None:
    found = checked(story.red.out, story.green.out, story)
    assert len(to_markdown(found, 10)) < 30_000
    assert {note.file for note in notes(found, 10)} == {""}


def test_what_breaks_leaves_no_old_answer(story: Story, tmp_path: Path) -> None:
    folder = shutil.copytree(story.folder, tmp_path / "search")
    (folder / "data" / "queries.jsonl").write_text("{")
    broken = script(folder)
    assert broken.code == 2
    assert "queries.jsonl:1: it is not JSON" in broken.said
    kept = {path.name for path in broken.out.iterdir()}
    assert not kept & {"ci.md", "decision.json", "junit.xml", "gl-code-quality-report.json"}


def answered(
    monkeypatch: pytest.MonkeyPatch, words: list[str], answers: str, *, there: bool
) -> str:
    monkeypatch.setattr(oneshot, "on_terminal", lambda: there)
    return CliRunner().invoke(application(), ["init", *words], input=answers).output


def test_a_terminal_is_asked_what_no_option_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mine"
    said = answered(monkeypatch, [str(folder), "--github", ""], "a/b@v2\n", there=True)
    assert "The harness on GitLab" in said
    assert "GitHub" not in said
    assert 'project: "a/b"' in (folder / ".gitlab-ci.yml").read_text()


def test_nobody_is_asked_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = answered(monkeypatch, [str(tmp_path / "mine")], "", there=False)
    assert ":" not in said.replace("Next:", "")
    assert "--control" not in (tmp_path / "mine" / "ci.sh").read_text()


def test_an_arm_that_is_none_leaves_nothing(tmp_path: Path) -> None:
    words = ["init", str(tmp_path / "mine"), "--control", "lucene"]
    said = CliRunner().invoke(application(), words)
    assert "no arm named 'lucene'; there is" in said.output
    assert not (tmp_path / "mine").exists()
