"""Files of a run: layout, evidence, resumed work, reads and plans."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import local
from time import sleep
from typing import Any

import pytest

from harness.core.batches import Processes, using
from harness.core.errors import EvidenceError
from harness.core.run import Run
from harness.corpus.runs import RUN_PART
from harness.pipeline.evidence import gathered, sides
from harness.pipeline.layout import File, Layout
from harness.pipeline.pins import for_control, ground
from harness.pipeline.race import read_part
from harness.pipeline.receipts import check_run
from harness.pipeline.replay import replay
from harness.pipeline.score import PART, score
from harness.policy.load import load_policy
from harness.policy.plan import Raced, plan
from harness.replay import drive
from harness.report import trends
from harness_engines.vector import bulk
from harness_engines.vector.bulk import embed_all
from harness_engines.vector.embedder import HashEmbedder
from tests.make.toy import ARMS, CANDIDATE, CONTROL, GATES, HEAD, NAME, STEP, Toy
from tests.pipeline.conftest import A_MOMENT_S, AtOnce
from tests.report.test_trends import entry

LAYOUT = Layout(Path("build/x"), Path("perf/x"), Path(".cache/x"))


def properties() -> dict[str, Path]:
    names = [name for name, kind in vars(Layout).items() if isinstance(kind, File)]
    return {name: getattr(LAYOUT, name) for name in names}


def test_no_two_things_share_a_file() -> None:
    by_arm = (LAYOUT.index, LAYOUT.manifest, LAYOUT.run, LAYOUT.again, LAYOUT.run_receipt)
    named = [*properties().values(), *(of(arm) for of in by_arm for arm in ("a", "b"))]
    assert len(set(named)) == len(named)


PAIRS = {"step": (CONTROL, CANDIDATE)}


def test_evidence_is_of_one_pair_with_the_others_beside(measured: Toy) -> None:
    found = gathered(measured.layout, PAIRS, sides(measured.layout, ARMS), None)["step"]
    assert (found.control.arm, found.candidate.arm) == (CONTROL, CANDIDATE)
    assert set(found.others) == {"hash-hybrid"}
    assert {name: len(ids) for name, ids in found.slices.items()} == {
        "identifier": 11,
        "natural-language": 30,
    }
    assert set(found.noise.classes) == {"exact", "both_empty"}
    assert not found.kinds


SET_UP = Raced(9, 99)


def test_runs_that_are_there_are_the_pilot(measured: Toy) -> None:
    policy = load_policy(measured.project.policy_file)
    found = ground(measured.layout, policy, SET_UP)
    assert found.dataset == NAME
    assert found.pilots.keys() == {"tantivy"}
    assert found.at_hand.race == Raced(3, 20)
    assert len(found.at_hand.queries) == 41
    assert (len(found.at_hand.answerable), len(found.at_hand.negative)) == (41, 0)
    (step,) = plan(policy, found.at_hand, found.pilots)
    quality = next(one for one in step.needs if one.gate.name == "Quality")
    assert quality.alone is not None


def test_a_step_is_planned_for_each_arm_that_was_compared(measured: Toy) -> None:
    file = measured.project.policy_file.with_name("template.toml")
    file.write_text(HEAD + STEP + GATES)
    policy = load_policy(file)
    file.unlink()
    each = for_control(measured.layout, policy, "fts5")
    assert "tantivy" in [step.candidate for step in each.steps]
    assert {step.control for step in each.steps} == {"fts5"}
    with pytest.raises(EvidenceError, match="no arm is compared with nobody"):
        for_control(measured.layout, policy, "nobody")


@pytest.mark.slow
def test_what_processes_do_is_what_one_does(
    project: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, params = project.layout, project.params
    texts = [f"text {at} " * (at % 40) for at in range(120)]
    results = [layout.run(arm) for arm in ARMS] + [layout.again(arm) for arm in ARMS]
    results += [layout.per_query, layout.scores, layout.slices, layout.means_plot]

    def made(cache: Path) -> list[bytes]:
        for arm in ARMS:
            replay(layout, arm, project.cache, params.replay)
        score(layout, ARMS, params.score)
        found = [path.read_bytes() for path in results]
        return [*found, embed_all(texts, HashEmbedder(16), cache).tobytes()]

    alone = made(tmp_path / "one")
    monkeypatch.setattr(drive, "PART", 9)
    monkeypatch.setattr(bulk, "PART", 30)
    said: list[str] = []
    with closing(Processes(2, said.append)) as pool, using(pool):
        monkeypatch.setattr(drive, "observe", None)  # this process runs no query
        assert made(tmp_path / "two") == alone
    assert not said


@pytest.mark.slow
def test_two_who_score_take_turns_with_the_parts(
    project: Toy, at_once: AtOnce, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever was first removed the parts that the other had not read yet."""
    one, seen = project.layout, PART.read
    waits, mine = iter((0.0, A_MOMENT_S)), local()

    def read_late(*given: Any) -> Any:  # noqa: ANN401  as the function
        mine.waits = getattr(mine, "waits", None) or next(waits, 0.0)
        sleep(mine.waits)
        return seen(*given)

    monkeypatch.setattr(PART, "read", read_late)
    scoring = partial(score, one, project.params.arms, project.params.score)
    first, second = at_once([scoring, scoring])
    assert first == second
    assert not one.score_parts.exists()


@pytest.mark.slow
def test_two_who_replay_an_arm_take_turns_with_the_parts(
    project: Toy, at_once: AtOnce, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever was first removed the folder in which the other wrote a part."""
    one, seen = project.layout, RUN_PART.read
    waits, mine = iter((0.0, A_MOMENT_S)), local()

    def read_late(path: Path) -> Run:
        mine.waits = getattr(mine, "waits", None) or next(waits, 0.0)
        sleep(mine.waits)
        return seen(path)

    monkeypatch.setattr(RUN_PART, "read", read_late)
    again = partial(replay, one, "fts5", project.cache, project.params.replay)
    first, second = at_once([again, again])
    assert isinstance(first, Run)
    assert isinstance(second, Run)
    assert list(first.rows()) == list(second.rows())
    assert not one.parts("fts5").exists()
    check_run(one, "fts5")


@pytest.mark.slow
def test_two_who_race_take_turns(project: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """They timed each other's work, and whoever was first removed the other's parts."""
    seen, inside = read_part, []

    def alone(*given: Any) -> Any:  # noqa: ANN401  as the function
        inside.append(1)
        sleep(A_MOMENT_S / 5)
        most.append(len(inside))
        found = seen(*given)
        inside.pop()
        return found

    most: list[int] = []
    monkeypatch.setattr("harness.pipeline.race.read_part", alone)
    with ThreadPoolExecutor(2) as threads:
        for found in [threads.submit(project.race) for _ in range(2)]:
            found.result()
    assert max(most) == 1


def test_two_decisions_are_both_in_the_history(tmp_path: Path, at_once: AtOnce) -> None:
    path = tmp_path / "toy.jsonl"
    entries = [entry(number) for number in range(2)]
    assert at_once([partial(trends.add, path, one) for one in entries]) == [True, True]
    assert [one.decision_sha256 for one in trends.read(path)] == [
        one.decision_sha256 for one in entries
    ]
