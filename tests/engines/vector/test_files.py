"""Vectors in files: the bytes, every damage, and what an exact search finds."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numkong
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from engines.contract import EngineError, IndexUnavailable
from engines.vector import scan
from engines.vector.amvi import (
    CHUNK_ROWS,
    AmviIndex,
    VectorStore,
    open_store,
    updated,
    write_amvi,
    write_store,
)
from engines.vector.amvi import IDS as STORE_IDS
from engines.vector.amvi import VECTORS as STORE_VECTORS
from engines.vector.embedder import unit
from engines.vector.scan import BLOCK, COSINE_DIGITS, Top, best, merged, nearest
from harness.core.errors import IndexNotReady

EMBEDDER = "hash, één"
IDS = np.array([-3, 7, 2**40], dtype=np.int64)
VECTORS = np.array([[1, 0], [0.6, 0.8], [0, -1]], dtype=np.float16)
ONE_FILE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "messages.amvi"


def by_hand(embedder: bytes, records: bytes, slab: bytes, version: int = 1) -> bytes:
    """Lay a file of dimension 2 out, with nothing of the module under test."""
    body = embedder + b"\0" * (-(24 + len(embedder)) % 8) + records
    body += b"\0" * (-(24 + len(body)) % 32) + slab
    count = len(records) // 12
    head = b"AMVI" + struct.pack("<HIQH", version, 2, count, len(embedder))
    return head + struct.pack("<I", zlib.crc32(body)) + body


def records(*pairs: tuple[int, int]) -> bytes:
    return b"".join(struct.pack("<qI", *pair) for pair in pairs)


NAME = EMBEDDER.encode()
GOLDEN = by_hand(
    NAME, records((-3, 0), (7, 1), (2**40, 2)), struct.pack("<6e", 1, 0, 0.6, 0.8, 0, -1)
)
ONE, TWO = struct.pack("<2e", 1, 0), struct.pack("<4e", 1, 0, 0, 1)


def small(path: Path) -> AmviIndex:
    write_amvi(path, EMBEDDER, IDS, VECTORS)
    return AmviIndex.open(path, EMBEDDER, 2)


def as_query(*values: float) -> NDArray[np.float32]:
    return np.array(values, dtype=np.float32)


def made(seed: int, count: int, dimension: int = 8) -> NDArray[np.float16]:
    drawn = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    return unit(drawn).astype(np.float16)


# --- the bytes


def test_the_bytes_are_those_laid_out_by_hand(path: Path) -> None:
    write_amvi(path, EMBEDDER, IDS, VECTORS)
    assert path.read_bytes() == GOLDEN
    assert len(GOLDEN) == 24 + (11 + 5) + (36 + 20) + 12


def test_the_first_bytes_of_the_golden_file() -> None:
    assert GOLDEN[:20].hex() == "414d564901000200000003000000000000000b00"
    assert GOLDEN[24:40] == "hash, één".encode() + bytes(5)
    assert GOLDEN[40:52].hex() == "fdffffffffffffff00000000"
    assert GOLDEN[64:76].hex() == "000000000001000002000000"
    assert GOLDEN[96:].hex() == "003c0000cd38663a000000bc"


def test_a_file_laid_out_by_hand_is_read(path: Path) -> None:
    path.write_bytes(GOLDEN)
    index = AmviIndex.open(path, EMBEDDER, 2)
    assert index.message_ids.tolist() == IDS.tolist()
    assert np.array_equal(index.vectors, VECTORS)
    assert isinstance(index.vectors, np.memmap)
    assert index.vectors.ctypes.data % 32 == 0


def test_messages_may_come_in_any_order(path: Path) -> None:
    turned = np.array([2, 0, 1])
    write_amvi(path, EMBEDDER, IDS[turned], VECTORS[turned])
    assert path.read_bytes() == GOLDEN


@ONE_FILE
@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, max_size=20),
    st.integers(1, 9),
    st.text(st.characters(codec="utf-8"), max_size=12),
    st.integers(0, 2**32),
)
def test_what_is_written_is_read(
    path: Path, message_ids: list[int], dimension: int, embedder: str, seed: int
) -> None:
    vectors = made(seed, len(message_ids), dimension)
    write_amvi(path, embedder, np.array(message_ids, dtype=np.int64), vectors)
    index = AmviIndex.open(path, embedder, dimension)
    assert index.message_ids.tolist() == sorted(message_ids)
    stored = dict(zip(index.message_ids.tolist(), index.vectors.tolist(), strict=True))
    assert stored == dict(zip(message_ids, vectors.tolist(), strict=True))


def test_more_than_a_chunk_is_read_as_written(path: Path) -> None:
    count = CHUNK_ROWS + 5
    vectors = made(1, count, 2)
    write_amvi(path, EMBEDDER, np.arange(count), vectors)
    assert np.array_equal(AmviIndex.open(path, EMBEDDER, 2).vectors, vectors)


# --- damage


def opened_as_not_ready(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(IndexUnavailable) as caught:
        AmviIndex.open(path, EMBEDDER, 2)
    return str(caught.value)


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_flipped_byte_is_seen_wherever_it_is(path: Path, flip: int) -> None:
    for at in range(len(GOLDEN)):
        changed = bytearray(GOLDEN)
        changed[at] ^= flip
        assert "anew" in opened_as_not_ready(path, bytes(changed)), at


def test_a_file_cut_short_anywhere_is_seen(path: Path) -> None:
    for length in range(len(GOLDEN)):
        assert str(path) in opened_as_not_ready(path, GOLDEN[:length]), length


@pytest.mark.parametrize("extra", [b"\0", b"\0" * 32, GOLDEN])
def test_a_file_with_more_behind_it_is_seen(path: Path, extra: bytes) -> None:
    assert "bytes" in opened_as_not_ready(path, GOLDEN + extra)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (by_hand(b"x", records((1, 0)), ONE), "embedder is 'x'"),
        (by_hand(b"\xff", records((1, 0)), ONE), "decode"),
        (by_hand(NAME, records((1, 0)), ONE, version=2), "version 2"),
        (by_hand(NAME, records((5, 0), (5, 1)), TWO), "not in order"),
        (by_hand(NAME, records((5, 0), (4, 1)), TWO), "not in order"),
        (by_hand(NAME, records((4, 1), (5, 0)), TWO), "not in order"),
    ],
)
def test_a_whole_file_that_says_something_else_is_not_ready(
    path: Path, content: bytes, said: str
) -> None:
    assert said in opened_as_not_ready(path, content)


def test_a_count_beyond_all_memory_is_not_believed(path: Path) -> None:
    assert "bytes" in opened_as_not_ready(path, GOLDEN[:10] + b"\xff" * 8 + GOLDEN[18:])


@pytest.mark.parametrize(("embedder", "dimension"), [("hash", 2), ("", 2), (EMBEDDER, 3)])
def test_another_embedder_or_dimension_is_not_ready(
    path: Path, embedder: str, dimension: int
) -> None:
    write_amvi(path, EMBEDDER, IDS, VECTORS)
    with pytest.raises(IndexUnavailable, match=r"embedder|dimension"):
        AmviIndex.open(path, embedder, dimension)


@pytest.mark.parametrize("kind", ["gone", "folder"])
def test_no_file_is_not_ready(path: Path, kind: str) -> None:
    if kind == "folder":
        path.mkdir()
    with pytest.raises(IndexUnavailable, match=r"messages\.amvi"):
        AmviIndex.open(path, EMBEDDER, 2)


@pytest.mark.parametrize(
    ("message_ids", "vectors"),
    [
        (np.array([1, 1]), VECTORS[:2]),
        (np.array([1, 2, 3]), VECTORS[:2]),
        (np.array([1.0, 2.0]), VECTORS[:2]),
        (np.array([1, 2]), VECTORS[:2].astype(np.float32)),
        (np.array([1, 2]), VECTORS[0]),
        (np.array([1, 2]), np.zeros((2, 0), dtype=np.float16)),
        (np.array([1, 2]), np.array([[1, 0], [np.nan, 0]], dtype=np.float16)),
        (np.array([1, 2]), np.array([[1, 0], [-np.inf, 0]], dtype=np.float16)),
    ],
)
def test_what_cannot_be_searched_is_not_written(
    path: Path, message_ids: NDArray[np.int64], vectors: NDArray[np.float16]
) -> None:
    write_amvi(path, EMBEDDER, IDS, VECTORS)
    with pytest.raises(ValueError, match=r"twice|vector|half"):
        write_amvi(path, EMBEDDER, message_ids, vectors)
    assert path.read_bytes() == GOLDEN
    assert list(path.parent.iterdir()) == [path]


# --- search


def test_the_highest_cosine_comes_first_and_all_are_ranked(path: Path) -> None:
    found = small(path).search(as_query(1, 0), 9)
    assert [message_id for message_id, _ in found] == [-3, 7, 2**40]
    assert [cosine for _, cosine in found] == pytest.approx([1, 0.6, 0], abs=1e-3)
    assert [cosine for _, cosine in small(path).search(as_query(0, 1), 9)][-1] == -1


def test_ties_go_by_message_id(path: Path) -> None:
    message_ids = np.array([30, -10, 20, 5], dtype=np.int64)
    write_amvi(path, EMBEDDER, message_ids, np.tile(VECTORS[1], (4, 1)))
    index = AmviIndex.open(path, EMBEDDER, 2)
    assert [message_id for message_id, _ in index.search(as_query(0.6, 0.8), 3)] == [-10, 5, 20]


@pytest.mark.parametrize("allowed", [None, np.array([1, 2], dtype=np.int64)])
def test_an_empty_index_finds_nothing(path: Path, allowed: NDArray[np.int64] | None) -> None:
    write_amvi(path, EMBEDDER, IDS[:0], VECTORS[:0])
    assert AmviIndex.open(path, EMBEDDER, 2).search(as_query(1, 0), 5, allowed) == []


def test_allowed_messages_that_are_not_there_are_ignored(path: Path) -> None:
    index = small(path)
    allowed = np.array([-(2**63), -4, 7, 8, 2**40, 2**63 - 1], dtype=np.int64)
    assert [found for found, _ in index.search(as_query(1, 0), 9, allowed)] == [7, 2**40]
    assert index.search(as_query(1, 0), 9, allowed[:2]) == []


@ONE_FILE
@given(
    st.integers(0, 2**32),
    st.sets(st.integers(0, 120), max_size=80),
    st.sets(st.integers(-5, 125), max_size=60),
    st.integers(1, 12),
)
def test_only_the_allowed_compete(
    path: Path, seed: int, stored: set[int], allowed: set[int], k: int
) -> None:
    message_ids, vectors = np.array(sorted(stored), dtype=np.int64), made(seed, len(stored))
    write_amvi(path, EMBEDDER, message_ids, vectors)
    index = AmviIndex.open(path, EMBEDDER, 8)
    query = made(seed + 1, 1)[0].astype(np.float32)
    found = index.search(query, k, np.array(sorted(allowed), dtype=np.int64))
    every = dict(index.search(query, 200))
    assert every == pytest.approx(
        dict(zip(message_ids.tolist(), vectors.astype(float) @ query.astype(float), strict=True)),
        abs=2e-6,
    )
    mine = sorted((-every[message_id], message_id) for message_id in stored & allowed)[:k]
    assert found == [(message_id, -cosine) for cosine, message_id in mine]


def test_two_threads_find_what_one_finds(path: Path) -> None:
    count = 40_000
    write_amvi(path, EMBEDDER, np.arange(count) * 2, made(5, count))
    index = AmviIndex.open(path, EMBEDDER, 8)
    for seed in range(5):
        query = made(seed, 1)[0].astype(np.float32)
        for allowed in (None, np.arange(0, 2 * count, 2), np.arange(0, count)):
            alone = index.search(query, 50, allowed)
            assert index.search(query, 50, allowed, threads=2) == alone
            assert len(alone) == 50


@pytest.mark.parametrize(
    ("query", "k", "allowed"),
    [
        (as_query(np.nan, 0), 1, None),
        (as_query(np.inf, 0), 1, None),
        (as_query(1, 0, 0), 1, None),
        (as_query(1, 0), 0, None),
        (as_query(1, 0), 1, np.array([7, -3], dtype=np.int64)),
    ],
)
def test_what_cannot_be_asked_is_an_engine_error(
    path: Path, query: NDArray[np.float32], k: int, allowed: NDArray[np.int64] | None
) -> None:
    with pytest.raises(EngineError, match=EMBEDDER):
        small(path).search(query, k, allowed)


def test_a_stored_vector_that_is_no_number_is_an_engine_error(path: Path) -> None:
    path.write_bytes(by_hand(NAME, records((1, 0)), struct.pack("<2e", float("nan"), 0)))
    with pytest.raises(EngineError, match="finite"):
        AmviIndex.open(path, EMBEDDER, 2).search(as_query(1, 0), 1)


# --- updating


@ONE_FILE
@given(
    st.sets(st.integers(-20, 20), max_size=30),
    st.sets(st.integers(-25, 25), max_size=20),
    st.sets(st.integers(-25, 25), max_size=20),
    st.integers(0, 2**32),
)
def test_an_update_gives_the_bytes_of_a_building(
    path: Path, old: set[int], new: set[int], deleted: set[int], seed: int
) -> None:
    deleted -= new
    old_vectors, new_vectors = made(seed, len(old)), made(seed + 1, len(new))
    write_amvi(path, EMBEDDER, np.array(sorted(old), dtype=np.int64), old_vectors)
    put_in = np.array(list(new), dtype=np.int64)
    index = AmviIndex.open(path, EMBEDDER, 8)
    updated(index, path, put_in, new_vectors, deleted)
    wanted = dict(zip(sorted(old), old_vectors, strict=True))
    wanted |= dict(zip(put_in.tolist(), new_vectors, strict=True))
    for message_id in deleted:
        wanted.pop(message_id, None)
    whole = np.array(list(wanted.values()), dtype=np.float16).reshape(-1, 8)
    anew = path.with_name("anew.amvi")
    write_amvi(anew, EMBEDDER, np.array(list(wanted), dtype=np.int64), whole)
    assert path.read_bytes() == anew.read_bytes()


def test_an_open_index_is_not_disturbed_by_an_update(path: Path) -> None:
    index = small(path)
    updated(index, path, np.array([7]), VECTORS[2:], [-3])
    assert np.array_equal(index.vectors, VECTORS)
    after = AmviIndex.open(path, EMBEDDER, 2)
    assert after.message_ids.tolist() == [7, 2**40]
    assert np.array_equal(after.vectors, VECTORS[[2, 2]])


@pytest.mark.parametrize(
    ("message_ids", "vectors", "deleted", "said"),
    [
        (np.array([7]), VECTORS[:1], [7], "both"),
        (np.array([7, 7]), VECTORS[:2], [], "twice"),
        (np.array([7]), np.ones((1, 3), dtype=np.float16), [], "dimension"),
        (np.array([7]), VECTORS[:1].astype(np.float32), [], "half"),
        (np.array([7]), VECTORS[:1] * np.float16(np.nan), [], "finite"),
    ],
)
def test_an_update_that_makes_no_sense_changes_nothing(
    path: Path,
    message_ids: NDArray[np.int64],
    vectors: NDArray[np.float16],
    deleted: list[int],
    said: str,
) -> None:
    index = small(path)
    with pytest.raises(ValueError, match=said):
        updated(index, path, message_ids, vectors, deleted)
    assert path.read_bytes() == GOLDEN


AXES = np.eye(3, 4, dtype=np.float16)


def store(vectors: NDArray[np.float16]) -> VectorStore:
    return VectorStore(tuple(f"d{at:02}" for at in range(len(vectors))), vectors)


def ask(vectors: NDArray[np.float16], query: list[float], k: int) -> list[tuple[str, float]]:
    return store(vectors).nearest(np.array(query, dtype=np.float32), k)


def test_the_highest_cosine_comes_first() -> None:
    vectors = np.array([[0.6, 0.8], [1, 0], [0.8, 0.6]], dtype=np.float16)
    found = ask(vectors, [1, 0], 3)
    assert [doc_id for doc_id, _ in found] == ["d01", "d02", "d00"]
    assert [cosine for _, cosine in found] == pytest.approx([1, 0.8, 0.6], abs=1e-3)


@pytest.mark.parametrize("k", [1, 2, 3, 7])
def test_ties_go_by_id_at_every_cut(k: int) -> None:
    vectors = np.array([[0, 1], [1, 0], [1, 0], [0.6, 0.8], [1, 0]], dtype=np.float16)
    found = [doc_id for doc_id, _ in ask(vectors, [1, 0], k)]
    assert found == ["d01", "d02", "d04", "d03"][:k]


def test_cosines_that_differ_below_half_precision_are_a_tie() -> None:
    vectors = np.array([[1, 0], [1, 0.0002]], dtype=np.float16)
    (one, first), (other, second) = ask(vectors, [1, 0.001], 2)
    assert (one, other) == ("d00", "d01")
    assert first == second == round(first, COSINE_DIGITS)


@pytest.mark.parametrize("k", [1, 3, 9])
def test_a_right_angle_and_beyond_are_not_shown(k: int) -> None:
    vectors = np.array([[1, 0], [0, 1], [-1, 0]], dtype=np.float16)
    assert [doc_id for doc_id, _ in ask(vectors, [1, 0], k)] == ["d00"]
    assert ask(vectors, [0, -1], k) == []


def test_a_query_of_zeros_finds_nothing() -> None:
    assert ask(AXES, [0, 0, 0, 0], 5) == []


def test_nothing_stored_is_nothing_found() -> None:
    assert ask(np.zeros((0, 4), dtype=np.float16), [1, 0, 0, 0], 5) == []


@given(
    st.lists(st.lists(st.integers(-4, 4), min_size=3, max_size=3), min_size=1, max_size=30),
    st.lists(st.integers(-4, 4), min_size=3, max_size=3),
    st.integers(1, 35),
)
def test_as_a_plain_sort_finds_it(rows: list[list[int]], query: list[int], k: int) -> None:
    vectors = unit(np.array(rows, dtype=np.float32)).astype(np.float16)
    asked = unit(np.array([query], dtype=np.float32))[0]
    cosines = (vectors.astype(np.float64) @ asked.astype(np.float16).astype(np.float64)).tolist()
    found = ask(vectors, asked.tolist(), k)
    assert len(found) == min(k, sum(c > 1e-6 for c in cosines))
    positions = [int(doc_id[1:]) for doc_id, _ in found]
    by_hand = sorted(range(len(rows)), key=lambda at: (-round(cosines[at], 3), at))
    shown = [round(cosines[at], 3) for at in positions]
    assert shown == pytest.approx([round(cosines[at], 3) for at in by_hand[: len(found)]], abs=2e-3)
    assert [(-c, d) for d, c in found] == sorted((-c, d) for d, c in found)


def test_what_is_written_is_read_of_store(tmp_path: Path) -> None:
    write_store(tmp_path, ["a", "é", "東"], AXES)
    opened = open_store(tmp_path, 4)
    assert opened.doc_ids == ("a", "é", "東")
    assert np.array_equal(opened.vectors, AXES)
    assert isinstance(opened.vectors, np.memmap)


def test_half_precision_is_half_the_bytes(tmp_path: Path) -> None:
    write_store(tmp_path, [f"d{at}" for at in range(100)], np.ones((100, 384), dtype=np.float16))
    assert (tmp_path / STORE_VECTORS).stat().st_size == 1_248 + 100 * 384 * 2


def test_the_same_vectors_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_store(tmp_path / name, ["a", "b", "c"], AXES)
    for file in (STORE_VECTORS, STORE_IDS):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


@pytest.mark.parametrize("file", [STORE_VECTORS, STORE_IDS])
@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "garbage", "folder"])
def test_a_damaged_file_is_not_ready(tmp_path: Path, file: str, damage: str) -> None:
    write_store(tmp_path, ["a", "b", "c"], AXES)
    path = tmp_path / file
    whole = path.read_bytes()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage != "gone":
        path.write_bytes({"empty": b"", "cut": whole[:-5], "garbage": b"\x93" * 400}[damage])
    with pytest.raises(IndexNotReady, match="harness stage index"):
        open_store(tmp_path, 4)


@pytest.mark.parametrize(
    "vectors",
    [
        np.eye(3, 4, dtype=np.float32),
        np.eye(4, dtype=np.float16),
        np.eye(2, 4, dtype=np.float16),
        np.ones(3, dtype=np.float16),
        np.full((3, 4), np.nan, dtype=np.float16),
    ],
)
def test_vectors_that_are_not_one_for_each_document_are_not_written(
    tmp_path: Path, vectors: NDArray[np.float16]
) -> None:
    with pytest.raises(ValueError, match=r"vector|half"):
        write_store(tmp_path, ["a", "b", "c"], vectors)
    assert list(tmp_path.iterdir()) == []


def test_vectors_of_another_dimension_or_number_are_not_ready(tmp_path: Path) -> None:
    write_store(tmp_path, ["a", "b", "c"], AXES)
    with pytest.raises(IndexNotReady, match=r"dimension 4.*harness stage index"):
        open_store(tmp_path, 3)
    write_store(tmp_path / "two", ["a", "b"], AXES[:2])
    (tmp_path / "two" / STORE_VECTORS).replace(tmp_path / STORE_VECTORS)
    with pytest.raises(IndexNotReady, match="2 vectors for 3 documents"):
        open_store(tmp_path, 4)


@pytest.mark.parametrize("ids", [3, None, ["a", "b"]])
def test_ids_that_do_not_fit_are_not_ready(tmp_path: Path, ids: object) -> None:
    write_store(tmp_path, ["a", "b", "c"], AXES)
    (tmp_path / STORE_IDS).write_text(json.dumps(ids))
    with pytest.raises(IndexNotReady):
        open_store(tmp_path, 4)


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
def test_blocks_that_cannot_hold_the_best_are_all_that_is_passed_over(
    seed: int, count: int, k: int, size: int, spread: int
) -> None:
    scores = np.random.default_rng(seed).normal(size=count).round(spread) / 20
    assert pairs(best(cut(scores, size), k, DIGITS)) == sorted_plainly(scores, k)


@pytest.mark.parametrize("order", [1, -1])
def test_rising_and_falling_scores(order: int) -> None:
    scores = np.linspace(-1, 1, 5 * BLOCK + 3)[::order]
    assert pairs(best(cut(scores, 2 * BLOCK), 9, DIGITS)) == sorted_plainly(scores, 9)


def test_a_score_that_rounds_up_to_the_bound_is_not_lost() -> None:
    scores = np.full(3 * BLOCK, -1.0)
    scores[[5, BLOCK, 2 * BLOCK]] = [0.1234560 - 4.9e-7, 0.1234560 + 4.9e-7, 0.5]
    assert pairs(best([scores], 2, DIGITS)) == [(2 * BLOCK, 0.5), (5, 0.123456)]


def test_the_first_of_equal_scores_are_kept_over_all_parts() -> None:
    scores = np.zeros(4 * BLOCK)
    assert best(cut(scores, BLOCK), 3, DIGITS).positions.tolist() == [0, 1, 2]


@pytest.mark.parametrize("count", [20 * BLOCK + 1, 20 * BLOCK + 3, 21 * BLOCK])
def test_the_last_score_of_many_blocks_is_found(count: int) -> None:
    scores = np.zeros(count)
    scores[-1] = 0.5
    assert pairs(best([scores], 1, DIGITS)) == [(count - 1, 0.5)]


@pytest.mark.parametrize("count", [9 * BLOCK, 300 * BLOCK])
def test_few_are_scored_once_more_also_where_there_are_fewer_blocks_than_are_wanted(
    count: int,
) -> None:
    scores = np.random.default_rng(7).permutation(count) / count
    again: list[int] = []

    def exact(at: NDArray[np.int64]) -> Floats:
        again.append(len(at))
        return scores[at]

    assert pairs(best([scores], 100, DIGITS, exact)) == sorted_plainly(scores, 100)
    assert again == [100]


def test_scores_that_are_off_by_a_unit_do_not_change_what_is_found() -> None:
    drawn = np.random.default_rng(7)
    scores = drawn.integers(0, 300, size=9 * BLOCK) / 10**DIGITS
    off = scores + drawn.uniform(-0.9, 0.9, size=len(scores)) / 10**DIGITS
    found = best([off], 100, DIGITS, lambda at: scores[at])
    assert pairs(found) == sorted_plainly(scores, 100)


def test_more_than_there_are_gives_all() -> None:
    assert pairs(best([np.array([0.1, 0.3])], 9, DIGITS)) == [(1, 0.3), (0, 0.1)]


def test_of_nothing_the_best_are_none() -> None:
    assert pairs(best([], 3, DIGITS)) == pairs(best([np.zeros(0)], 3, DIGITS)) == []


def test_minus_zero_is_shown_as_zero() -> None:
    (shown,) = best([np.array([-1e-9])], 1, DIGITS).scores.tolist()
    assert str(shown) == "0.0"


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


def found_pairs(top: Top) -> list[tuple[int, float]]:
    return list(zip(top.positions.tolist(), top.scores.tolist(), strict=True))


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
    assert found_pairs(found) == sorted(found_pairs(found), key=lambda pair: (-pair[1], pair[0]))


@pytest.mark.slow
@pytest.mark.parametrize("read_over", [1, 10_000])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 1.0])
def test_reading_over_and_copying_give_the_same(
    monkeypatch: pytest.MonkeyPatch, read_over: int, share: float
) -> None:
    vectors, query = drawn(3, 5_000, 384), drawn(4, 1, 384)[0].astype(np.float32)
    rows = np.flatnonzero(np.random.default_rng(5).random(len(vectors)) < share)
    every = dict(found_pairs(nearest(vectors, query, len(vectors))))
    monkeypatch.setattr(scan, "READ_OVER", read_over)
    monkeypatch.setattr(scan, "GATHER_ROWS", 300)
    found = found_pairs(nearest(vectors, query, 50, rows))
    by_hand = sorted(rows.tolist(), key=lambda row: (-every[row], row))[:50]
    assert found == [(row, every[row]) for row in by_hand]


@pytest.mark.parametrize(("step", "times"), [(100, 1), (6, 1), (4, 4), (1, 1)])
def test_rows_that_may_not_be_found_are_read_only_where_they_are_few(
    monkeypatch: pytest.MonkeyPatch, step: int, times: int
) -> None:
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
def test_threads_never_change_the_answer(
    monkeypatch: pytest.MonkeyPatch, threads: int, *, filtered: bool
) -> None:
    monkeypatch.setattr(scan, "THREAD_ROWS", 100)
    monkeypatch.setattr(scan, "SCAN_ROWS", 256)
    vectors = np.concatenate([drawn(1, 999), drawn(1, 999)])
    query = vectors[7].astype(np.float32)
    rows = np.arange(0, len(vectors), 3) if filtered else None
    alone = nearest(vectors, query, 100, rows)
    assert found_pairs(nearest(vectors, query, 100, rows, threads)) == found_pairs(alone)
    assert len(alone.positions) == 100


def test_a_vector_scores_the_same_in_every_company() -> None:
    vectors, query = drawn(8, 400, 384), drawn(9, 1, 384)[0].astype(np.float32)
    together = dict(found_pairs(nearest(vectors, query, 400)))
    for size in (1, 2, 3, 7, 16, 33):
        for low in range(0, 400 - size, 37):
            some = found_pairs(nearest(vectors[low : low + size], query, size))
            assert {low + row: cosine for row, cosine in some} == {
                row: together[row] for row in range(low, low + size)
            }


def test_sums_are_carried_in_single_precision() -> None:
    vectors = drawn(10, 2_000, 384)
    query = drawn(11, 1, 384)[0].astype(np.float32)
    found = nearest(vectors, query, len(vectors))
    off = np.abs(exact(vectors, query)[found.positions] - found.scores)
    assert off.max() <= 0.5 * 10**-COSINE_DIGITS + 1e-6


def test_no_allowed_row_finds_nothing() -> None:
    assert (
        found_pairs(nearest(drawn(1, 9), np.ones(DIMENSION, np.float32), 3, np.zeros(0, int))) == []
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e6])
def test_a_query_that_is_not_finite_is_refused(bad: float) -> None:
    query = np.zeros(DIMENSION, dtype=np.float32)
    query[5] = bad
    with pytest.raises(ValueError, match="not finite"):
        nearest(drawn(1, 9), query, 3)


@pytest.mark.parametrize("shape", [(DIMENSION - 1,), (DIMENSION, 1), (1, DIMENSION), ()])
def test_a_query_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="dimension 24"):
        nearest(drawn(1, 9), np.zeros(shape, dtype=np.float32), 3)


@pytest.mark.parametrize("rows", [[3, 2], [2, 2]])
def test_rows_that_do_not_ascend_are_refused(rows: list[int]) -> None:
    with pytest.raises(ValueError, match="ascend"):
        nearest(drawn(1, 9), np.ones(DIMENSION, np.float32), 3, np.array(rows))


def test_a_stored_vector_that_is_not_finite_is_no_answer() -> None:
    vectors = drawn(1, 9)
    vectors[4, 2] = np.nan
    with pytest.raises(ValueError, match="not a finite number"):
        nearest(vectors, np.ones(DIMENSION, np.float32), 3)
