"""Vectors: searched, embedded in bulk, and the bytes of their files."""

import os
import struct
import threading
import zlib
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness.core.errors import HarnessError
from harness_engines.contract import EngineError, IndexUnavailable
from harness_engines.vector import bulk
from harness_engines.vector.amvi import AmviIndex, updated, write_amvi
from harness_engines.vector.bulk import RecordedEmbedder, embed_all, take, write
from harness_engines.vector.embedder import HashEmbedder, unit
from harness_engines.vector.scan import Top, best, nearest

DIGITS = 6


def pairs(top: Top) -> list[tuple[int, float]]:
    return list(zip(top.positions.tolist(), top.scores.tolist(), strict=True))


@given(
    st.lists(st.sampled_from([-0.5, 0.0, 0.25, 0.25 + 4e-7, 0.25 + 6e-7, 1.0]), max_size=60),
    st.integers(1, 65),
    st.integers(1, 61),
)
@example([0.25, 0.25, 0.25, 1.0], 3, 4)
def test_as_a_plain_sort_finds_it_of_topk(values: list[float], k: int, size: int) -> None:
    scores = np.array(values, dtype=np.float64)
    blocks = [scores[low : low + size] for low in range(0, len(scores), size)]
    by_hand = sorted(enumerate(scores.round(DIGITS).tolist()), key=lambda one: (-one[1], one[0]))
    assert pairs(best(blocks, k, DIGITS)) == by_hand[:k]


DIMENSION = 24
TOLERANCE = 2e-6
SEED = st.integers(0, 2**32)


def drawn(seed: int, count: int, dimension: int = DIMENSION) -> NDArray[np.float16]:
    drawn = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    return unit(drawn).astype(np.float16)


def exact(vectors: NDArray[np.float16], query: NDArray[np.float32]) -> NDArray[np.float64]:
    return vectors.astype(np.float64) @ query.astype(np.float16).astype(np.float64)


