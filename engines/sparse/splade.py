"""Text to weighted terms of a vocabulary, also such as the text does not hold.

Formal, Lassance, Piwowarski and Clinchant, "SPLADE v2: Sparse Lexical and Expansion Model for
Information Retrieval", 2021: a term weighs max over tokens of log(1 + relu(logit)).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from engines.sparse.bert import MaskedWords
from engines.sparse.models import SparseModel
from engines.vector.onnx import CHARACTERS_A_TOKEN


class Terms(NamedTuple):
    """A sparse vector."""

    terms: NDArray[np.int64]
    """Ascending."""
    weights: NDArray[np.float32]
    """Above 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Splade:
    """Encodes one text at a time, so that a text's terms never depend on its neighbours."""

    model: SparseModel
    max_tokens: int
    tokenizer: Tokenizer
    network: MaskedWords

    @classmethod
    def load(cls, model: SparseModel, max_tokens: int) -> Splade:
        """Read the model's files; text beyond ``max_tokens`` is not read.

        Raises:
            ModelNotReady: one of them is absent or not the pinned one.
        """
        tokenizer = Tokenizer.from_file(str(model.tokenizer.path()))
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_tokens)
        tensors = load_file(str(model.weights.path()))
        return cls(model, max_tokens, tokenizer, MaskedWords.of(tensors, model.layers, model.heads))

    def __reduce__(self) -> tuple[Callable[[SparseModel, int], Splade], tuple[SparseModel, int]]:
        """Let another process load the same model, once."""
        return _loaded, (self.model, self.max_tokens)

    @property
    def identity(self) -> str:
        """Everything that terms depend on beside their text; two that differ share no cache."""
        return f"{self.model.identity}, {self.max_tokens} tokens, numpy {np.__version__}"

    def encode(self, text: str) -> Terms:
        """Weigh the terms of a text."""
        encoded = self.tokenizer.encode(text[: self.max_tokens * CHARACTERS_A_TOKEN])
        logits = self.network.strongest(np.array(encoded.ids, dtype=np.int64))
        terms = np.flatnonzero(logits > 0)
        return Terms(terms, np.log1p(logits[terms]))


@lru_cache(maxsize=1)
def _loaded(model: SparseModel, max_tokens: int) -> Splade:
    return Splade.load(model, max_tokens)
