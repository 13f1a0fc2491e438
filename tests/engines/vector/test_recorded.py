"""Vectors of a record are used where fresh ones agree, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engines.vector import bulk
from engines.vector.bulk import NEAR, RECORDED, VECTORS, Recorded, embed_all, folder_of, take, write
from engines.vector.embedder import Embedder, unit

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
