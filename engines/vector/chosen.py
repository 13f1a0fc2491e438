"""The embedder that an arm names: a model of ``engines.vector.models``, or the hash embedder."""

from __future__ import annotations

from engines.vector.embedder import Embedder
from engines.vector.hashed import HashEmbedder
from engines.vector.models import MODELS, model
from engines.vector.onnx import OnnxEmbedder
from engines.vector.onnx import identity_of as of_model

HASH = "hash"


def embedder_of(name: str, max_tokens: int) -> Embedder:
    """Open a model of ``engines.vector.models``, or the hash embedder.

    Raises:
        UnknownName: the model is unknown.
        ModelNotReady: it is absent or not the pinned one.
    """
    return HashEmbedder() if name == HASH else OnnxEmbedder.load(model(name), max_tokens)


def identity_of(name: str, max_tokens: int) -> str:
    """Give the identity of an embedder without opening it.

    Raises:
        UnknownName: the model is unknown.
        ModelNotReady: a package that it needs is absent.
    """
    return HashEmbedder().identity if name == HASH else of_model(model(name), max_tokens)


def apart(one: str, other: str) -> bool:
    """Whether vectors of two known embedders have no directions in common."""
    weights = {HASH: HASH} | {known.name: known.weights.sha256 for known in MODELS}
    return one in weights and other in weights and weights[one] != weights[other]
