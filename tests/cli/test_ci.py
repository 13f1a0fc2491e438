"""``harness init`` and ``harness ci``: a project that passes, and a regression that turns red."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from harness.cli import application
from harness.core.gate import Verdict
from harness.pipeline.params import read
from harness.pipeline.regress import check
from harness.policy.load import load_policy
from harness.report.ci import to_markdown
from tests.source import ROOT

pytestmark = pytest.mark.slow
LOST = "q-rename-board"


class Done(NamedTuple):
    """What a script gave back."""

    code: int
    said: str
    out: Path


class Story(NamedTuple):
    """A project that passed on main, and a branch that it did not pass on."""

    folder: Path
    green: Done
    red: Done


def script(folder: Path, **more: str) -> Done:
    """Run the project's own script; its environment has nothing of this build server's."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "CI"))}
    env = {**kept, "HARNESS": f"{sys.executable} -m harness", "PYTHONPATH": str(ROOT), **more}
    done = subprocess.run([folder / "ci.sh"], env=env, capture_output=True, text=True, check=False)
    return Done(done.returncode, done.stdout + done.stderr, folder / "out")


def kept(done: Done, to: Path) -> Done:
    """Keep what a script left, as a build server does."""
    return done._replace(out=shutil.copytree(done.out, to))


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Make a project pass on main, and forget a word's case on a branch."""
    root = tmp_path_factory.mktemp("story")
    folder = root / "search"
    words = ["init", str(folder), "--control", "fts5", "--github", "a/b@v1"]
    made = CliRunner().invoke(application(), words)
    assert made.exit_code == 0, made.output
    green = kept(script(folder), root / "green")
    engine = folder / "engine.py"
    engine.write_text(engine.read_text().replace("text.lower()", "text"))
    of_main = {"BASELINE": str(green.out), "GITHUB_ACTIONS": "true"}
    red = script(folder, **of_main, GITHUB_STEP_SUMMARY=str(root / "summary.md"))
    return Story(folder, green, kept(red, root / "red"))


def test_a_new_project_passes_its_own_script(story: Story) -> None:
    assert story.green.code == 0, story.green.said
    assert "engine     PROMOTE  fts5 -> engine" in story.green.said
    comment = (story.green.out / "ci.md").read_text()
    assert "| engine | fts5 → engine | PROMOTE | 3 of 3 gates pass |" in comment
    assert "A baseline is missing: this run becomes one where it is kept." in comment
    assert "Queries that lost" not in comment
    assert comment.startswith("<!-- search-harness out -->\n## Search: data\n")


def test_a_planted_regression_turns_it_red(story: Story) -> None:
    assert story.red.code == 1, story.red.said
    comment = (story.red.out / "ci.md").read_text()
    assert "## Search: WORSE than the baseline (data)" in comment
    assert "| engine | nDCG@10 | 1.000 | 0.4942 |" in comment
    assert "- FAIL engine, Quality of the first ten" in comment
    assert "- FAIL engine, Queries that collapse: 150 of 240 queries lost over 50%" in comment
    assert "- index of engine: code of the engine" in comment
    assert f"| {LOST} | 2 | How do I rename a board? | 1.000 | 0.3155 |" in comment
    before, *lost = comment.split("### Queries that lost")
    assert len(lost) == 2
    assert "| q-" not in before
    assert comment.count("| q-") == 200, "a hundred of each comparison"
    assert "| engine | fts5 → engine | HOLD | 1 of 3 gates pass |" in comment
    assert (story.folder.parent / "summary.md").read_text() == comment


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


def test_a_decision_of_another_run_is_refused(story: Story, tmp_path: Path) -> None:
    out = shutil.copytree(story.red.out, tmp_path / "out")
    (out / "decision.json").write_bytes((story.green.out / "decision.json").read_bytes())
    said = CliRunner().invoke(application(), ["ci", "--from", str(out)])
    assert "decision.json: is not of the run beside it" in said.output


def test_a_baseline_of_other_data_is_not_compared(story: Story, tmp_path: Path) -> None:
    then = shutil.copytree(story.green.out, tmp_path / "then")
    path = then / "work" / "build" / "data" / "data" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "qrels_sha256": "0" * 64}))
    policy = load_policy(story.folder / "policy" / "regress.toml")
    params = read(story.folder / "params.yaml").compare
    found = check(story.red.out, then, None, policy=policy, params=params)
    said = to_markdown(found, 3)
    assert "## Search: not sure whether it is worse than the baseline" in said
    assert "has other judgements" in said
    assert "engine before" not in said
    assert found.against
    assert found.against.verdict is Verdict.INCONCLUSIVE


def test_what_breaks_leaves_no_old_answer(story: Story, tmp_path: Path) -> None:
    folder = shutil.copytree(story.folder, tmp_path / "search")
    (folder / "data" / "queries.jsonl").write_text("{")
    broken = script(folder)
    assert broken.code == 2
    assert "queries.jsonl:1: it is not JSON" in broken.said
    kept = {path.name for path in broken.out.iterdir()}
    assert not kept & {"ci.md", "decision.json", "junit.xml", "gl-code-quality-report.json"}
