"""Vectors in files: the bytes, every damage, and what is read of them."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness_engines.contract import EngineError, IndexUnavailable
from harness_engines.vector.amvi import AmviIndex, VectorStore, updated, write_amvi
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


@pytest.mark.parametrize(("embedder", "dimension"), [("hash", 2), ("", 2), (EMBEDDER, 3)])
def test_another_embedder_is_not_ready(path: Path, embedder: str, dimension: int) -> None:
    write_amvi(path, EMBEDDER, IDS, VECTORS)
    with pytest.raises(IndexUnavailable, match=r"embedder|dimension"):
        AmviIndex.open(path, embedder, dimension)


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
