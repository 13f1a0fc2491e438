"""Vectors in files: the bytes, every damage, and what is read of them."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness.core.errors import IndexNotReady
from harness_engines.contract import EngineError, IndexUnavailable
from harness_engines.vector.amvi import (
    CHUNK_ROWS,
    AmviIndex,
    VectorStore,
    open_store,
    updated,
    write_amvi,
    write_store,
)
from harness_engines.vector.amvi import IDS as STORE_IDS
from harness_engines.vector.amvi import VECTORS as STORE_VECTORS
from harness_engines.vector.embedder import unit
from harness_engines.vector.scan import COSINE_DIGITS

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


def test_the_bytes_are_those_laid_out_by_hand(path: Path) -> None:
    write_amvi(path, EMBEDDER, IDS, VECTORS)
    assert path.read_bytes() == GOLDEN
    assert len(GOLDEN) == 24 + (11 + 5) + (36 + 20) + 12
    assert GOLDEN[:20].hex() == "414d564901000200000003000000000000000b00"
    assert GOLDEN[24:40] == "hash, één".encode() + bytes(5)
    assert GOLDEN[40:52].hex() == "fdffffffffffffff00000000"
    assert GOLDEN[64:76].hex() == "000000000001000002000000"
    assert GOLDEN[96:].hex() == "003c0000cd38663a000000bc"
    path.write_bytes(GOLDEN)
    index = AmviIndex.open(path, EMBEDDER, 2)
    assert index.message_ids.tolist() == IDS.tolist()
    assert np.array_equal(index.vectors, VECTORS)
    assert isinstance(index.vectors, np.memmap)
    assert index.vectors.ctypes.data % 32 == 0
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


@pytest.mark.parametrize(
    "content",
    [
        *(GOLDEN + more for more in (b"\0", b"\0" * 32, GOLDEN)),
        GOLDEN[:10] + b"\xff" * 8 + GOLDEN[18:],
    ],
)
def test_another_length_than_the_header_says_is_seen(path: Path, content: bytes) -> None:
    assert "bytes" in opened_as_not_ready(path, content)


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
def test_a_file_of_another_index_is_not_ready(path: Path, content: bytes, said: str) -> None:
    assert said in opened_as_not_ready(path, content)


@pytest.mark.parametrize(("embedder", "dimension"), [("hash", 2), ("", 2), (EMBEDDER, 3)])
def test_another_embedder_is_not_ready(path: Path, embedder: str, dimension: int) -> None:
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


def test_the_highest_cosine_comes_first_and_all_are_ranked(path: Path) -> None:
    found = small(path).search(as_query(1, 0), 9)
    assert [message_id for message_id, _ in found] == [-3, 7, 2**40]
    assert [cosine for _, cosine in found] == pytest.approx([1, 0.6, 0], abs=1e-3)
    assert [cosine for _, cosine in small(path).search(as_query(0, 1), 9)][-1] == -1
    index = small(path)
    allowed = np.array([-(2**63), -4, 7, 8, 2**40, 2**63 - 1], dtype=np.int64)
    assert [found for found, _ in index.search(as_query(1, 0), 9, allowed)] == [7, 2**40]
    assert index.search(as_query(1, 0), 9, allowed[:2]) == []


def test_ties_go_by_message_id(path: Path) -> None:
    message_ids = np.array([30, -10, 20, 5], dtype=np.int64)
    write_amvi(path, EMBEDDER, message_ids, np.tile(VECTORS[1], (4, 1)))
    index = AmviIndex.open(path, EMBEDDER, 2)
    assert [message_id for message_id, _ in index.search(as_query(0.6, 0.8), 3)] == [-10, 5, 20]
    path.write_bytes(by_hand(NAME, records((1, 0)), struct.pack("<2e", float("nan"), 0)))
    with pytest.raises(EngineError, match="finite"):
        AmviIndex.open(path, EMBEDDER, 2).search(as_query(1, 0), 1)


@pytest.mark.parametrize("allowed", [None, np.array([1, 2], dtype=np.int64)])
def test_an_empty_index_finds_nothing(path: Path, allowed: NDArray[np.int64] | None) -> None:
    write_amvi(path, EMBEDDER, IDS[:0], VECTORS[:0])
    assert AmviIndex.open(path, EMBEDDER, 2).search(as_query(1, 0), 5, allowed) == []


@ONE_FILE
@given(
    st.integers(0, 2**32),
    st.sets(st.integers(0, 120), max_size=80),
    st.sets(st.integers(-5, 125), max_size=60),
    st.integers(1, 12),
)
def test_only_allowed(path: Path, seed: int, stored: set[int], allowed: set[int], k: int) -> None:
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
    vectors = np.array([[1, 0], [1, 0.0002]], dtype=np.float16)
    (one, first), (other, second) = ask(vectors, [1, 0.001], 2)
    assert (one, other) == ("d00", "d01")
    assert first == second == round(first, COSINE_DIGITS)
    assert ask(AXES, [0, 0, 0, 0], 5) == []
    assert ask(np.zeros((0, 4), dtype=np.float16), [1, 0, 0, 0], 5) == []


@pytest.mark.parametrize("k", [1, 3, 9])
def test_a_right_angle_and_beyond_are_not_shown(k: int) -> None:
    vectors = np.array([[1, 0], [0, 1], [-1, 0]], dtype=np.float16)
    assert [doc_id for doc_id, _ in ask(vectors, [1, 0], k)] == ["d00"]
    assert ask(vectors, [0, -1], k) == []


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
    write_store(tmp_path, [f"d{at}" for at in range(100)], np.ones((100, 384), dtype=np.float16))
    assert (tmp_path / STORE_VECTORS).stat().st_size == 1_248 + 100 * 384 * 2
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
def test_one_vector_for_each_document(tmp_path: Path, vectors: NDArray[np.float16]) -> None:
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
