"""Stage ``race``: times are kept with what was raced, and only for the runs at hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engines.contract import arms
from engines.stacks.text.fts5 import Fts5Searcher
from harness.core.engine import Answer
from harness.core.errors import BadFile, EvidenceError, IndexNotReady
from harness.corpus.runs import read_run, write_run
from harness.stages.index import index
from harness.stages.proof import read_manifest
from harness.stages.race import race, read_race
from harness.stages.replay import replay
from tests.toy import CANDIDATE, CONTROL, Toy


def test_every_time_is_kept(measured: Toy) -> None:
    found = read_race(measured.layout)
    assert found is not None
    assert set(found.elapsed_ns) == set(found.again_ns) == {CONTROL, CANDIDATE}
    for times in (*found.elapsed_ns.values(), *found.again_ns.values()):
        assert times.shape == (20, 2)
        assert (times > 0).all()
    assert found.verified == {CONTROL: True, CANDIDATE: True}
    assert len(set(found.query_ids)) == 20


def test_the_receipt_holds_no_time(measured: Toy) -> None:
    receipt = json.loads(measured.layout.race_receipt.read_text())
    assert receipt["arms"][CONTROL] == read_manifest(measured.layout, CONTROL).fingerprint
    assert set(receipt) == {
        "arms", "runs", "queries_sha256", "k", "warmup", "repetitions", "seed", "strays",
    }  # fmt: skip


def test_racing_twice_gives_the_same_receipt_and_other_times(project: Toy) -> None:
    receipt, times = project.layout.race_receipt, project.layout.times
    before = receipt.read_bytes(), times.read_bytes()
    project.race()
    assert receipt.read_bytes() == before[0]
    assert times.read_bytes() != before[1]


def test_no_race_is_none(project: Toy) -> None:
    project.layout.race_receipt.unlink()
    assert read_race(project.layout) is None


def test_times_that_are_gone_are_named(project: Toy) -> None:
    project.layout.times.unlink()
    with pytest.raises(EvidenceError, match=r"the times of the race are gone\. Run: harness race"):
        read_race(project.layout)


def test_a_run_made_since_the_race_spoils_it(project: Toy) -> None:
    write_run(read_run(project.layout.run("hash-hybrid")), project.layout.run(CANDIDATE))
    with pytest.raises(EvidenceError, match="tantivy was replayed since the race"):
        read_race(project.layout)


def test_an_index_made_since_the_race_spoils_it(project: Toy) -> None:
    path = project.layout.manifest(CANDIDATE)
    path.write_bytes(project.layout.manifest("hash-hybrid").read_bytes())
    with pytest.raises(EvidenceError, match="tantivy was indexed anew since the race"):
        read_race(project.layout)


def test_times_of_another_race_are_refused(project: Toy) -> None:
    receipt = json.loads(project.layout.race_receipt.read_text())
    project.layout.race_receipt.write_text(json.dumps({**receipt, "seed": 6}))
    with pytest.raises(EvidenceError, match="the times of another race than"):
        read_race(project.layout)


@pytest.mark.parametrize("name", ["race_receipt", "times"])
def test_broken_files_are_named(project: Toy, name: str) -> None:
    getattr(project.layout, name).write_text("{not")
    with pytest.raises(BadFile, match=r"race\.json: not a race"):
        read_race(project.layout)


def test_an_arm_that_answers_otherwise_than_in_its_run_is_not_verified(
    project: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Fts5Searcher.search

    def shorter(searcher: Fts5Searcher, text: str, k: int) -> Answer:
        return honest(searcher, text, k // k)

    monkeypatch.setattr(Fts5Searcher, "search", shorter)
    project.race()
    found = read_race(project.layout)
    assert found is not None
    assert found.verified == {CONTROL: False, CANDIDATE: True}


def test_an_arm_given_by_its_path_races_under_its_name(project: Toy, tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text(arms.path_of("fts5").read_text())
    index(project.layout, str(own), project.cache)
    replay(project.layout, str(own), project.cache, project.params.replay)
    race(project.layout, [str(own)], project.cache, project.params.race, 10)
    found = read_race(project.layout)
    assert found is not None
    assert set(found.elapsed_ns) == {"mine"}


def test_an_index_that_is_not_the_replayed_one_is_not_raced(project: Toy) -> None:
    path = project.layout.index(CONTROL) / "manifest.json"
    path.write_text(path.read_text().replace("sqlite-fts5", "sqlite-fts4"))
    with pytest.raises(IndexNotReady):
        project.race()
