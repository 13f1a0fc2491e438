"""Terms of many texts are made once, kept by content, and made again where the file broke."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from engines.sparse import SPARSE, Terms, encode_all


class Counting:
    """Gives a text its length as the only term, and remembers who asked."""

    identity = "counting 1"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, text: str) -> Terms:
        self.asked.append(text)
        count = int(bool(text))
        return Terms(np.full(count, len(text)), np.full(count, 0.5, dtype=np.float32))


def lengths(texts: list[str], encoder: Counting, cache: Path) -> list[list[int]]:
    store = encode_all(texts, encoder, 100, cache)
    return [part.tolist() for part in np.split(store.terms, store.offsets[1:-1])]


def test_only_texts_never_seen_are_read(tmp_path: Path) -> None:
    encoder = Counting()
    assert lengths(["aa", "", "b", "aa"], encoder, tmp_path) == [[2], [], [1], [2]]
    assert sorted(encoder.asked) == ["", "aa", "b"]
    assert lengths(["b", "cccc"], encoder, tmp_path) == [[1], [4]]
    assert encoder.asked[3:] == ["cccc"]


def test_another_encoder_shares_nothing(tmp_path: Path) -> None:
    lengths(["aa"], Counting(), tmp_path)
    other = Counting()
    other.identity = "counting 2"
    lengths(["aa"], other, tmp_path)
    assert other.asked == ["aa"]


def test_what_a_broken_file_held_is_made_again(tmp_path: Path) -> None:
    lengths(["aa", "b"], Counting(), tmp_path)
    (part,) = (tmp_path / SPARSE).rglob("*.npz")
    part.write_bytes(part.read_bytes()[:40])
    again = Counting()
    assert lengths(["aa", "b"], again, tmp_path) == [[2], [1]]
    assert sorted(again.asked) == ["aa", "b"]


def test_no_text_gives_no_row(tmp_path: Path) -> None:
    assert len(encode_all([], Counting(), 100, tmp_path)) == 0
