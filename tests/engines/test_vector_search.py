"""Search in vectors, one by one and in bulk."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numkong
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness.core.errors import HarnessError
from harness_engines.vector import bulk, scan
from harness_engines.vector.bulk import (
    BATCH,
    BATCH_CHARACTERS,
    NEAR,
    PART,
    RECORDED,
    VECTORS,
    RecordedEmbedder,
    embed_all,
    folder_of,
    take,
    write,
)
from harness_engines.vector.embedder import Embedder, HashEmbedder, unit
from harness_engines.vector.scan import BLOCK, COSINE_DIGITS, Top, best, merged, nearest
from tests.make.killed import started

DIGITS = 6
Floats = NDArray[np.float64]


def sorted_plainly(scores: Floats, k: int) -> list[tuple[int, float]]:
    rounded = scores.round(DIGITS).tolist()
    by_hand = sorted(range(len(rounded)), key=lambda at: (-rounded[at], at))[:k]
    return [(at, rounded[at]) for at in by_hand]


def pairs(top: Top) -> list[tuple[int, float]]:
    return list(zip(top.positions.tolist(), top.scores.tolist(), strict=True))


def cut(scores: Floats, size: int) -> list[Floats]:
    return [scores[low : low + size] for low in range(0, len(scores), size)]


@given(
    st.lists(st.sampled_from([-0.5, 0.0, 0.25, 0.25 + 4e-7, 0.25 + 6e-7, 1.0]), max_size=60),
    st.integers(1, 65),
    st.integers(1, 61),
)
def test_as_a_plain_sort_finds_it_of_topk(values: list[float], k: int, size: int) -> None:
    scores = np.array(values, dtype=np.float64)
    assert pairs(best(cut(scores, size), k, DIGITS)) == sorted_plainly(scores, k)


@settings(max_examples=60)
@given(
    st.integers(0, 2**32),
    st.integers(1, 40 * BLOCK),
    st.sampled_from([1, 2, 5, 11, 40, 700]),
    st.integers(BLOCK // 2, 40 * BLOCK),
    st.sampled_from([2, 6]),
)
def test_only_hopeless_blocks_are_skipped(
    seed: int, count: int, k: int, size: int, spread: int
) -> None:
    scores = np.random.default_rng(seed).normal(size=count).round(spread) / 20
    assert pairs(best(cut(scores, size), k, DIGITS)) == sorted_plainly(scores, k)


@pytest.mark.parametrize("order", [1, -1])
def test_rising_and_falling_scores(order: int) -> None:
    scores = np.linspace(-1, 1, 5 * BLOCK + 3)[::order]
    assert pairs(best(cut(scores, 2 * BLOCK), 9, DIGITS)) == sorted_plainly(scores, 9)


def test_edges_of_the_best() -> None:
    scores = np.full(3 * BLOCK, -1.0)
    scores[[5, BLOCK, 2 * BLOCK]] = [0.1234560 - 4.9e-7, 0.1234560 + 4.9e-7, 0.5]
    assert pairs(best([scores], 2, DIGITS)) == [(2 * BLOCK, 0.5), (5, 0.123456)]
    scores = np.zeros(4 * BLOCK)
    assert best(cut(scores, BLOCK), 3, DIGITS).positions.tolist() == [0, 1, 2]
    assert pairs(best([np.array([0.1, 0.3])], 9, DIGITS)) == [(1, 0.3), (0, 0.1)]
    assert pairs(best([], 3, DIGITS)) == pairs(best([np.zeros(0)], 3, DIGITS)) == []
    (shown,) = best([np.array([-1e-9])], 1, DIGITS).scores.tolist()
    assert str(shown) == "0.0"
    drawn = np.random.default_rng(7)
    scores = drawn.integers(0, 300, size=9 * BLOCK) / 10**DIGITS
    off = scores + drawn.uniform(-0.9, 0.9, size=len(scores)) / 10**DIGITS
    found = best([off], 100, DIGITS, lambda at: scores[at])
    assert pairs(found) == sorted_plainly(scores, 100)


@pytest.mark.parametrize("count", [20 * BLOCK + 1, 20 * BLOCK + 3, 21 * BLOCK])
def test_the_last_score_of_many_blocks_is_found(count: int) -> None:
    scores = np.zeros(count)
    scores[-1] = 0.5
    assert pairs(best([scores], 1, DIGITS)) == [(count - 1, 0.5)]


@pytest.mark.parametrize("count", [9 * BLOCK, 300 * BLOCK])
def test_few_are_scored_once_more_with_too_few_blocks(count: int) -> None:
    scores = np.random.default_rng(7).permutation(count) / count
    again: list[int] = []

    def exact(at: NDArray[np.int64]) -> Floats:
        again.append(len(at))
        return scores[at]

    assert pairs(best([scores], 100, DIGITS, exact)) == sorted_plainly(scores, 100)
    assert again == [100]


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("at", [0, BLOCK, 2 * BLOCK])
def test_a_score_that_is_no_number_is_refused_wherever_it_stands(wrong: float, at: int) -> None:
    scores = np.linspace(1, 0, 2 * BLOCK + 1)
    scores[at] = wrong
    with pytest.raises(ValueError, match="not a finite number"):
        best([np.ones(5), scores], 1, DIGITS)


@pytest.mark.parametrize("k", [0, -1])
def test_at_least_one_must_be_asked_for(k: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        best([np.ones(5)], k, DIGITS)


@given(
    st.lists(st.sampled_from([0.1, 0.2, 0.3]), max_size=40), st.integers(1, 20), st.integers(0, 40)
)
def test_two_ranges_merged_are_as_one(values: list[float], k: int, middle: int) -> None:
    scores = np.array(values, dtype=np.float64)
    left, right = (best([half], k, DIGITS) for half in (scores[:middle], scores[middle:]))
    moved = Top(right.positions + len(scores[:middle]), right.scores)
    assert pairs(merged([left, moved], k)) == sorted_plainly(scores, k)


DIMENSION = 24
TOLERANCE = 2e-6


def drawn(seed: int, count: int, dimension: int = DIMENSION) -> NDArray[np.float16]:
    drawn = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    return unit(drawn).astype(np.float16)


def exact(vectors: NDArray[np.float16], query: NDArray[np.float32]) -> NDArray[np.float64]:
    return vectors.astype(np.float64) @ query.astype(np.float16).astype(np.float64)


@settings(max_examples=60)
@given(
    st.integers(0, 2**32), st.integers(1, 900), st.integers(1, 30), st.floats(0, 1), st.booleans()
)
def test_a_filter_applies_before_ranking(
    seed: int,
    count: int,
    k: int,
    share: float,
    near: bool,  # noqa: FBT001  drawn by hypothesis
) -> None:
    vectors, query = drawn(seed, count), drawn(seed + 1, 1)[0].astype(np.float32)
    rows = np.flatnonzero(np.random.default_rng(seed).random(count) < share)
    rows = rows[: len(rows) // 2] if near else rows
    cosines = exact(vectors, query)
    found = nearest(vectors, query, k, rows)
    assert set(found.positions.tolist()) <= set(rows.tolist())
    assert np.allclose(cosines[found.positions], found.scores, rtol=0, atol=TOLERANCE)
    best = np.sort(cosines[rows])[::-1][:k]
    assert np.allclose(found.scores, best, rtol=0, atol=TOLERANCE)
    assert pairs(found) == sorted(pairs(found), key=lambda pair: (-pair[1], pair[0]))


@pytest.mark.slow
@pytest.mark.parametrize("read_over", [1, 10_000])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 1.0])
def test_reading_and_copying(monkeypatch: pytest.MonkeyPatch, read_over: int, share: float) -> None:
    vectors, query = drawn(3, 5_000, 384), drawn(4, 1, 384)[0].astype(np.float32)
    rows = np.flatnonzero(np.random.default_rng(5).random(len(vectors)) < share)
    every = dict(pairs(nearest(vectors, query, len(vectors))))
    monkeypatch.setattr(scan, "READ_OVER", read_over)
    monkeypatch.setattr(scan, "GATHER_ROWS", 300)
    found = pairs(nearest(vectors, query, 50, rows))
    by_hand = sorted(rows.tolist(), key=lambda row: (-every[row], row))[:50]
    assert found == [(row, every[row]) for row in by_hand]


@pytest.mark.parametrize(("step", "times"), [(100, 1), (6, 1), (4, 4), (1, 1)])
def test_few_excluded_rows_are_read(monkeypatch: pytest.MonkeyPatch, step: int, times: int) -> None:
    read: list[int] = []

    def watched(asked: Any, vectors: Any, metric: Any, out: Any) -> None:  # noqa: ANN401  numkong's
        read.append(len(vectors))
        numkong.cdist(asked, vectors, metric, out=out)

    monkeypatch.setattr(scan, "numkong", SimpleNamespace(cdist=watched))
    rows = np.arange(0, 30_000, step)
    nearest(drawn(1, 30_000), np.ones(DIMENSION, np.float32), 3, rows)
    assert sum(read) == pytest.approx(times * len(rows), rel=0.01)
    assert max(read) <= scan.GATHER_ROWS * scan.READ_OVER


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("threads", [2, 3, 64])
def test_threads_agree(monkeypatch: pytest.MonkeyPatch, threads: int, *, filtered: bool) -> None:
    monkeypatch.setattr(scan, "THREAD_ROWS", 100)
    monkeypatch.setattr(scan, "SCAN_ROWS", 256)
    vectors = np.concatenate([drawn(1, 999), drawn(1, 999)])
    query = vectors[7].astype(np.float32)
    rows = np.arange(0, len(vectors), 3) if filtered else None
    alone = nearest(vectors, query, 100, rows)
    assert pairs(nearest(vectors, query, 100, rows, threads)) == pairs(alone)
    assert len(alone.positions) == 100


def test_a_vector_scores_the_same_in_every_company() -> None:
    vectors, query = drawn(8, 400, 384), drawn(9, 1, 384)[0].astype(np.float32)
    together = dict(pairs(nearest(vectors, query, 400)))
    for size in (1, 2, 3, 7, 16, 33):
        for low in range(0, 400 - size, 37):
            some = pairs(nearest(vectors[low : low + size], query, size))
            assert {low + row: cosine for row, cosine in some} == {
                row: together[row] for row in range(low, low + size)
            }


def test_sums_are_carried_in_single_precision() -> None:
    vectors = drawn(10, 2_000, 384)
    query = drawn(11, 1, 384)[0].astype(np.float32)
    found = nearest(vectors, query, len(vectors))
    off = np.abs(exact(vectors, query)[found.positions] - found.scores)
    assert off.max() <= 0.5 * 10**-COSINE_DIGITS + 1e-6
    vectors = drawn(1, 9)
    vectors[4, 2] = np.nan
    with pytest.raises(ValueError, match="not a finite number"):
        nearest(vectors, np.ones(DIMENSION, np.float32), 3)


@pytest.mark.parametrize(
    ("query", "rows", "why"),
    [
        *(
            (np.where(np.arange(DIMENSION) == 5, bad, 0), None, "not finite")
            for bad in (np.nan, np.inf, -np.inf, 1e6)
        ),
        *(
            (np.zeros(shape), None, "dimension 24")
            for shape in ((DIMENSION - 1,), (DIMENSION, 1), (1, DIMENSION), ())
        ),
        *((np.ones(DIMENSION), rows, "ascend") for rows in ([3, 2], [2, 2])),
    ],
)
def test_what_cannot_be_asked_is_refused(query: Floats, rows: list[int] | None, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        nearest(drawn(1, 9), query.astype(np.float32), 3, None if rows is None else np.array(rows))
    none = nearest(drawn(1, 9), np.ones(DIMENSION, np.float32), 3, np.zeros(0, int))
    assert pairs(none) == []


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


def test_a_text_is_embedded_once_however_often_it_stands(tmp_path: Path) -> None:
    texts = ["a long one " * 40, "short", "", "short", "middle sized", "東京"]
    half = embed_all(texts, Counting(), tmp_path)
    assert half.dtype == np.float16
    assert np.array_equal(half, expected(texts))
    assert embed_all([], Counting(), tmp_path).shape == (0, 16)
    embedder = Counting()
    embed_all(["same", "same", "other"], embedder, tmp_path)
    assert embedder.seen == ["other", "same"]
    embed_all(["text"], Counting("one"), tmp_path)
    other = Counting("two")
    embed_all(["text"], other, tmp_path)
    assert other.seen == ["text"]


def test_a_text_without_a_sign_is_near_nothing(tmp_path: Path) -> None:
    one = np.ones((1, 16), dtype=np.float32)
    with mock.patch.object(Counting, "embed", lambda _, texts: np.repeat(one, len(texts), axis=0)):
        half = embed_all(["", "*", " \n", "\u200b", "\ufeff\xad"], Counting(), tmp_path)
    assert [row.any() for row in half] == [False, True, False, False, False]


def test_what_is_known_costs_nothing(tmp_path: Path) -> None:
    texts = [f"text {at}" for at in range(PART + 10)]
    first = embed_all(texts, Counting(), tmp_path)
    again = Counting()
    assert np.array_equal(embed_all(texts[::-1], again, tmp_path), first[::-1])
    assert again.seen == []
    embed_all([*texts, "new"], again, tmp_path)
    assert again.seen == ["new"]


def test_a_kill_loses_only_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_part_ends_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
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
def test_a_vector_is_that_of_its_text_alone(tmp_path: Path, texts: list[str]) -> None:
    assert np.array_equal(embed_all(texts, Counting(), tmp_path), expected(texts).reshape(-1, 16))


def test_texts_are_read_in_slabs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "IN_MEMORY", 0)
    monkeypatch.setattr(bulk, "SLAB", 3)
    texts = [f"text {at % 7}" for at in range(20)]
    counting = Counting()
    half = embed_all(iter(texts), counting, tmp_path)
    assert isinstance(half, np.memmap)
    assert np.array_equal(half, expected(texts))
    assert counting.seen == sorted(set(texts))


def test_room_is_taken_before_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_another_model_is_not_taken_for_the_recorded_one(record: Path, tmp_path: Path) -> None:
    again = write(tmp_path / "again", Elsewhere(), tmp_path / "other", TEXTS[::-1])
    assert again.read_bytes() == (record / again.name).read_bytes()
    here, cache = Elsewhere(4 * NEAR), tmp_path / "second"
    said = take(record, here, cache, TEXTS)
    assert said is not None
    assert not said.used
    assert not (folder_of(cache, VECTORS, here) / RECORDED).exists()
    assert bulk.recorded(here, cache) is here


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
    assert isinstance(asked, RecordedEmbedder)
    assert (asked.embed(["fire"])[0] == half[1]).all()
    assert here.read == 1, "a query is embedded, and compared"
    assert (asked.embed(["wind"]) == here.embed(["wind"])).all()
    assert (asked.identity, asked.dimension) == ("letters", 26)


def test_a_query_whose_fresh_vector_disagrees_keeps_it(record: Path, tmp_path: Path) -> None:
    cache = tmp_path / "second"
    take(record, Elsewhere(), cache, TEXTS)
    far = Elsewhere(4 * NEAR)
    assert (bulk.recorded(far, cache).embed(["fire"]) == far.embed(["fire"])).all()


@pytest.mark.parametrize("texts", [[], ["nobody recorded this"]])
def test_other_texts_do_not_take_it(record: Path, tmp_path: Path, texts: list[str]) -> None:
    assert take(record, Elsewhere(), tmp_path / "second", texts) is None


@pytest.mark.parametrize("content", [b"", b"no array", None])
def test_a_broken_record_is_none(record: Path, tmp_path: Path, content: bytes | None) -> None:
    (path,) = record.iterdir()
    path.unlink() if content is None else path.write_bytes(content)
    here: Embedder = Elsewhere()
    assert take(record, here, tmp_path / "second", TEXTS) is None