@settings(max_examples=60)
@given(SEED, st.integers(1, 900), st.integers(1, 30), st.floats(0, 1), st.sampled_from([1, 2]))
def test_a_filter_applies_before_ranking(
    seed: int, count: int, k: int, share: float, part: int
) -> None:
    vectors, query = drawn(seed, count), drawn(seed + 1, 1)[0].astype(np.float32)
    rows = np.flatnonzero(np.random.default_rng(seed).random(count) < share)
    rows = rows[: len(rows) // part]
    cosines = exact(vectors, query)
    found = nearest(vectors, query, k, rows)
    assert set(found.positions.tolist()) <= set(rows.tolist())
    assert np.allclose(cosines[found.positions], found.scores, rtol=0, atol=TOLERANCE)
    best = np.sort(cosines[rows])[::-1][:k]
    assert np.allclose(found.scores, best, rtol=0, atol=TOLERANCE)
    assert pairs(found) == sorted(pairs(found), key=lambda pair: (-pair[1], pair[0]))


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
    for identity in ("one", "two"):
        embedder = Counting(identity)
        embed_all(["same", "same", "other"], embedder, tmp_path)
        assert embedder.seen == ["other", "same"], identity


def test_a_text_without_a_sign_is_near_nothing(tmp_path: Path) -> None:
    one = np.ones((1, 16), dtype=np.float32)
    with mock.patch.object(Counting, "embed", lambda _, texts: np.repeat(one, len(texts), axis=0)):
        half = embed_all(["", "*", " \n", "\u200b", "\ufeff\xad"], Counting(), tmp_path)
    assert [row.any() for row in half] == [False, True, False, False, False]


def test_a_kill_loses_only_the_work(tmp_path: Path) -> None:
    """Short texts come last: every part before theirs is done, whatever the order of threads."""
    texts = [f"text {at} {'.' * at}" for at in range(300)]
    with pytest.raises(RuntimeError, match="killed"):
        embed_all(texts, Counting(dies_at="text 20 "), tmp_path)
    kept = sorted(len(np.load(path)["keys"]) for path in tmp_path.rglob("*.npz"))
    assert kept == [300 % 64, 64, 64, 64]
    again = Counting()
    assert np.array_equal(embed_all(texts, again, tmp_path), expected(texts))
    assert again.seen == sorted(texts[:64])
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.parametrize("long", [1, 40])
def test_batches_agree(tmp_path: Path, long: int) -> None:
    texts = [f"text {at} " * (at % long) for at in range(120)]
    assert np.array_equal(embed_all(texts, Counting(), tmp_path), expected(texts))
    again = Counting()
    assert np.array_equal(embed_all(texts, again, tmp_path), expected(texts))
    assert again.seen == []


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
    here, cache = Elsewhere(4 * bulk.NEAR), tmp_path / "second"
    said = take(record, here, cache, TEXTS)
    assert said is not None
    assert not said.used
    assert not (bulk.folder_of(cache, bulk.VECTORS, here) / bulk.RECORDED).exists()
    assert bulk.recorded(here, cache) is here


def test_a_processor_that_is_off_by_less_than_a_unit_gives_what_is_recorded(
    record: Path, tmp_path: Path
) -> None:
    here, cache = Elsewhere(bulk.NEAR / 2), tmp_path / "second"
    said = take(record, here, cache, TEXTS[:3])
    assert said is not None
    assert said.used
    assert 0 < said.apart <= bulk.NEAR
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


@pytest.mark.parametrize("texts", [[], ["nobody recorded this"]])
def test_other_texts_do_not_take_it(record: Path, tmp_path: Path, texts: list[str]) -> None:
    assert take(record, Elsewhere(), tmp_path / "second", texts) is None


EMBEDDER = "hash, één"
NAME = EMBEDDER.encode()
IDS = np.array([-3, 7, 2**40], dtype=np.int64)
THREE = np.array([[1, 0], [0.6, 0.8], [0, -1]], dtype=np.float16)
ONE_FILE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "messages.amvi"


def small(path: Path) -> AmviIndex:
    write_amvi(path, EMBEDDER, IDS, THREE)
    return AmviIndex.open(path, EMBEDDER, 2)


def as_query(*values: float) -> NDArray[np.float32]:
    return np.array(values, dtype=np.float32)


def by_hand(embedder: bytes, records: bytes, slab: bytes, version: int = 1) -> bytes:
    """Lay a file of dimension 2 out, with nothing of the module under test."""
    body = embedder + b"\0" * (-(24 + len(embedder)) % 8) + records
    body += b"\0" * (-(24 + len(body)) % 32) + slab
    count = len(records) // 12
    head = b"AMVI" + struct.pack("<HIQH", version, 2, count, len(embedder))
    return head + struct.pack("<I", zlib.crc32(body)) + body


def records(*pairs: tuple[int, int]) -> bytes:
    return b"".join(struct.pack("<qI", *pair) for pair in pairs)


GOLDEN = by_hand(
    NAME, records((-3, 0), (7, 1), (2**40, 2)), struct.pack("<6e", 1, 0, 0.6, 0.8, 0, -1)
)


def test_the_bytes_are_those_laid_out_by_hand(path: Path) -> None:
    write_amvi(path, EMBEDDER, IDS, THREE)
    assert path.read_bytes() == GOLDEN
    assert len(GOLDEN) == 24 + (11 + 5) + (36 + 20) + 12
    assert GOLDEN[:20].hex() == "414d564901000200000003000000000000000b00"
    assert GOLDEN[24:40] == "hash, één".encode() + bytes(5)
    assert GOLDEN[40:52].hex() == "fdffffffffffffff00000000"
    assert GOLDEN[64:76].hex() == "000000000001000002000000"
    assert GOLDEN[96:].hex() == "003c0000cd38663a000000bc"
    index = AmviIndex.open(path, EMBEDDER, 2)
    assert index.message_ids.tolist() == IDS.tolist()
    assert np.array_equal(index.vectors, THREE)
    assert isinstance(index.vectors, np.memmap)
    assert index.vectors.ctypes.data % 32 == 0
    turned = np.array([2, 0, 1])
    write_amvi(path, EMBEDDER, IDS[turned], THREE[turned])
    assert path.read_bytes() == GOLDEN


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_flipped_byte_is_seen_wherever_it_is(path: Path, flip: int) -> None:
    for at in range(len(GOLDEN)):
        path.write_bytes(GOLDEN[:at] + bytes([GOLDEN[at] ^ flip]) + GOLDEN[at + 1 :])
        with pytest.raises(IndexUnavailable) as told:
            AmviIndex.open(path, EMBEDDER, 2)
        assert "anew" in str(told.value), at


@pytest.mark.parametrize(("embedder", "dimension"), [("hash", 2), ("", 2), (EMBEDDER, 3)])
def test_another_embedder_is_not_ready(path: Path, embedder: str, dimension: int) -> None:
    write_amvi(path, EMBEDDER, IDS, THREE)
    with pytest.raises(IndexUnavailable, match=r"embedder|dimension"):
        AmviIndex.open(path, embedder, dimension)


def test_the_highest_cosine_comes_first_and_ties_go_by_message_id(path: Path) -> None:
    index = small(path)
    found = index.search(as_query(1, 0), 9)
    assert [message_id for message_id, _ in found] == [-3, 7, 2**40]
    assert [cosine for _, cosine in found] == pytest.approx([1, 0.6, 0], abs=1e-3)
    assert [cosine for _, cosine in index.search(as_query(0, 1), 9)][-1] == -1
    allowed = np.array([-(2**63), -4, 7, 8, 2**40, 2**63 - 1], dtype=np.int64)
    assert [found for found, _ in index.search(as_query(1, 0), 9, allowed)] == [7, 2**40]
    assert index.search(as_query(1, 0), 9, allowed[:2]) == []
    message_ids = np.array([30, -10, 20, 5], dtype=np.int64)
    write_amvi(path, EMBEDDER, message_ids, np.tile(THREE[1], (4, 1)))
    index = AmviIndex.open(path, EMBEDDER, 2)
    assert [message_id for message_id, _ in index.search(as_query(0.6, 0.8), 3)] == [-10, 5, 20]
    path.write_bytes(by_hand(NAME, records((1, 0)), struct.pack("<2e", float("nan"), 0)))
    with pytest.raises(EngineError, match="finite"):
        AmviIndex.open(path, EMBEDDER, 2).search(as_query(1, 0), 1)


@ONE_FILE
@given(
    SEED,
    st.sets(st.integers(0, 120), max_size=80),
    st.sets(st.integers(-5, 125), max_size=60),
    st.integers(1, 12),
)
def test_only_allowed(path: Path, seed: int, stored: set[int], allowed: set[int], k: int) -> None:
    message_ids, vectors = np.array(sorted(stored), dtype=np.int64), drawn(seed, len(stored), 8)
    write_amvi(path, EMBEDDER, message_ids, vectors)
    index = AmviIndex.open(path, EMBEDDER, 8)
    query = drawn(seed + 1, 1, 8)[0].astype(np.float32)
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
    SEED,
)
def test_an_update_gives_the_bytes_of_a_building(
    path: Path, old: set[int], new: set[int], deleted: set[int], seed: int
) -> None:
    deleted -= new
    old_vectors, new_vectors = drawn(seed, len(old), 8), drawn(seed + 1, len(new), 8)
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
