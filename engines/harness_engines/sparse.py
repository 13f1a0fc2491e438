"""Text to weighted terms: models, stores and dot products."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from scipy.sparse import csr_array
from scipy.special import erf
from tokenizers import Tokenizer

from harness_engines.vector import bulk, embedder
from harness_engines.vector.scan import COSINE_DIGITS


@dataclass(frozen=True, slots=True)
class SparseModel(embedder.PackagedModel):
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
        weights=embedder.ModelFile(
            "cognition",
            "model/model.safetensors",
            "96e1dd8dbbc82439cf50677a15bcb9141172b289d20b41c9c28b621a0451a02a",
        ),
        tokenizer=embedder.ModelFile(
            "cognition",
            "model/tokenizer.json",
            "91f1def9b9391fdabe028cd3f3fcc4efd34e5d1f08c3bf2de513ebb5911a1854",
        ),
    ),
)


def sparse_model(name: str) -> SparseModel:
    """Look a model up."""
    return embedder.called(name, MODELS, "sparse model")


Single = NDArray[np.float32]
Tensors = Mapping[str, Single]
NORM_EPSILON = np.float32(1e-12)
WORDS, COLUMNS = "bert.embeddings.word_embeddings.weight", "word columns"
"""The table of word embeddings, shape (terms, width), and the same transposed."""
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
        """Read the model's files; text beyond ``max_tokens`` is not read."""
        tokenizer = embedder.tokenizer_of(model.tokenizer.path(), max_tokens)
        tensors = load_file(str(model.weights.path()))
        return cls(model, max_tokens, tokenizer, MaskedWords.of(tensors, model.layers, model.heads))

    def __reduce__(self) -> tuple[Callable[[SparseModel, int], Splade], tuple[SparseModel, int]]:
        """Return how another process loads the same model, once."""
        return loaded, (self.model, self.max_tokens)

    @property
    def identity(self) -> str:
        """Everything that terms depend on beside their text; two that differ share no cache."""
        return f"{self.model.identity}, {self.max_tokens} tokens, numpy {np.__version__}"

    def encode(self, text: str) -> Terms:
        """Weigh the terms of a text."""
        encoded = self.tokenizer.encode(text[: self.max_tokens * embedder.CHARACTERS_A_TOKEN])
        logits = self.network.strongest(np.array(encoded.ids, dtype=np.int64))
        terms = np.flatnonzero(logits > 0)
        return Terms(terms, np.log1p(logits[terms]))


@lru_cache(maxsize=1)
def loaded(model: SparseModel, max_tokens: int) -> Splade:
    """Load a model once a process; it never changes."""
    return Splade.load(model, max_tokens)


