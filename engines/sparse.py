"""Text to weighted terms: models, stores and dot products."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from scipy.special import erf
from tokenizers import Tokenizer

from engines.vector import bulk
from engines.vector.embedder import CHARACTERS_A_TOKEN, ModelFile, PackagedModel, called
from engines.vector.scan import COSINE_DIGITS


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
    """Look a model up."""
    return called(name, MODELS, "sparse model")


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
        """Read the model's files; text beyond ``max_tokens`` is not read."""
        tokenizer = Tokenizer.from_file(str(model.tokenizer.path()))
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_tokens)
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
        encoded = self.tokenizer.encode(text[: self.max_tokens * CHARACTERS_A_TOKEN])
        logits = self.network.strongest(np.array(encoded.ids, dtype=np.int64))
        terms = np.flatnonzero(logits > 0)
        return Terms(terms, np.log1p(logits[terms]))


@lru_cache(maxsize=1)
def loaded(model: SparseModel, max_tokens: int) -> Splade:
    """Load a model once a process; it never changes."""
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
        """Take the tensors of a file apart."""
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


Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class SparseStore:
    """Compressed rows: those of text n lie from ``offsets[n]`` up to ``offsets[n + 1]``."""

    vocabulary: int
    offsets: Ints
    """Shape (texts + 1,)."""
    terms: NDArray[np.uint16]
    weights: NDArray[np.float16]

    @classmethod
    def of(cls, rows: Sequence[tuple[Ints, NDArray[np.float16]]], vocabulary: int) -> SparseStore:
        """Concatenate rows of terms and weights."""
        if vocabulary > 1 << 16:
            raise ValueError(f"a vocabulary of {vocabulary} terms does not fit 16 bits")
        lengths = [len(terms) for terms, _ in rows]
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
        nothing = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float16)
        terms = np.concatenate([nothing[0], *(terms for terms, _ in rows)])
        weights = np.concatenate([nothing[1], *(weights for _, weights in rows)])
        return cls(vocabulary, offsets, terms.astype(np.uint16), weights)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def dots(self, query: Terms, rows: Ints) -> NDArray[np.float64]:
        """Dot product of ``query`` with each of ``rows``, shape (rows,), not bounded above.

        Rounded to ``COSINE_DIGITS``, below which processors differ.
        """
        asked = np.zeros(self.vocabulary)
        asked[query.terms] = query.weights
        starts, lengths = self.offsets[rows], np.diff(self.offsets)[rows]
        owner = np.repeat(np.arange(len(rows)), lengths)
        before = np.cumsum(lengths) - lengths
        at = np.arange(len(owner)) - before[owner] + starts[owner]
        parts = asked[self.terms[at]] * self.weights[at]
        return np.round(np.bincount(owner, parts, minlength=len(rows)), COSINE_DIGITS)


SPARSE = "sparse"
"""Folder of the cache."""


class SparseEncoder(Protocol):
    """Maps text to weighted terms; the same text always to the same."""

    @property
    def identity(self) -> str:
        """Everything that the terms depend on beside the text."""
        ...

    def encode(self, text: str) -> Terms:
        """Weigh the terms of one text."""
        ...


class Kept(NamedTuple):
    """One part file."""

    keys: list[bytes]
    ends: NDArray[np.int64]
    """Where the terms of each text end; those of the next one begin there."""
    terms: NDArray[np.int64]
    weights: NDArray[np.float16]


def encode_all(
    texts: Sequence[str], encoder: SparseEncoder, vocabulary: int, cache: Path
) -> SparseStore:
    """Weigh the terms of ``texts``, in half precision; row n is that of text n.

    Only texts never seen before cost anything.
    """
    folder = cache / SPARSE / hashlib.sha256(encoder.identity.encode()).hexdigest()[:16]
    keys = [bulk.key_of(text) for text in texts]
    wanted = frozenset(keys)
    held = {key for kept in _parts(folder, wanted) for key in kept.keys}
    missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in held}
    bulk.make_parts(missing, partial(_encoded, encoder), _write, folder)
    by_key: dict[bytes, tuple[NDArray[np.int64], NDArray[np.float16]]] = {}
    for kept in _parts(folder, wanted):
        cuts = kept.ends[:-1]
        rows = zip(np.split(kept.terms, cuts), np.split(kept.weights, cuts), strict=True)
        by_key.update(zip(kept.keys, rows, strict=True))
    return SparseStore.of([by_key[key] for key in keys], vocabulary)


def _encoded(encoder: SparseEncoder, batch: Sequence[str]) -> list[Terms]:
    return [encoder.encode(text) for text in batch]


def _write(part: bulk.Part, made: Sequence[list[Terms]], path: Path) -> None:
    found = [terms for batch in made for terms in batch]
    weights = np.concatenate([each.weights for each in found]).astype(np.float16)
    terms = np.concatenate([each.terms for each in found])
    lengths = np.array([len(each.terms) for each in found], dtype=np.int64)
    bulk.save(path, part, weights, terms=terms, lengths=lengths)


def _parts(folder: Path, wanted: Collection[bytes]) -> Iterator[Kept]:
    columns = bulk.parts_of(folder, "lengths", "terms", "vectors", wanted=wanted)
    for keys, (lengths, terms, weights) in columns:
        ends = np.cumsum(lengths)
        if len(ends) == len(keys) and ends[-1] == len(terms) == len(weights):
            yield Kept(keys, ends, terms, weights)
