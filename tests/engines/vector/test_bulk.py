"""Many texts to vectors: batches, what is kept and what is recorded."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness.core.errors import HarnessError
from harness_engines.vector import bulk
from harness_engines.vector.bulk import (
    BATCH,
    BATCH_CHARACTERS,
    NEAR,
    PART,
    RECORDED,
    VECTORS,
    Recorded,
    embed_all,
    folder_of,
    take,
    write,
)
from harness_engines.vector.embedder import Embedder, HashEmbedder, unit
from tests.make.killed import started


class Counting:
    """Hashes words, remembers its batches, and dies at a word that it was told of."""

    dimension = 16

    def __init__(self, identity: str = "counting", dies_at: str = "never said") -> None:
        self.identity = identity
        self.dies_at = dies_at
        self.batches: list[list[str]] = []
        self._lock = threading.Lock()

    @property
    def seen(self) -> list[str]:
        """Every text that it was given, in alphabetical order."""
        return sorted(text for batch in self.batches for text in batch)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if any(self.dies_at in text for text in texts):
            raise RuntimeError("killed")
        with self._lock:
            self.batches.append(list(texts))
        return HashEmbedder(self.dimension).embed(texts)


def expected(texts: Sequence[str]) -> NDArray[np.float16]:
    return HashEmbedder(Counting.dimension).embed(texts).astype(np.float16)


def test_vectors_come_in_the_order_of_their_texts(tmp_path: Path) -> None:
    texts = ["a long one " * 40, "short", "", "short", "middle sized", "東京"]
    half = embed_all(texts, Counting(), tmp_path)
    assert half.dtype == np.float16
    assert np.array_equal(half, expected(texts))


def test_no_text_gives_no_row(tmp_path: Path) -> None:
    assert embed_all([], Counting(), tmp_path).shape == (0, 16)


def test_a_text_without_a_sign_is_near_nothing(tmp_path: Path) -> None:
    one = np.ones((1, 16), dtype=np.float32)
    with mock.patch.object(Counting, "embed", lambda _, texts: np.repeat(one, len(texts), axis=0)):
        half = embed_all(["", "*", " \n", "\u200b", "\ufeff\xad"], Counting(), tmp_path)
    assert [row.any() for row in half] == [False, True, False, False, False]


def test_a_text_is_embedded_once_however_often_it_stands(tmp_path: Path) -> None:
    embedder = Counting()
    embed_all(["same", "same", "other"], embedder, tmp_path)
    assert embedder.seen == ["other", "same"]


def test_what_is_known_costs_nothing(tmp_path: Path) -> None:
    texts = [f"text {at}" for at in range(PART + 10)]
    first = embed_all(texts, Counting(), tmp_path)
    again = Counting()
    assert np.array_equal(embed_all(texts[::-1], again, tmp_path), first[::-1])
    assert again.seen == []
    embed_all([*texts, "new"], again, tmp_path)
    assert again.seen == ["new"]


def test_embedders_do_not_share_what_they_know(tmp_path: Path) -> None:
    embed_all(["text"], Counting("one"), tmp_path)
    other = Counting("two")
    embed_all(["text"], other, tmp_path)
    assert other.seen == ["text"]


def test_a_killed_process_loses_only_the_vectors_in_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "PART", 4)
    texts = [f"text {at:02}" for at in range(20)]
    with pytest.raises(RuntimeError, match="killed"):
        embed_all(texts, Counting(dies_at="text 07"), tmp_path)
    kept = texts_kept(tmp_path)
    assert 4 <= kept < 20
    again = Counting()
    assert np.array_equal(embed_all(texts, again, tmp_path), expected(texts))
    assert len(again.seen) == 20 - kept
    assert "text 07" in again.seen
    assert not list(tmp_path.rglob("*.partial"))


def texts_kept(cache: Path) -> int:
    """Count the texts in part files."""
    return sum(len(np.load(path)["keys"]) for path in cache.rglob("*.npz"))


@pytest.mark.parametrize("seconds", [0.0, 1e9])
def test_where_a_part_ends_changes_no_vector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(bulk, "PART_S", seconds)
    texts = [f"text {at} " * (at % 40) for at in range(120)]
    embedder = Counting()
    assert np.array_equal(embed_all(texts, embedder, tmp_path), expected(texts))
    parts = len(list(tmp_path.rglob("*.npz")))
    assert parts == (len(embedder.batches) if seconds == 0 else 1)
    again = Counting()
    assert np.array_equal(embed_all(texts, again, tmp_path), expected(texts))
    assert again.seen == []


def test_a_process_that_is_killed_among_slow_texts_loses_the_last_moment(tmp_path: Path) -> None:
    """Two hundred slow texts are less than a part of 256, and are kept all the same."""
    process = started(f"""
        from harness_engines.vector import bulk
        from harness_engines.vector.embedder import HashEmbedder
        from harness.core import progress
        class Slow(HashEmbedder):
            def embed(self, texts):
                time.sleep(0.1 * len(texts))
                return super().embed(texts)
        bulk.PART_S, progress.LINE_S, bulk.BATCH = 0.15, 0.3, 1
        os.cpu_count = lambda: 1
        texts = [f"text {{at}}" for at in range(200)]
        bulk.embed_all(texts, Slow(16), Path({str(tmp_path)!r}))
    """)
    assert process.stderr
    line = process.stderr.readline()
    process.kill()
    process.communicate()
    assert re.fullmatch(r"embedding: \d+ of 200 \(\d+%\), about \d+ s left\n", line)
    done = int(line.split()[1])
    assert done >= 3
    assert texts_kept(tmp_path) >= done - 2
    again = Counting(identity=HashEmbedder(16).identity)
    texts = [f"text {at}" for at in range(200)]
    kept = texts_kept(tmp_path)
    assert np.array_equal(embed_all(texts, again, tmp_path), expected(texts))
    assert len(again.seen) == 200 - kept
    assert not list(tmp_path.rglob(".*"))


@pytest.mark.parametrize("damage", [b"", b"no archive", None])
def test_a_broken_part_is_embedded_again(tmp_path: Path, damage: bytes | None) -> None:
    texts = ["one", "two"]
    embed_all(texts, Counting(), tmp_path)
    (part,) = tmp_path.rglob("*.npz")
    part.write_bytes(part.read_bytes()[:-30] if damage is None else damage)
    again = Counting()
    assert np.array_equal(embed_all(texts, again, tmp_path), expected(texts))
    assert again.seen == texts
    last = Counting()
    embed_all(texts, last, tmp_path)
    assert last.seen == []


def test_batches_stay_small(tmp_path: Path) -> None:
    texts = [f"{at} " + "x" * (at * 7) for at in range(300)]
    embedder = Counting()
    embed_all(texts, embedder, tmp_path)
    assert embedder.seen == sorted(texts)
    for batch in embedder.batches:
        longest = max(len(text) for text in batch)
        assert len(batch) == 1 or len(batch) * longest <= BATCH_CHARACTERS
        assert len(batch) <= BATCH


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.text(max_size=12), max_size=20))
def test_a_vector_is_that_of_its_text_whatever_stands_beside_it(
    tmp_path: Path, texts: list[str]
) -> None:
    assert np.array_equal(embed_all(texts, Counting(), tmp_path), expected(texts).reshape(-1, 16))


def test_many_vectors_are_mapped_and_texts_read_in_slabs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "IN_MEMORY", 0)
    monkeypatch.setattr(bulk, "SLAB", 3)
    texts = [f"text {at % 7}" for at in range(20)]
    counting = Counting()
    half = embed_all(iter(texts), counting, tmp_path)
    assert isinstance(half, np.memmap)
    assert np.array_equal(half, expected(texts))
    assert counting.seen == sorted(set(texts))


def test_room_for_mapped_vectors_is_taken_before_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mapped page without a block on a full disk ended the process by a signal."""
    monkeypatch.setattr(bulk, "IN_MEMORY", 0)
    monkeypatch.setattr(bulk, "make_parts", lambda *_: None)
    texts = [f"text {at}" for at in range(20_000)]
    with TemporaryFile(dir=tmp_path) as file, os.fdopen(os.dup(file.fileno())) as same:
        monkeypatch.setattr(bulk, "TemporaryFile", lambda **_: file)
        with pytest.raises(HarnessError, match="20000 vectors were removed"):
            embed_all(texts, Counting(), tmp_path / "cache")
        stat = os.fstat(same.fileno())
    assert stat.st_blocks * 512 >= stat.st_size > 2 * len(texts)


