"""The file of token vectors: what was written is read, and any damage is noticed."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engines.contract import EngineError, IndexUnavailable
from engines.rerank import tokens
from engines.rerank.tokens import Contents, Ids, TokenStore
from engines.vector.scan import Half
from tests.make.damage import overwrite

BY, DIMENSION = "a model", 8


def vectors(length: int, seed: int) -> Half:
    return np.random.default_rng(seed).normal(size=(length, DIMENSION)).astype(np.float16)


def contents(ids: Sequence[int], held: Sequence[Half]) -> Contents:
    def fill(slab: Half, offsets: Ids) -> None:
        for at, one in enumerate(held):
            slab[offsets[at] : offsets[at + 1]] = one

    lengths = np.array([len(one) for one in held], dtype=np.int64)
    return Contents(np.array(ids, dtype=np.int64), lengths, fill)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    held = [vectors(3, 1), vectors(0, 2), vectors(5, 3)]
    tokens.write(tmp_path / "tokens", BY, DIMENSION, contents([4, 7, 90], held))
    return tmp_path / "tokens"


def refused(path: Path, why: str, by: str = BY, dimension: int = DIMENSION) -> None:
    with pytest.raises(IndexUnavailable, match=why):
        TokenStore.open(path, by, dimension)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    by_id=st.dictionaries(st.integers(-(2**40), 2**40), st.integers(0, 9), max_size=8),
    by=st.text("abc é", max_size=9),
)
def test_what_was_written_is_read(tmp_path: Path, by_id: dict[int, int], by: str) -> None:
    ids = sorted(by_id)
    held = [vectors(by_id[one], seed) for seed, one in enumerate(ids)]
    tokens.write(tmp_path / "tokens", by, DIMENSION, contents(ids, held))
    store = TokenStore.open(tmp_path / "tokens", by, DIMENSION)
    assert store.ids.tolist() == ids
    for one, expected in zip(ids, held, strict=True):
        assert np.array_equal(store.of(one), expected)


def test_the_layout_is_the_one_that_is_described(path: Path) -> None:
    raw = path.read_bytes()
    assert raw[:4] == b"TOKS"
    assert struct.unpack_from("<HHIQQ", raw, 4) == (1, len(BY), DIMENSION, 3, 8)
    assert raw[40:47] == BY.encode()
    assert struct.unpack_from("<7q", raw, 48) == (4, 7, 90, 0, 3, 3, 8)
    assert raw[128:] == np.concatenate([vectors(3, 1), vectors(5, 3)]).tobytes()


@pytest.mark.parametrize("unknown", [3, 5, 91])
def test_a_text_that_is_not_there_is_an_engine_error(path: Path, unknown: int) -> None:
    with pytest.raises(EngineError, match=f"text {unknown} "):
        TokenStore.open(path, BY, DIMENSION).of(unknown)


def test_every_byte_counts(path: Path) -> None:
    raw = path.read_bytes()
    padding = {*range(28, 32), *range(36, 40)}  # of the header, beside what the digest covers
    for at in sorted(set(range(len(raw))) - padding):
        broken = bytearray(raw)
        broken[at] ^= 1
        overwrite(path, broken)
        refused(path, "Build the token vectors anew")


@pytest.mark.parametrize("length", [0, 3, 39, 40, 100, -1])
def test_a_file_that_was_cut_is_noticed(path: Path, length: int) -> None:
    overwrite(path, path.read_bytes()[:length])
    refused(path, "invalid file of token vectors|bytes, its header says")


def test_a_file_of_another_model_or_none_is_not_ready(path: Path, tmp_path: Path) -> None:
    refused(path, "'another'", by="another")
    refused(path, "dimension", dimension=DIMENSION + 1)
    refused(tmp_path / "nowhere", "nowhere")


def test_what_is_open_stays_whole_when_the_file_is_replaced(path: Path) -> None:
    store = TokenStore.open(path, BY, DIMENSION)
    tokens.write(path, BY, DIMENSION, contents([4], [vectors(2, 9)]))
    assert np.array_equal(store.of(90), vectors(5, 3))
    assert np.array_equal(TokenStore.open(path, BY, DIMENSION).of(4), vectors(2, 9))


def test_a_writing_that_fails_leaves_the_old_file(path: Path) -> None:
    def fails(*_: object) -> None:
        raise KeyboardInterrupt

    before = path.read_bytes()
    one = np.array([1], dtype=np.int64)
    with pytest.raises(KeyboardInterrupt):
        tokens.write(path, BY, DIMENSION, Contents(one, one, fails))
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("ids", "lengths"), [([2, 1], [1, 1]), ([1, 1], [1, 1]), ([1], [1, 1]), ([1], [-1])]
)
def test_what_does_not_fit_together_is_refused(
    tmp_path: Path, ids: list[int], lengths: list[int]
) -> None:
    given_up = Contents(np.array(ids), np.array(lengths), lambda *_: None)
    with pytest.raises(ValueError, match="ascend"):
        tokens.write(tmp_path / "tokens", BY, DIMENSION, given_up)