@dataclass(frozen=True, slots=True, eq=False)
class MaskedWords:
    """Embeddings, layers, and the head whose last map is the table of word embeddings itself."""

    tensors: Tensors
    """By their names in the model's file; a linear map has the shape (in, out)."""
    layers: int
    heads: int

    @classmethod
    def of(cls, tensors: Tensors, layers: int, heads: int) -> Self:
        """Turn the maps of a file; query, key and value become one, side by side."""
        held = dict(tensors)
        for layer in range(layers):
            own = f"bert.encoder.layer.{layer}.attention.self"
            for kind in ("weight", "bias"):
                three = [tensors[f"{own}.{part}.{kind}"] for part in ("query", "key", "value")]
                held[f"{own}.{kind}"] = np.concatenate(three)
        maps = [name for name in held if name.endswith(".weight") and "embedding" not in name]
        held |= {name: np.ascontiguousarray(held[name].T) for name in maps}
        held[COLUMNS] = np.ascontiguousarray(held[WORDS].T)
        return cls(held, layers, heads)

    def strongest(self, ids: NDArray[np.int64]) -> Single:
        """Highest logit of each term over the tokens of one text; shape (terms,)."""
        places = self.tensors["bert.embeddings.position_embeddings.weight"][: len(ids)]
        kind = self.tensors["bert.embeddings.token_type_embeddings.weight"][0]
        x = self._normed("bert.embeddings", self.tensors[WORDS][ids] + (places + kind))
        for layer in range(self.layers):
            x = self._layer(f"bert.encoder.layer.{layer}", x)
        head = "cls.predictions.transform"
        x = self._normed(head, gelu(self._mapped(f"{head}.dense", x)))
        columns = self.tensors[COLUMNS]
        highest = np.empty(columns.shape[1], dtype=np.float32)
        for low in range(0, len(highest), VOCABULARY_BLOCK):
            block = slice(low, low + VOCABULARY_BLOCK)
            np.max(x @ columns[:, block], axis=0, out=highest[block])
        strongest: Single = highest + self.tensors["cls.predictions.bias"]
        return strongest

    def _layer(self, name: str, x: Single) -> Single:
        """Self-attention, then two maps with a GELU between; each is added to what came in."""
        tokens, width = x.shape
        parts = self._mapped(f"{name}.attention.self", x)
        query, key, value = parts.reshape(tokens, 3, self.heads, -1).transpose(1, 2, 0, 3)
        likeness = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(width // self.heads))
        risen = np.exp(likeness - likeness.max(axis=-1, keepdims=True))
        seen = risen / risen.sum(axis=-1, keepdims=True) @ value
        mixed = seen.transpose(1, 0, 2).reshape(tokens, width)
        out = f"{name}.attention.output"
        x = self._normed(out, x + self._mapped(f"{out}.dense", mixed))
        wide = gelu(self._mapped(f"{name}.intermediate.dense", x))
        return self._normed(f"{name}.output", x + self._mapped(f"{name}.output.dense", wide))

    def _mapped(self, name: str, x: Single) -> Single:
        return x @ self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]

    def _normed(self, name: str, x: Single) -> Single:
        """Layer norm over the last axis."""
        gamma, beta = (self.tensors[f"{name}.LayerNorm.{part}"] for part in ("gamma", "beta"))
        centred = x - x.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + NORM_EPSILON)
        scaled: Single = centred / spread * gamma + beta
        return scaled


def gelu(x: Single) -> Single:
    """Weigh x by Phi(x), with the error function and not its approximation by tanh."""
    bent: Single = np.float32(0.5) * x * (1 + erf(x * np.float32(np.sqrt(0.5))))
    return bent


Ints = NDArray[np.int64]
Row = tuple[Ints, NDArray[np.float16]]
"""Terms of a text, and their weights."""


def stacked(rows: Sequence[Row], vocabulary: int) -> csr_array:
    """Stack the terms and weights of texts, shape (texts, vocabulary)."""
    ends = np.cumsum([0, *(len(terms) for terms, _ in rows)])
    terms = np.concatenate([np.zeros(0, dtype=np.int32), *(terms for terms, _ in rows)])
    weights = np.concatenate([np.zeros(0, dtype=np.float32), *(some for _, some in rows)])
    return csr_array((weights, terms, ends), shape=(len(rows), vocabulary))


def dots(store: csr_array, query: Terms, rows: Ints) -> NDArray[np.float64]:
    """Dot product of ``query`` with each of ``rows``, shape (rows,), not bounded above."""
    asked = np.zeros(store.shape[1])
    asked[query.terms] = query.weights
    return np.round(store[rows] @ asked, COSINE_DIGITS)


SPARSE = "sparse"
"""Folder of the cache."""


def encode_all(texts: Sequence[str], encoder: Splade, cache: Path) -> list[Row]:
    """Weigh the terms of ``texts``, in half precision; row n is that of text n."""
    folder = cache / SPARSE / hashlib.sha256(encoder.identity.encode()).hexdigest()[:16]
    keys = [bulk.key_of(text) for text in texts]
    wanted = frozenset(keys)
    columns = partial(bulk.rows_of, folder, "terms", "vectors", wanted=wanted)
    held = {key for key, _ in columns()}
    missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in held}
    bulk.make_parts(missing, partial(_encoded, encoder), _write, folder)
    by_key = {key: (terms, weights) for key, (terms, weights) in columns()}
    return [by_key[key] for key in keys]


def _encoded(encoder: Splade, batch: Sequence[str]) -> list[Terms]:
    return [encoder.encode(text) for text in batch]


def _write(part: bulk.Part, made: Sequence[list[Terms]], path: Path) -> None:
    found = [terms for batch in made for terms in batch]
    weights = np.concatenate([each.weights for each in found]).astype(np.float16)
    terms = np.concatenate([each.terms for each in found])
    lengths = np.array([len(each.terms) for each in found], dtype=np.int64)
    bulk.save(path, part, weights, terms=terms, lengths=lengths)