def test_a_vector_that_was_removed_meanwhile_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "make_parts", lambda *_: None)
    with pytest.raises(HarnessError, match="1 vectors were removed"):
        embed_all(["one"], Counting(), tmp_path)


TEXTS = ["water", "fire", "earth", "air"]


class Elsewhere:
    """An embedder on a processor that adds up in its own order: off by ``off`` everywhere."""

    identity = "letters"
    dimension = 26

    def __init__(self, off: float = 0.0) -> None:
        self.off, self.read = off, 0

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.read += len(texts)
        counts = [[text.count(chr(97 + at)) for at in range(26)] for text in texts]
        vectors = np.array(counts, dtype=np.float32)
        return unit(vectors) + np.float32(self.off)


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """Record the texts on one machine."""
    path = write(tmp_path / "record", Elsewhere(), tmp_path / "first", TEXTS)
    assert path.parent == tmp_path / "record"
    return path.parent


def test_the_same_texts_give_the_same_bytes(record: Path, tmp_path: Path) -> None:
    again = write(tmp_path / "again", Elsewhere(), tmp_path / "other", TEXTS[::-1])
    assert again.read_bytes() == (record / again.name).read_bytes()


def test_a_processor_that_is_off_by_less_than_a_unit_gives_what_is_recorded(
    record: Path, tmp_path: Path
) -> None:
    here, cache = Elsewhere(NEAR / 2), tmp_path / "second"
    said = take(record, here, cache, TEXTS[:3])
    assert said is not None
    assert said.used
    assert 0 < said.apart <= NEAR
    here.read = 0
    half = embed_all(TEXTS, here, cache)
    assert here.read == 0, "documents of the record are not embedded again"
    assert (half == embed_all(TEXTS, Elsewhere(), tmp_path / "first")).all()
    asked = bulk.recorded(here, cache)
    assert isinstance(asked, Recorded)
    assert (asked.embed(["fire"])[0] == half[1]).all()
    assert here.read == 1, "a query is embedded, and compared"
    assert (asked.embed(["wind"]) == here.embed(["wind"])).all()
    assert (asked.identity, asked.dimension) == ("letters", 26)


