"""The embedder that an arm names: a model of ``engines.vector.models``, or the hash embedder."""

from __future__ import annotations

from engines.vector.embedder import Embedder
from engines.vector.hashed import HashEmbedder
from engines.vector.models import model
from engines.vector.onnx import OnnxEmbedder

HASH = "hash"


def embedder_of(name: str, max_tokens: int) -> Embedder:
    """Open a model of ``engines.vector.models``, or the hash embedder.

    Raises:
        UnknownName: the model is unknown.
        ModelNotReady: it is absent or not the pinned one.
    """
    return HashEmbedder() if name == HASH else OnnxEmbedder.load(model(name), max_tokens)
