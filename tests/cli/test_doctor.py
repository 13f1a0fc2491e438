"""What ``harness doctor`` says of a machine, and what it does not let pass."""

from __future__ import annotations

import shutil

import pytest

from harness.replay import fitness
from harness.replay.fitness import Noise
from tests.cli.conftest import Harness
from tests.toy import Toy


def steady(by: float) -> Noise:
    return Noise(150, 1e6, 1.0, by, by * 2)


def test_the_machine_is_described(
    project: Toy, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitness, "vector_flags", lambda: ("avx2", "f16c"))
    monkeypatch.setattr(fitness, "free_bytes", lambda folder: 12.34e9 * (folder == project.cache))
    monkeypatch.setattr(fitness, "load_of_core", lambda: 0.5)
    monkeypatch.setattr(fitness, "noise", lambda _: steady(1.25))
    said = harness("doctor")
    assert said.code == 0
    for line in (
        "vectors   avx2, f16c",
        "room      12.3 GB free for .cache",
        "load      0.50 of each core in the last minute",
        "noise     the same work against itself: p50 1.00, p95 1.25 times; the slowest 2.5 times",
        "model     splade-tiny: tokenizer.json is the pinned one",
    ):
        assert line in said.out
    assert "noisy" not in said.out


@pytest.mark.parametrize(("by", "noisy"), [(20.0, False), (20.1, True)])
def test_noise_is_held_to_what_the_policy_allows(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, by: float, *, noisy: bool
) -> None:
    monkeypatch.setattr(fitness, "noise", lambda _: steady(by))
    said = harness("doctor")
    assert ("the policy's gates on time allow 20: a race now may end" in said.out) is noisy
    assert said.code == 0


def test_a_folder_is_a_data_set(project: Toy, harness: Harness) -> None:
    shutil.rmtree(project.root / "datasets")
    params = project.root / "params.yaml"
    params.write_text(params.read_text().replace("datasets: [toy]", "datasets: [beir]"))
    said = harness("doctor")
    assert "dataset   beir: a folder, for harness run --dataset beir" in said.out
    assert said.code == 0
