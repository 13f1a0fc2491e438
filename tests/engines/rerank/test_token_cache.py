"""Texts to token vectors: order, what is kept, a killed process, and one pass for both kinds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from engines.rerank.tokens import TokenStore, write_tokens
from engines.vector import bulk
from engines.vector.bulk import embed_all
from engines.vector.embedder import OnnxEmbedder, model
from tests.engines.rerank.reader import DIMENSION, Words

TEXTS = ["a long one " * 40, "short", "", "short", "middle sized"]


def written(folder: Path, texts: Sequence[str], reader: Words) -> TokenStore:
    write_tokens(folder / "tokens", range(1, len(texts) + 1), texts, reader, folder / "cache")
    return TokenStore.open(folder / "tokens", reader.identity, DIMENSION)


def check(store: TokenStore, texts: Sequence[str]) -> None:
    assert len(store.ids) == len(texts)
    for number, text in enumerate(texts, start=1):
        expected = Words().read([text]).tokens[0].astype(np.float16)
        assert np.array_equal(store.of(number), expected)


def test_each_text_has_the_vectors_of_its_tokens(tmp_path: Path) -> None:
    reader = Words()
    check(written(tmp_path, TEXTS, reader), TEXTS)
    assert sorted(reader.seen) == sorted(set(TEXTS))


def test_no_text_gives_an_empty_file(tmp_path: Path) -> None:
    check(written(tmp_path, [], Words()), [])


def test_what_is_known_costs_nothing(tmp_path: Path) -> None:
    written(tmp_path, TEXTS, Words())
    again = Words()
    check(written(tmp_path, TEXTS[::-1], again), TEXTS[::-1])
    assert again.seen == []
    check(written(tmp_path, [*TEXTS, "new"], again), [*TEXTS, "new"])
    assert again.seen == ["new"]


def test_the_one_pass_leaves_the_pooled_vectors_too(tmp_path: Path) -> None:
    written(tmp_path, TEXTS, Words())
    again = Words()
    half = embed_all(TEXTS, again, tmp_path / "cache")
    assert again.seen == []
    assert np.array_equal(half, Words().embed(TEXTS).astype(np.float16))


def test_readers_do_not_share_what_they_know(tmp_path: Path) -> None:
    written(tmp_path, ["text"], Words("one"))
    other = Words("two")
    written(tmp_path, ["text"], other)
    assert other.seen == ["text"]


def test_a_killed_process_loses_only_the_part_in_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "PART", 4)
    texts = [f"text {at:02}" for at in range(20)]
    with pytest.raises(RuntimeError, match="killed"):
        written(tmp_path, texts, Words(dies_at="text 07"))
    assert not (tmp_path / "tokens").exists()
    kept = len(list((tmp_path / "cache" / "tokens").rglob("*.npz")))
    assert 1 <= kept < 5
    again = Words()
    check(written(tmp_path, texts, again), texts)
    assert len(again.seen) == 20 - 4 * kept


@pytest.mark.parametrize("damage", [b"", b"no archive", None, "lengths"])
def test_a_broken_part_is_read_again(tmp_path: Path, damage: bytes | str | None) -> None:
    texts = ["one", "two words"]
    written(tmp_path, texts, Words())
    (part,) = (tmp_path / "cache" / "tokens").rglob("*.npz")
    if damage == "lengths":
        with np.load(part) as whole:
            held = {name: whole[name] for name in whole.files}
        np.savez(part, allow_pickle=False, **{**held, "lengths": held["lengths"] + 1})
    elif isinstance(damage, bytes):
        part.write_bytes(damage)
    else:
        part.write_bytes(part.read_bytes()[:-30])
    again = Words()
    check(written(tmp_path, texts, again), texts)
    assert sorted(again.seen) == texts


def test_the_models_tokens_are_those_that_its_pooled_vector_is_the_mean_of(tmp_path: Path) -> None:
    embedder = OnnxEmbedder.load(model("all-MiniLM-L6-v2"), 32)
    texts = ["read_csv", "The soprano sings an aria while the orchestra plays.", ""]
    reading = embedder.read(texts)
    assert np.array_equal(reading.pooled, embedder.embed(texts))
    assert [len(one) for one in reading.tokens] == [6, 12, 2]
    for one, text in zip(reading.tokens, texts, strict=True):
        assert np.linalg.norm(one, axis=1) == pytest.approx(1, abs=1e-6)
        assert np.array_equal(one, embedder.read([text]).tokens[0])
    write_tokens(tmp_path / "file", [1, 2, 3], texts, embedder, tmp_path / "cache")
    store = TokenStore.open(tmp_path / "file", embedder.identity, embedder.dimension)
    assert np.array_equal(store.of(2), reading.tokens[1].astype(np.float16))
