"""Vectors that are kept."""

from __future__ import annotations

import numpy as np
import pytest

from engines.stacks.writing.retrieval import VectorCache
from tests.make.notes import Letters

pytestmark = pytest.mark.slow


def test_a_text_is_embedded_once_a_model() -> None:
    cache, one, other = VectorCache(10, 10_000), Letters("one"), Letters("other")
    for embedder in (one, one, other):
        vector = cache.vector(embedder, "abba")
        assert vector[:2].tolist() == pytest.approx([0.5**0.5, 0.5**0.5])
    assert one.read == ["abba"]
    assert other.read == ["abba"]
    assert len(cache) == 2
    with pytest.raises(ValueError, match="read-only"):
        cache.vector(one, "abba")[0] = 1


def test_what_was_used_longest_ago_goes_first() -> None:
    cache, letters = VectorCache(2, 10_000), Letters()
    for text in ("a", "b", "a", "c", "a", "b"):
        cache.vector(letters, text)
    assert letters.read == ["a", "b", "c", "b"]


@pytest.mark.parametrize("entries", [0, 7, 10_000])
@pytest.mark.parametrize("size", [0, 2_000, 50_000])
def test_it_never_exceeds_its_bounds_under_ten_thousand_random_snippets(
    entries: int, size: int
) -> None:
    rng = np.random.default_rng(1)
    cache, letters = VectorCache(entries, size), Letters()
    lengths = rng.zipf(1.5, 10_000).clip(max=3_000)
    for at, length in enumerate(lengths.tolist()):
        text = f"{at % 700} " + "é" * length
        cache.vector(letters, text)
        assert len(cache) <= entries
        assert cache.held_bytes <= size
    held = cache._held.items()  # noqa: SLF001  counted anew
    told = sum(len("".join(key).encode()) + vector.nbytes for key, (vector, _) in held)
    assert cache.held_bytes == told
    assert bool(len(cache)) == (entries > 0 and size > 0)
