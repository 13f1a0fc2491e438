"""The log of experiments, the history of decisions, and releases compared."""

import hashlib
import json
import shutil
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from harness.core.errors import BadFile, EvidenceError, HarnessError
from harness.core.gate import Verdict
from harness.core.names import Experiment, Kind
from harness.core.records import Query
from harness.corpus.runs import read_run, write_run
from harness.pipeline import experiments
from harness.pipeline.experiments import FIRST, keep, read, shared, stock
from harness.pipeline.gate import decide_again
from harness.pipeline.layout import Layout
from harness.pipeline.receipts import note_replayed, note_run
from harness.pipeline.regress import CACHE, TIMED, lost, of_folder, of_revision, regress
from harness.policy.load import load_policy
from harness.report import trends
from harness.report.ci import Against
from tests.cli.conftest import Harness, harness
from tests.make.runs import scores_of
from tests.make.toy import CANDIDATE, CONTROL, GOOD, HEAD, NAME, STEP, Toy

__all__ = ["harness"]
pytestmark = pytest.mark.slow


def test_a_race_and_a_decision_are_a_line_each(project: Toy) -> None:
    begun, race = read(project.layout).experiments
    assert (begun.kind, begun.number, begun.previous) == ("race begun", 1, FIRST)
    assert (race.kind, race.number, race.decision) == ("race", 2, None)
    assert race.inputs.runs.keys() == {CONTROL, CANDIDATE}
    project.decide()
    log = read(project.layout)
    *_, gate = log.experiments
    assert (gate.kind, gate.number) == ("gate", 3)
    assert gate.previous == log.until(3).head
    assert gate.inputs.times == race.inputs.times
    assert gate.inputs.runs == race.inputs.runs
    (said,) = json.loads(project.layout.decision.read_text())["summary"]["steps"]
    assert [(one.step, one.outcome) for one in gate.steps] == [("tantivy", said["outcome"])]
    assert gate.inputs.seeds == {"policy": 5, "race": 5}


def test_what_was_judged_on_is_kept_once(project: Toy) -> None:
    project.decide()
    project.decide(later_s=1)
    log = read(project.layout)
    assert len(list(project.layout.experiments.glob("inventory-*.json"))) == 1
    assert log.inventory_of(log.experiments[-1]) == stock(project.layout)
    kept = next(project.layout.experiments.glob("inventory-*.json"))
    kept.write_text(kept.read_text().replace('"q00":"', '"q0x":"', 1))
    assert log.inventory_of(log.experiments[-1]) is None
    kept.write_text("{")
    with pytest.raises(BadFile, match="not an inventory"):
        log.inventory_of(log.experiments[-1])


def test_judging_by_another_policy_is_noted_and_leaves_no_decision(project: Toy) -> None:
    project.decide()
    policy, file = project.project.policy(), project.project.policy_file
    decide_again(project.layout, policy, file, control="", now=datetime.now(UTC))
    *_, gate, other = read(project.layout).experiments
    assert (other.kind, other.decision) == ("decide", None)
    assert other.steps == gate.steps


def add(layout: Layout, first: Experiment, kind: Kind = "race") -> None:
    """Add a race to the log, as a run into a folder of its own does."""
    with experiments.writing(layout):
        experiments.add(layout, kind, first.at, inputs=first.inputs, inventory=stock(layout))


def test_what_was_kept_is_how_a_log_begins(project: Toy, tmp_path: Path) -> None:
    kept = tmp_path / "kept" / "toy.jsonl"
    project.decide()
    layout = replace(project.layout, kept_log=kept)
    assert keep(layout, kept) == 3
    path = layout.log
    path.unlink()
    assert len(read(layout).lines) == 3
    add(layout, read(layout).experiments[0])
    assert [one.number for one in read(layout).experiments] == [1, 2, 3, 4]
    assert keep(layout, kept) == 4
    path.write_text(path.read_text().splitlines()[0] + "\n")
    with pytest.raises(BadFile, match=r"has 1 experiments, and .* kept 4, which it does not"):
        read(layout)
    with pytest.raises(BadFile, match="kept 4"):
        keep(project.layout, kept)


def test_runs_into_fresh_folders_go_on_with_the_log_of_the_data(
    project: Toy, tmp_path: Path
) -> None:
    first, log = read(project.layout).experiments[0], tmp_path / "toy.looks.jsonl"
    one, two, three = (
        shared(replace(project.layout, today=tmp_path / name), log) for name in ("1", "2", "3")
    )
    for layout, lines in ((one, 1), (two, 2), (one, 3)):
        add(layout, first)
        assert len(read(layout).lines) == lines
    assert log.read_text() == one.log.read_text()
    assert len(read(two).lines) == 2, "what a run has is what its decision was made with"
    log.unlink()
    add(one, first)
    assert len(log.read_text().splitlines()) == 4
    log.unlink()
    add(three, first, "load")
    with pytest.raises(BadFile, match=r"does not go on from .*toy\.looks\.jsonl"):
        add(two, first)


