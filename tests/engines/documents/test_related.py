"""What related chunks find that an answer lacks is counted against the ranks that follow."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.documents_related import Counted, counted
from benchmarks.lexical_weights import Collection
from engines.stacks.documents.settings import Settings
from harness.core.qrels import Qrels
from harness.core.records import Document, Judgement, Query

SETTINGS = Settings(
    tier="free",
    recall="bm25",
    embedder="",
    sparse="",
    max_tokens=64,
    fusion="rank",
    blend="rrf",
)


def test_each_lacking_document_is_counted_by_what_finds_it(tmp_path: Path) -> None:
    """Eight documents have the word; the related one only shares a name with the first."""
    texts = {f"d{n}": "tides " * (9 - n) + "and the sea" for n in range(8)}
    texts["d0"] += ". Written by Ada Lovelace"
    texts["named"] = "Ada Lovelace kept bees"
    texts["other"] = "bread and salt"
    documents = tuple(Document(name, "", text) for name, text in texts.items())
    grades = [Judgement("q", name, 1) for name in ("d0", "d6", "named", "other")]
    judged = Collection(
        "made", lambda: iter(documents), (Query("q", "tides"),), Qrels.of(iter(grades))
    )
    found = counted(judged, SETTINGS, tmp_path)
    assert found == Counted(lacking=3, related=1, following=1, both=0)
    assert "3 relevant documents are lacking: 1 are in the 5 related chunks" in str(found)


def test_a_difference_is_tested_over_what_one_alone_finds() -> None:
    assert Counted(92, 8, 23, 4).p_value == pytest.approx(2 * (1 + 23 + 253 + 1771 + 8855) / 2**23)
    assert Counted(5, 2, 2, 2).p_value == 1.0
