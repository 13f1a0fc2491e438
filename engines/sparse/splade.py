"""Text to weighted terms of a vocabulary, also such as the text does not hold.

Formal, Lassance, Piwowarski and Clinchant, "SPLADE v2: Sparse Lexical and Expansion Model for
Information Retrieval", 2021: a term weighs max over tokens of log(1 + relu(logit)).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from scipy.special import erf
from tokenizers import Tokenizer

from engines.sparse.models import SparseModel
from engines.vector.onnx import CHARACTERS_A_TOKEN

Single = NDArray[np.float32]
Tensors = Mapping[str, Single]
NORM_EPSILON = np.float32(1e-12)
VOCABULARY_BLOCK = 4096
"""Terms predicted at a time; predictions of all tokens then stay in the processor's cache."""


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


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """x @ weight + bias; ``weight`` has the shape (in, out)."""

    weight: Single
    bias: Single

    @classmethod
    def of(cls, tensors: Tensors, *names: str) -> Self:
        """Join the maps called ``names`` side by side; files hold them as (out, in)."""
        weights = [tensors[f"{name}.weight"].T for name in names]
        biases = [tensors[f"{name}.bias"] for name in names]
        return cls(np.ascontiguousarray(np.hstack(weights)), np.concatenate(biases))

    def __call__(self, x: Single) -> Single:
        return x @ self.weight + self.bias


@dataclass(frozen=True, slots=True, eq=False)
class Norm:
    """Layer norm over the last axis."""

    gamma: Single
    beta: Single

    @classmethod
    def of(cls, tensors: Tensors, name: str) -> Self:
        return cls(tensors[f"{name}.LayerNorm.gamma"], tensors[f"{name}.LayerNorm.beta"])

    def __call__(self, x: Single) -> Single:
        centred = x - x.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + NORM_EPSILON)
        scaled: Single = centred / spread * self.gamma + self.beta
        return scaled


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """Self-attention, then two maps with a GELU between; each added to what came in."""

    heads: int
    asked: Linear
    """Query, key and value side by side."""
    mixed: Linear
    mixed_norm: Norm
    wide: Linear
    narrow: Linear
    narrow_norm: Norm

    @classmethod
    def of(cls, tensors: Tensors, name: str, heads: int) -> Self:
        own = f"{name}.attention.self"
        return cls(
            heads,
            Linear.of(tensors, f"{own}.query", f"{own}.key", f"{own}.value"),
            Linear.of(tensors, f"{name}.attention.output.dense"),
            Norm.of(tensors, f"{name}.attention.output"),
            Linear.of(tensors, f"{name}.intermediate.dense"),
            Linear.of(tensors, f"{name}.output.dense"),
            Norm.of(tensors, f"{name}.output"),
        )

    def __call__(self, x: Single) -> Single:
        tokens, width = x.shape
        parts = self.asked(x).reshape(tokens, 3, self.heads, width // self.heads)
        query, key, value = parts.transpose(1, 2, 0, 3)
        likeness = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(width // self.heads))
        seen = softmax(likeness) @ value
        x = self.mixed_norm(x + self.mixed(seen.transpose(1, 0, 2).reshape(tokens, width)))
        return self.narrow_norm(x + self.narrow(gelu(self.wide(x))))


@dataclass(frozen=True, slots=True, eq=False)
class MaskedWords:
    """Embeddings, layers, and the head whose last map is the table of word embeddings itself."""

    words: Single
    """Shape (terms, width)."""
    places: Single
    """Shape (longest text, width); what kind of sentence it is has been added."""
    first_norm: Norm
    layers: tuple[Layer, ...]
    turned: Linear
    turned_norm: Norm
    columns: Single
    """``words`` transposed, shape (width, terms)."""
    bias: Single

    @classmethod
    def of(cls, tensors: Tensors, layers: int, heads: int) -> Self:
        """Take the tensors of a file apart.

        Raises:
            KeyError: one of them is not there.
        """
        words = tensors["bert.embeddings.word_embeddings.weight"]
        kind = tensors["bert.embeddings.token_type_embeddings.weight"][0]
        head = "cls.predictions.transform"
        return cls(
            words,
            tensors["bert.embeddings.position_embeddings.weight"] + kind,
            Norm.of(tensors, "bert.embeddings"),
            tuple(Layer.of(tensors, f"bert.encoder.layer.{n}", heads) for n in range(layers)),
            Linear.of(tensors, f"{head}.dense"),
            Norm.of(tensors, head),
            np.ascontiguousarray(words.T),
            tensors["cls.predictions.bias"],
        )

    def strongest(self, ids: NDArray[np.int64]) -> Single:
        """Highest logit of each term over the tokens of one text; shape (terms,).

        ``ids`` has the shape (tokens,), with at least one.
        """
        x = self.first_norm(self.words[ids] + self.places[: len(ids)])
        for layer in self.layers:
            x = layer(x)
        x = self.turned_norm(gelu(self.turned(x)))
        highest = np.empty(len(self.words), dtype=np.float32)
        for low in range(0, len(highest), VOCABULARY_BLOCK):
            block = slice(low, low + VOCABULARY_BLOCK)
            np.max(x @ self.columns[:, block], axis=0, out=highest[block])
        strongest: Single = highest + self.bias
        return strongest


def gelu(x: Single) -> Single:
    """Weigh x by Phi(x), with the error function and not its approximation by tanh."""
    half, root = np.float32(0.5), np.float32(np.sqrt(0.5))
    bent: Single = half * x * (1 + erf(x * root))
    return bent


def softmax(x: Single) -> Single:
    """Shares along the last axis."""
    risen = np.exp(x - x.max(axis=-1, keepdims=True))
    shares: Single = risen / risen.sum(axis=-1, keepdims=True)
    return shares
