"""Real prose for the tests: the docstrings of numpy's functions, as notes."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.core.records import Document
from harness_engines.stacks.writing.arm import Writing
from harness_engines.stacks.writing.arm import engine as make
from harness_engines.vector.embedder import unit

SETTINGS: dict[str, Any] = {
    "tokenize": "unicode61",
    "title_weight": 2.0,
    "chunk_characters": 1200,
    "queries": ["text", "phrase", "strongest", "any"],
    "tokens": "first",
    "combine": "union",
    "rrf_k": 60,
    "candidates": 50,
    "enough": 24,
    "snippet_tokens": 40,
    "snippet_characters": 400,
    "rerank": True,
    "top": 12,
    "embedder": "all-MiniLM-L6-v2",
    "max_tokens": 128,
    "cache_entries": 256,
    "cache_bytes": 4_000_000,
}


@cache
def notes() -> tuple[Document, ...]:
    """Give a note a function of numpy that has prose."""
    found = []
    for name in sorted(vars(np)):
        text = inspect.getdoc(getattr(np, name)) if callable(getattr(np, name)) else None
        if text and len(text) > 200:
            found.append(Document(f"notes/{name}.md", f"numpy.{name}", text))
    return tuple(found)


def writing(**changed: Any) -> Writing:  # noqa: ANN401  settings as a TOML file has them
    """Make the stack with some settings changed."""
    engine = make({**SETTINGS, **changed}, Path())
    assert isinstance(engine, Writing)
    return engine


class Letters:
    """An embedder of letters: vectors that a person can count."""

    def __init__(self, identity: str = "letters") -> None:
        self.identity = identity
        self.dimension = 26
        self.read: list[str] = []

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.read += texts
        counts: NDArray[np.float32] = np.array(
            [[text.lower().count(chr(97 + at)) for at in range(26)] for text in texts],
            dtype=np.float32,
        )
        return unit(counts)