def test_another_model_is_not_taken_for_the_recorded_one(record: Path, tmp_path: Path) -> None:
    here, cache = Elsewhere(4 * NEAR), tmp_path / "second"
    said = take(record, here, cache, TEXTS)
    assert said is not None
    assert not said.used
    assert not (folder_of(cache, VECTORS, here) / RECORDED).exists()
    assert bulk.recorded(here, cache) is here


def test_a_query_whose_fresh_vector_disagrees_keeps_it(record: Path, tmp_path: Path) -> None:
    cache = tmp_path / "second"
    take(record, Elsewhere(), cache, TEXTS)
    far = Elsewhere(4 * NEAR)
    assert (bulk.recorded(far, cache).embed(["fire"]) == far.embed(["fire"])).all()


@pytest.mark.parametrize("texts", [[], ["nobody recorded this"]])
def test_other_texts_are_no_reason_to_take_it(
    record: Path, tmp_path: Path, texts: list[str]
) -> None:
    assert take(record, Elsewhere(), tmp_path / "second", texts) is None


@pytest.mark.parametrize("content", [b"", b"no array", None])
def test_a_broken_record_is_none(record: Path, tmp_path: Path, content: bytes | None) -> None:
    (path,) = record.iterdir()
    path.unlink() if content is None else path.write_bytes(content)
    here: Embedder = Elsewhere()
    assert take(record, here, tmp_path / "second", TEXTS) is None
