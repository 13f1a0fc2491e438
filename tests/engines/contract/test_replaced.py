"""An index that is built anew under its readers: none of them ever sees two, or part of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Any, cast

import pytest

from benchmarks.rebuilds import ARMS, WHOLE, WORDS, build, seen, watched
from engines import contract
from engines import registry as arms
from engines.contract import opened_whole
from harness.core.engine import Engine, Searcher
from harness.core.errors import IndexNotReady


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("arm", ARMS)
def test_no_reader_sees_a_part(
    tmp_path: Path,
    arm: str,
    draws: Any,  # noqa: ANN401  a fixture
) -> None:
    found = watched(arms.load(arm, tmp_path / "cache"), tmp_path, draws(8, 1_000))
    assert set(found) == {WHOLE}
    assert found[WHOLE] > 8


class Opens:
    """Opens nothing, and lets another folder take the place of the index while it does."""

    def __init__(self, times: int, error: Exception | None = None) -> None:
        self.left, self.error = times, error
        self.open_now = self.opened = 0

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        self.opened += 1
        self.open_now += 1
        try:
            if self.left:
                self.left -= 1
                index.rename(index.with_name(f"old{self.opened}"))
                index.mkdir()
                if self.error:
                    raise self.error
            yield cast("Searcher", index.stat().st_ino)
        finally:
            self.open_now -= 1


@pytest.mark.parametrize("error", [None, IndexNotReady("cut"), KeyError("part")])
def test_what_was_opened_of_two_is_closed_and_opened_again(
    tmp_path: Path, error: Exception | None
) -> None:
    index = tmp_path / "index"
    index.mkdir()
    engine = Opens(2, error)
    with opened_whole(cast("Engine", engine), index) as searcher:
        assert cast("Any", searcher) == index.stat().st_ino
        assert (engine.opened, engine.open_now) == (3, 1)
    assert engine.open_now == 0


def test_what_is_wrong_with_one_index_is_said(tmp_path: Path) -> None:
    arm = arms.load("fts5", tmp_path / "cache")
    with pytest.raises(IndexNotReady, match="no index here"), arm.open(tmp_path / "index"):
        pass
    build(arm, WORDS[0], tmp_path / "index")
    (tmp_path / "index" / "fts5.db").write_bytes(b"")
    with pytest.raises(IndexNotReady, match="Build it again"), arm.open(tmp_path / "index"):
        pass


def test_an_index_that_never_stays_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "PATIENCE_S", 0.05)
    (tmp_path / "index").mkdir()
    engine = Opens(1_000_000)
    refused = pytest.raises(IndexNotReady, match="built anew all the time")
    with refused, opened_whole(cast("Engine", engine), tmp_path / "index"):
        pass
    assert engine.open_now == 0


def test_a_reader_of_two_indexes_would_be_seen(tmp_path: Path) -> None:
    arm = arms.load("fts5", tmp_path / "cache")
    made = {build(arm, word, tmp_path / word).fingerprint: word for word in WORDS}
    assert [seen(arm, tmp_path / word, made) for word in WORDS] == [WHOLE, WHOLE]
    one, other = (tmp_path / word / "fts5.db" for word in WORDS)
    other.write_bytes(one.read_bytes())
    assert seen(arm, other.parent, made) == "of alder it has 40 documents instead of 0"
    rmtree(other.parent)
    assert seen(arm, other.parent, made) == "it is refused: IndexNotReady"
