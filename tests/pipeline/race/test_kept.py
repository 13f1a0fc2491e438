"""Stage ``race``: answers that an engine keeps on disk are found, and dropped races too."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from harness.core.evidence import Race
from harness.pipeline import experiments
from harness.pipeline.index import index
from harness.pipeline.prepare import prepare
from harness.pipeline.race import race, read_race
from harness.pipeline.replay import replay
from harness.replay.machine import Advance, Work
from harness.stats.times import seen_ratio
from tests.make import toy
from tests.make.toy import CANDIDATE, CONTROL, NAME, Toy, here

pytestmark = pytest.mark.slow

THINKS_NS = 20_000_000
Begin = Callable[..., None]


def ratios(found: Race) -> tuple[float, float]:
    """Give the ratio of known over new texts of the one arm, and the highest of the honest one."""
    seen = [
        seen_ratio(found.elapsed_ns[arm], found.unseen_ns[arm], confidence=0.95)
        for arm in ("kept", "fts5")
    ]
    assert seen[0] is not None
    assert seen[1] is not None
    return seen[0].value, seen[1].high


@pytest.mark.sampled(1)
@pytest.mark.parametrize("depth", ["of the replay", "of the race"])
def test_answers_that_an_engine_kept_on_disk_are_found_in_every_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, depth: str
) -> None:
    """In real processes: the replay, or an earlier process, had every text at this depth."""
    monkeypatch.setattr(toy, "ASKED", 6)
    project = toy.make(tmp_path)
    prepare(tmp_path / "datasets" / NAME, tmp_path / "qrels" / NAME, project.layout.data)
    kept = str(Path(__file__).parent / "memo" / "kept.toml")
    for arm in ("fts5", kept):
        index(project.layout, arm, project.cache)
        replay(project.layout, arm, project.cache, project.params.replay)
    params = project.params.race.model_copy(update={"processes": 2, "repeated": 12})
    if depth == "of the replay":
        params = params.model_copy(update={"k": project.params.replay.k})
    for again in range(2):
        race(project.layout, ["fts5", kept], project.cache, params, 10)
        found = read_race(project.layout)
        assert found is not None
        assert found.verified == {"fts5": True, "kept": True}
        known = found.elapsed_ns["kept"][0 if again or depth == "of the replay" else 1]
        assert np.median(known) < THINKS_NS / 2
        assert np.median(found.unseen_ns["kept"]) >= THINKS_NS
        kept_ratio, honest = ratios(found)
        assert kept_ratio < 0.5 < honest


@pytest.fixture
def begin(project: Toy) -> Begin:
    """Begin a race that is stopped in this process, where a number is given."""

    def raced(stops_in: int = -1) -> None:
        numbers = count()

        def run(part: Work, advance: Advance) -> None:
            if next(numbers) == stops_in:
                raise KeyboardInterrupt
            here(part, advance)

        race(project.layout, [CONTROL, CANDIDATE], project.cache, project.params.race, 10, run=run)

    return raced


def kinds(project: Toy) -> list[str]:
    return [line.kind for line in experiments.read(project.layout).experiments]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("stops_in", "goes_on"), [(0, "begun"), (1, "resumed")])
def test_a_race_that_was_stopped_is_in_the_log(
    project: Toy, begin: Begin, stops_in: int, goes_on: str
) -> None:
    before = kinds(project)
    with pytest.raises(KeyboardInterrupt):
        begin(stops_in)
    assert kinds(project) == [*before, "race begun"]
    begin()
    assert kinds(project) == [*before, "race begun", f"race {goes_on}", "race"]


def test_a_race_that_was_dropped_and_begun_anew_is_in_the_log(project: Toy, begin: Begin) -> None:
    before = kinds(project)
    with pytest.raises(KeyboardInterrupt):
        begin(1)
    shutil.rmtree(project.layout.race_parts)
    begin()
    assert kinds(project) == [*before, "race begun", "race begun", "race"]


def test_a_race_begins_though_the_last_one_cannot_be_read(project: Toy) -> None:
    """That is the hint which is named where it cannot."""
    project.layout.race_receipt.write_text("{not")
    project.race()
    begun, ended = experiments.read(project.layout).experiments[-2:]
    assert (begun.inputs.times, begun.inputs.seeds) == (None, {})
    assert ended.inputs.seeds == {"race": 5}
