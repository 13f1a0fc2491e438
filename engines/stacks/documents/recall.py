"""Stage 1: the chunks that share words with the query, by the specification's BM25."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engines.stacks.documents.bm25 import Bm25
from engines.stacks.documents.library import Library
from harness.core.errors import IndexNotReady

FOLDER = "recall"


class Recall(Protocol):
    """Finds candidates."""

    def search(
        self, text: str, limit: int, allowed: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int64]:
        """Positions of at most ``limit`` chunks, best first, equal ones by position.

        ``allowed``, shape (chunks,), says which may be found; None allows all.
        """
        ...


def build(library: Library, folder: Path) -> None:
    """Index the chunks of a library into ``folder``."""
    made = folder / FOLDER
    made.mkdir()
    Bm25.of(chunk.text for chunk in library.chunks).write(made)


def opened(library: Library, folder: Path) -> Recall:
    """Open what ``build`` wrote.

    Raises:
        IndexNotReady: it is missing, broken, or of other chunks.
    """
    index = Bm25.open(folder / FOLDER)
    if len(index.lengths) != len(library.chunks):
        raise IndexNotReady(
            f"{folder / FOLDER}: holds {len(index.lengths)} chunks where there are"
            f" {len(library.chunks)}. Build it again: harness index"
        )
    return index