def test_what_cannot_be_logged_is_not_judged(project: Toy) -> None:
    shutil.rmtree(project.layout.experiments)
    project.layout.experiments.write_text("a file")
    with pytest.raises(HarnessError, match="what is not logged is not judged"):
        project.decide()


def test_a_decision_is_added_once_and_shown(project: Toy, harness: Harness) -> None:
    project.decide()
    assert harness("history", "add").out == "toy: added, 3 experiments\n"
    assert harness("history", "add", "--dataset", NAME).out == "toy: known already, 3 experiments\n"
    (found,) = trends.read(project.root / "history" / "toy.jsonl")
    assert set(found.means) == {"fts5", "tantivy", "hash-hybrid"}
    assert set(found.steps[0].ratios) == {"p50", "p95", "mean"}
    assert found.commit == ""
    said = harness("history", "page")
    assert said.code == 0
    page = project.root / "reports" / "trends.html"
    assert said.out == f"1 decisions: {page}\n"
    assert "hash-hybrid" in page.read_text()
    project.decide(later_s=2)
    assert harness("history", "add").out == "toy: added, 4 experiments\n"
    assert "2 decisions" in harness("history", "page").out


def test_what_does_not_verify_is_not_kept(project: Toy, harness: Harness) -> None:
    assert "nothing was decided yet" in harness("history", "add").error
    project.decide()
    path = project.layout.scores
    path.write_text(path.read_text() + " ")
    assert "scores.json: was changed since" in harness("history", "add").error
    assert not (project.root / "history").exists()
    assert "holds no history" in harness("history", "page").error


LOST = 16


