"""The sparse models that arms may name: one table, so that a swap is one line."""

from __future__ import annotations

from dataclasses import dataclass

from engines.vector.packaged import ModelFile, PackagedModel, called


@dataclass(frozen=True, slots=True)
class SparseModel(PackagedModel):
    """A BERT that predicts masked words, trained so that its predictions are a text's terms."""

    terms: int
    """Size of the vocabulary, and so of a vector."""
    layers: int
    heads: int


MODELS = (
    SparseModel(
        name="splade-tiny",
        licence="Apache-2.0",
        terms=30_522,
        layers=2,
        heads=2,
        weights=ModelFile(
            "cognition",
            "model/model.safetensors",
            "96e1dd8dbbc82439cf50677a15bcb9141172b289d20b41c9c28b621a0451a02a",
        ),
        tokenizer=ModelFile(
            "cognition",
            "model/tokenizer.json",
            "91f1def9b9391fdabe028cd3f3fcc4efd34e5d1f08c3bf2de513ebb5911a1854",
        ),
    ),
)


def sparse_model(name: str) -> SparseModel:
    """Look a model up.

    Raises:
        UnknownName: it is not in the table.
    """
    return called(name, MODELS, "sparse model")
