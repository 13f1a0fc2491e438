"""Replay, scores and vectors by processes: byte for byte those of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.batches import processes, using
from harness.core.errors import InvalidArm
from harness.pipeline import replay as stages_replay
from harness.pipeline.receipts import read_manifest
from harness.pipeline.replay import OpenedIndex, replay
from harness.pipeline.score import score
from harness.replay import drive
from harness_engines import registry
from harness_engines.vector import bulk
from harness_engines.vector.bulk import embed_all
from harness_engines.vector.embedder import HashEmbedder
from tests.make.toy import ARMS, Toy

pytestmark = pytest.mark.slow


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
    with processes(2, tmp_path / "exchanged", said.append) as pool, using(pool):
        monkeypatch.setattr(drive, "observe", None)  # this process runs no query
        assert made(tmp_path / "two") == alone
    assert not said
    assert not (tmp_path / "exchanged").exists()


def test_an_index_is_opened_once_and_another_one_is_refused(measured: Toy) -> None:
    layout = measured.layout
    wanted = read_manifest(layout, "fts5")
    path = registry.path_of("fts5")
    index = OpenedIndex.of(layout, path, measured.cache, wanted)
    with index() as first, index() as again:
        assert first is again
    other = OpenedIndex.of(layout, path, measured.cache, read_manifest(layout, "tantivy"))
    with pytest.raises(InvalidArm, match="is not the index"), other():
        pass
    with index() as anew:
        assert anew is not first
    stages_replay.close()