@pytest.fixture(scope="module")
def then(measured: Toy, tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Keep the release before, as it was measured and decided."""
    made = measured.copied(tmp_path_factory.mktemp("then") / "project")
    made.decide()
    return made


def policy_of(now: Toy) -> Path:
    """Write a policy by which releases are compared."""
    file = now.root / "policy" / "regress.toml"
    file.write_text(HEAD + STEP + GOOD)
    return file


def judged(now: Toy, before: Layout, arms: tuple[str, ...] = ()) -> Against:
    policy = load_policy(policy_of(now))
    return regress(now.layout, before, policy, now.params.compare, arms=arms)


def spoil(project: Toy, arm: str, lost: int) -> None:
    """Make an arm find nothing for its first queries."""
    for path in (project.layout.run(arm), project.layout.again(arm)):
        run = read_run(path)
        rows = [row._replace(hits=()) if at < lost else row for at, row in enumerate(run.rows())]
        write_run(type(run).of(run.arm, rows), path)
    note_run(project.layout, arm)
    note_replayed(project.layout, arm, datetime.now(UTC))
    project.judge_again()


def test_nothing_changed_is_no_worse_hit_for_hit(then: Toy, project: Toy) -> None:
    regression = judged(project, then.layout)
    assert {one.verdict for one in regression.decisions} == {Verdict.PASS}
    assert regression.same == {"fts5", "tantivy", "hash-hybrid"}
    assert [one.losses for one in regression.held] == [(), (), ()]
    assert (regression.gone, regression.new, regression.verdict) == ((), (), Verdict.PASS)
    assert {row.difference.value for row in regression.moved} == {0.0}
    assert [one.step for one in judged(project, then.layout, ("tantivy",)).decisions] == ["tantivy"]


def test_a_policy_of_two_steps_is_refused_without_an_option_of_others(
    then: Toy, project: Toy
) -> None:
    policy = load_policy(policy_of(project))
    two = replace(policy, steps=policy.steps * 2)
    with pytest.raises(EvidenceError, match=r"own arms\. Name a policy with one step"):
        regress(project.layout, then.layout, two, project.params.compare, arms=())


def test_an_arm_that_lost_answers_fails_and_its_queries_are_named(then: Toy, project: Toy) -> None:
    spoil(project, "tantivy", LOST)
    project.untimed()
    project.decide()
    regression = judged(project, then.layout)
    verdicts = {one.step: one.verdict for one in regression.decisions}
    assert verdicts == {
        "fts5": Verdict.PASS, "tantivy": Verdict.FAIL, "hash-hybrid": Verdict.PASS,
    }  # fmt: skip
    assert regression.same == {"fts5", "hash-hybrid"}
    worse = {one.arm: one.losses for one in regression.held if one.losses}
    assert list(worse) == ["tantivy"]
    assert {one.query_id for one in worse["tantivy"]} == {f"q{n:02}" for n in range(LOST)}
    assert all(one.now == 0 < one.before for one in worse["tantivy"])
    losses = [one.by for one in worse["tantivy"]]
    assert losses == sorted(losses)
    (row,) = [m for m in regression.moved if (m.arm, m.measure) == ("tantivy", "nDCG@10")]
    assert row.difference.high < -0.02
    assert row.now - row.then == pytest.approx(row.difference.value)
    assert regression.verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("key", "what"), [("corpus", "documents"), ("queries", "queries"), ("qrels", "judgements")]
)
def test_evidence_on_other_data_is_refused(then: Toy, project: Toy, key: str, what: str) -> None:
    path = project.layout.data / "manifest.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps({**about, f"{key}_sha256": "0" * 64}))
    with pytest.raises(EvidenceError, match=f"has other {what}"):
        judged(project, then.layout)


def test_a_file_of_the_baseline_that_was_changed_is_refused(then: Toy, project: Toy) -> None:
    copy = then.copied(project.root.parent / "changed")
    path = copy.layout.run("fts5")
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(EvidenceError, match=r"fts5\.parquet: was changed"):
        judged(project, copy.layout)


def test_a_folder_may_be_a_project_its_build_or_what_a_run_left(then: Toy, tmp_path: Path) -> None:
    for folder in (then.root, then.root / "build"):
        assert of_folder(folder, NAME).data == then.layout.data
    (tmp_path / "work").symlink_to(then.root)
    assert of_folder(tmp_path, NAME).per_query.is_file()
    with pytest.raises(BadFile, match="holds no evidence of toy"):
        of_folder(tmp_path / "work" / "policy", NAME)


def git(root: Path, *words: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)


@pytest.fixture
def recorded(then: Toy, tmp_path: Path) -> Toy:
    """Record the release before in a ``dvc.lock`` that is committed, its files in the cache."""
    made = then.copied(tmp_path / "recorded")

    def cached(data: bytes, mark: str = "") -> str:
        md5 = hashlib.md5(data, usedforsecurity=False).hexdigest() + mark
        to = made.root / CACHE / md5[:2] / md5[2:]
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(data)
        return md5

    outs = [{"path": f"build/{NAME}/{name}", "md5": "0" * 32} for name in TIMED]
    for entry in sorted(made.layout.root.iterdir()):
        name = entry.relative_to(made.root).as_posix()
        if entry.name in TIMED:
            continue
        if entry.is_file():
            outs.append({"path": name, "md5": cached(entry.read_bytes())})
            continue
        rows = [
            {"md5": cached(file.read_bytes()), "relpath": file.relative_to(entry).as_posix()}
            for file in sorted(entry.rglob("*"))
            if file.is_file()
        ]
        outs.append({"path": name, "md5": cached(json.dumps(rows).encode(), ".dir")})
    lock = made.root / "dvc.lock"
    lock.write_text(yaml.safe_dump({"stages": {"all": {"outs": outs}}}))
    for words in (
        ("init", "-q"),
        ("add", "dvc.lock"),
        ("commit", "-qm", "a release"),
        ("tag", "v1"),
    ):
        git(made.root, *words)
    lock.write_text("stages: [")
    git(made.root, "commit", "-qam", "spoilt")
    return made


def test_a_revision_comes_out_of_the_cache(recorded: Toy, then: Toy, tmp_path: Path) -> None:
    before = of_revision(recorded.root, "v1", NAME, tmp_path / "brought")
    regression = judged(recorded, before)
    assert {one.verdict for one in regression.decisions} == {Verdict.PASS}
    assert before.run("fts5").read_bytes() == then.layout.run("fts5").read_bytes()


def test_a_cache_with_a_hole_or_a_lie_is_refused(recorded: Toy, tmp_path: Path) -> None:
    data = recorded.layout.run("fts5").read_bytes()
    md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
    kept = recorded.root / CACHE / md5[:2] / md5[2:]
    kept.write_bytes(data + b"x")
    with pytest.raises(EvidenceError, match="is not what its name says"):
        of_revision(recorded.root, "v1", NAME, tmp_path / "a")
    kept.unlink()
    with pytest.raises(EvidenceError, match=r"parquet of v1 is not in .*dvc fetch"):
        of_revision(recorded.root, "v1", NAME, tmp_path / "b")


TEXTS = {name: Query(name, f"text of {name}") for name in "abcdef"}


def test_the_largest_loss_comes_first_and_no_gain_at_all() -> None:
    before = scores_of({"a": 0.5, "b": 1.0, "c": 0.2, "d": 1.0})
    now = scores_of({"a": 0.4, "b": 0.2, "c": 0.3, "d": 1.0})
    found = lost(before, now, TEXTS)
    losses = [(loss.query_id, loss.before, loss.now) for loss in found]
    assert losses == [("b", 1.0, 0.2), ("a", 0.5, 0.4)]
    assert found[0].text == "text of b"


def test_no_answer_is_worse_than_any_number_and_is_none() -> None:
    before = scores_of({"a": 1.0, "b": 0.0, "c": 0.5}, failed="d")
    now = scores_of({"a": 0.0}, timed_out="bc", failed="d")
    found = [(loss.query_id, loss.now, loss.instead) for loss in lost(before, now, TEXTS)]
    assert found == [("b", None, "timed_out"), ("c", None, "timed_out"), ("a", 0.0, "")]
