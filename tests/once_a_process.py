"""What tests of whole commands do once in a process: models are read, and pictures are not drawn.

Both always say the same. What reads and what draws has tests of its own, which use neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import IO, Any

import pytest
from matplotlib.figure import Figure

from engines.sparse.splade import Splade
from engines.vector.carried import Carried
from engines.vector.onnx import OnnxEmbedder
from harness.report import svg

MOST_READ = 500
"""Texts whose reading is kept."""


def remembered(read: Callable[[Any, Any], Any]) -> Callable[[Any, str | Sequence[str]], Any]:
    """Keep what was read, by the model, the length it reads to, and the texts."""
    known: dict[object, Any] = {}

    def once(encoder: Any, texts: str | Sequence[str]) -> Any:  # noqa: ANN401  as the encoder's
        key = encoder.identity, texts if isinstance(texts, str) else tuple(texts)
        if key not in known:
            if len(known) == MOST_READ:
                known.clear()
            known[key] = read(encoder, texts)
        return known[key]

    return once


def loaded(load: Callable[[Any, int], Any]) -> Any:  # noqa: ANN401  as the encoder's
    """Keep a model, and look each time whether its files are there: a test may take them away."""
    kept = cache(load)

    def once(model: Carried, max_tokens: int) -> Any:  # noqa: ANN401  as the encoder's
        model.weights.path()
        model.tokenizer.path()
        return kept(model, max_tokens)

    return staticmethod(once)


ONCE = (
    (OnnxEmbedder, "load", loaded(OnnxEmbedder.load)),
    (OnnxEmbedder, "_states", remembered(OnnxEmbedder._states)),  # noqa: SLF001  where it reads
    (Splade, "load", loaded(Splade.load)),
    (Splade, "encode", remembered(Splade.encode)),
)


@contextmanager
def models() -> Iterator[None]:
    """Load a model and let it read a text once in this process."""
    with pytest.MonkeyPatch.context() as patched:
        for kind, name, once in ONCE:
            patched.setattr(kind, name, once)
        yield


class Undrawn(Figure):
    """A figure that is painted, and written as an empty picture: writing takes most of its time."""

    def savefig(self, to: IO[str], **_: object) -> None:  # type: ignore[override]
        to.write('<svg viewBox="0 0 1 1"></svg>')


@contextmanager
def pictures() -> Iterator[None]:
    """Write empty pictures on pages."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(svg, "Figure", Undrawn)
        yield
